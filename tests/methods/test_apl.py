"""APL: each loss by its definition, sums over labels, and limits."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
import torch.nn.functional as F

from labelproof.methods.apl import APL, absolute_error, normalised_focal

RNG = torch.Generator().manual_seed(0)
LOGITS = 3 * torch.randn(8, 5, generator=RNG, dtype=torch.float64)
LABELS = torch.arange(8) % 5


def over_labels(loss):
    return torch.stack([loss(torch.full((8,), k)) for k in range(5)])


def test_normalised_cross_entropy_is_a_share_of_the_sum_over_labels():
    losses = over_labels(lambda y: F.cross_entropy(LOGITS, y, reduction="none"))
    expected = losses.gather(0, LABELS[None]).squeeze(0) / losses.sum(0)
    torch.testing.assert_close(normalised_focal(LOGITS, LABELS, 0.0), expected)


def focal(labels, gamma):
    p = LOGITS.softmax(1).gather(1, labels[:, None]).squeeze(1)
    return -((1 - p) ** gamma) * p.log()


def test_normalised_focal_loss_is_a_share_of_the_sum_over_labels():
    losses = over_labels(lambda y: focal(y, 0.5))
    expected = losses.gather(0, LABELS[None]).squeeze(0) / losses.sum(0)
    torch.testing.assert_close(normalised_focal(LOGITS, LABELS, 0.5), expected)


@pytest.mark.parametrize("active", ["nce", "nfl"])
@pytest.mark.parametrize(("passive", "total"), [("none", 0.0), ("mae", 4.0), ("rce", 4 * 9.21034)])
def test_sum_over_labels_is_constant(active, passive, total):
    """What makes a loss robust to symmetric noise."""
    method = APL(active=active, passive=passive)
    sums = over_labels(lambda y: method.loss(LOGITS, y)).sum(0)
    torch.testing.assert_close(
        sums, torch.full((8,), 1 + total, dtype=torch.float64), rtol=1e-5, atol=0
    )


def test_reverse_cross_entropy_by_its_definition():
    given = F.one_hot(LABELS, 5).double().clamp(min=1e-4)
    reverse = -(LOGITS.softmax(1) * given.log()).sum(1)
    method = APL(active_weight=0.0, passive_weight=2.0)
    torch.testing.assert_close(method.loss(LOGITS, LABELS), 2 * reverse)


def test_absolute_error_is_half_the_distance():
    distance = (LOGITS.softmax(1) - F.one_hot(LABELS, 5)).abs().sum(1)
    torch.testing.assert_close(absolute_error(LOGITS, LABELS), distance / 2)


def test_weights_and_large_logits():
    method = APL(active_weight=10.0, passive_weight=0.1, passive="mae")
    expected = 10 * normalised_focal(LOGITS, LABELS, 0.0) + 0.1 * absolute_error(LOGITS, LABELS)
    torch.testing.assert_close(method.loss(LOGITS, LABELS), expected)
    far = torch.tensor([[1000.0, -1000.0, 0.0]], requires_grad=True)
    replace(method, passive="rce", active="nfl").loss(far, torch.tensor([1])).sum().backward()
    assert far.grad.isfinite().all()
