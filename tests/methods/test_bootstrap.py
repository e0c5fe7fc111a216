"""Bootstrapping: both losses and their slopes."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F

from labelproof.errors import BadInput
from labelproof.methods.bootstrap import Bootstrap
from tiny import blobs

LOGITS = torch.randn(8, 5, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
LABELS = torch.arange(8) % 5


def cross_entropy(logits: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
    return F.cross_entropy(logits, labels, reduction="none")


@pytest.mark.parametrize("target", ["hard", "soft"])
def test_full_trust_is_cross_entropy(target):
    loss = Bootstrap(target=target).loss(LOGITS, LABELS, 1.0)
    torch.testing.assert_close(loss, cross_entropy(LOGITS, LABELS))


def test_soft_is_cross_entropy_and_the_entropy_of_the_prediction():
    loss = Bootstrap(target="soft").loss(LOGITS, LABELS, 0.95)
    entropy = torch.distributions.Categorical(logits=LOGITS).entropy()
    torch.testing.assert_close(loss, 0.95 * cross_entropy(LOGITS, LABELS) + 0.05 * entropy)


def test_soft_has_its_slope_through_the_target_too():
    logits = LOGITS.clone().requires_grad_()
    method = Bootstrap(target="soft")
    assert torch.autograd.gradcheck(lambda z: method.loss(z, LABELS, 0.6), logits)
    method.loss(logits, LABELS, 0.6).sum().backward()
    p = LOGITS.softmax(1)
    entropy = -(p * p.log()).sum(1, keepdim=True)
    expected = 0.6 * (p - F.one_hot(LABELS, 5)) - 0.4 * p * (p.log() + entropy)
    torch.testing.assert_close(logits.grad, expected)


def test_hard_takes_the_predicted_class_for_a_second_label():
    logits = LOGITS.clone().requires_grad_()
    loss = Bootstrap().loss(logits, LABELS, 0.8)
    predicted = LOGITS.argmax(1)
    expected = 0.8 * cross_entropy(LOGITS, LABELS) + 0.2 * cross_entropy(LOGITS, predicted)
    torch.testing.assert_close(loss, expected)
    loss.sum().backward()
    target = 0.8 * F.one_hot(LABELS, 5) + 0.2 * F.one_hot(predicted, 5)
    torch.testing.assert_close(logits.grad, LOGITS.softmax(1) - target)
    agreed = Bootstrap().loss(LOGITS, predicted, 0.8)
    torch.testing.assert_close(agreed, cross_entropy(LOGITS, predicted))


def test_trust_in_the_label():
    assert Bootstrap().label_weight(0) == 0.8
    assert Bootstrap(target="soft").label_weight(0) == 0.95
    method = Bootstrap(beta=0.7, warmup=2)
    assert [method.label_weight(epoch) for epoch in range(4)] == [1.0, 1.0, 0.7, 0.7]


@pytest.mark.parametrize("target", ["hard", "soft"])
def test_it_learns(target):
    last = blobs().train(Bootstrap(epochs=6, batch=32, lr=0.05, target=target)).history[-1]
    assert last["test_accuracy"] > 0.85
    assert last["error_auroc"] > 0.85


def test_settings():
    with pytest.raises(BadInput, match=r"beta must be a number from 0\.5 to 1"):
        Bootstrap(beta=0.3)
    with pytest.raises(BadInput, match="warmup must be smaller than epochs"):
        Bootstrap(epochs=3, warmup=3)
