"""Backward correction: unbiased, bounded, and careful with matrices that have no inverse."""

from __future__ import annotations

import math

import pytest
import torch
import torch.nn.functional as F
from test_forward import LABELS, LOGITS, LOPSIDED, T, corrupted

from labelproof import functional as fn
from labelproof.errors import BadInput
from labelproof.methods.loss_correction import Backward, backward_loss
from labelproof.recipes.recipe import own_data, published
from tiny import blobs


def test_without_noise_it_is_cross_entropy():
    loss = backward_loss(LOGITS, LABELS, torch.eye(3).double())
    torch.testing.assert_close(loss, F.cross_entropy(LOGITS, LABELS, reduction="none"))


def test_over_the_given_labels_it_is_the_loss_of_the_true_one():
    inverse = torch.linalg.inv(T)
    for row in LOGITS:
        losses = backward_loss(row.expand(3, 3), torch.arange(3), inverse)
        torch.testing.assert_close(T @ losses, -row.log_softmax(0))


def test_its_slope():
    logits = LOGITS.clone().requires_grad_()
    inverse = torch.linalg.inv(T)
    assert torch.autograd.gradcheck(lambda z: backward_loss(z, LABELS, inverse), logits)


def test_it_is_negative_at_times_but_bounded():
    inverse = torch.linalg.inv(T)
    sure = torch.tensor([[0.0, -900.0, 0.0]] * 3, dtype=torch.float64)
    losses = backward_loss(sure, torch.arange(3), inverse)
    assert losses.min() < 0
    assert losses.abs().max() <= inverse.abs().sum(1).max() * -math.log(1e-7)


def test_it_undoes_lopsided_noise():
    problem = corrupted()
    method = Backward(epochs=12, batch=16, lr=0.01, transition=LOPSIDED)
    last = problem.train(method).history[-1]
    assert last["test_accuracy"] > 0.85
    assert last["error_auroc"] > 0.85


def test_it_estimates_a_matrix_with_an_inverse():
    result = corrupted(size=60).train(Backward(epochs=6, batch=16, lr=0.02, max_condition=4.0))
    assert [line["phase"] for line in result.history] == ["estimate"] * 3 + ["train"] * 3
    assert torch.linalg.cond(result.state.transition.double()) <= 4.0
    torch.testing.assert_close(result.state.transition.sum(1), torch.ones(3))


def test_published_settings_leave_an_estimate_alone_that_own_data_would_temper():
    alike = torch.tensor([[0.5, 0.5], [0.498, 0.502]])
    assert torch.linalg.cond(alike.double()) > 400
    recipe = published("backward", "cifar10-symmetric-0.5")
    assert torch.equal(fn.conditioned(alike, recipe.max_condition), alike)
    assert not torch.equal(
        fn.conditioned(alike, own_data("backward", "images").max_condition), alike
    )


def test_settings():
    with pytest.raises(BadInput, match="has no inverse"):
        Backward(transition=(0.5, 0.5, 0.5, 0.5)).setup(blobs(size=8, classes=2).run())
    with pytest.raises(BadInput, match="at least 2"):
        Backward(epochs=1)
