"""Losses that resist wrong labels."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor

from labelproof import functional as fn


def rng(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def logits(rows: int = 6, classes: int = 4) -> Tensor:
    return torch.randn(rows, classes, generator=rng(), dtype=torch.float64)


def test_clipping_bounds_a_sure_prediction():
    probs = fn.clipped_softmax(torch.tensor([[50.0, 0.0, 0.0]]))
    torch.testing.assert_close(probs, torch.tensor([[1 - 1e-4, 1e-4, 1e-4]]))
    torch.testing.assert_close(fn.clipped_softmax(logits()), logits().softmax(1))


def test_early_learning_penalty_has_the_slope_of_the_paper():
    z, t = logits().requires_grad_(), 0.6 * logits(6, 4).flip(0).softmax(1)
    penalty = fn.early_learning_penalty(z, t)
    penalty.sum().backward()
    p = z.detach().softmax(1)
    inner = (p * t).sum(1, keepdim=True)
    torch.testing.assert_close(penalty, (1 - inner).log().squeeze(1))
    torch.testing.assert_close(z.grad, p * (inner - t) / (1 - inner))


def test_early_learning_penalty_is_nothing_without_a_target():
    z = logits().requires_grad_()
    penalty = fn.early_learning_penalty(z, torch.zeros(6, 4))
    penalty.sum().backward()
    assert penalty.abs().max() == 0
    assert z.grad.abs().max() == 0


@pytest.mark.parametrize(("classes", "floor"), [(10, -6.909), (100, -4.615)])
def test_early_learning_penalty_ends_at_the_clip(classes, floor):
    sure = torch.zeros(1, classes, dtype=torch.float64)
    sure[0, 0] = 100.0
    clipped = fn.clipped_softmax(sure)
    penalty = fn.early_learning_penalty(sure, clipped / clipped.sum()).item()
    assert penalty == pytest.approx(floor, abs=1e-3)
    assert math.isfinite(penalty)


LABELS = torch.tensor([0, 1, 2, 3, 0, 1])


def test_noise_is_on_the_given_class_and_on_all_others():
    u, v = torch.full((6, 1), 0.5), torch.full((6, 4), 0.3)
    plus, minus = fn.label_noise(LABELS, u, v)
    given = torch.nn.functional.one_hot(LABELS, 4).bool()
    torch.testing.assert_close(plus[given], torch.full((6,), 0.25))
    torch.testing.assert_close(minus[~given], torch.full((18,), 0.09))
    assert plus[~given].abs().max() == 0
    assert minus[given].abs().max() == 0


def test_noise_ends_at_one_and_has_no_slope_there():
    u = torch.tensor([[1.5]], requires_grad=True)
    v = torch.tensor([[0.2, -1.5]], requires_grad=True)
    plus, minus = fn.label_noise(torch.tensor([0]), u, v)
    (plus.sum() + minus.sum()).backward()
    assert plus.tolist() == [[1.0, 0.0]]
    assert minus.tolist() == [[0.0, 1.0]]
    assert u.grad.item() == 0
    assert v.grad.tolist() == [[0.0, 0.0]]


def test_a_prediction_with_noise_is_a_distribution():
    probs = logits().softmax(1)
    nothing = torch.zeros_like(probs)
    torch.testing.assert_close(fn.with_noise(probs, nothing, nothing), probs)
    plus, minus = fn.label_noise(LABELS, torch.full((6, 1), 0.8), torch.full((6, 4), 0.4).double())
    noisy = fn.with_noise(probs, plus, minus)
    torch.testing.assert_close(noisy.sum(1), torch.ones(6).double(), atol=4e-4, rtol=0)  # the clip
    given = LABELS[:, None]
    assert (noisy.gather(1, given) > probs.gather(1, given)).all()


def test_noise_that_explains_a_wrong_label_leaves_the_label_itself():
    sure = torch.tensor([[0.0, 1.0, 0.0]])
    plus, minus = torch.tensor([[1.0, 0.0, 0.0]]), torch.tensor([[0.0, 1.0, 0.0]])
    noisy = fn.with_noise(sure, plus, minus)
    torch.testing.assert_close(noisy, torch.tensor([[1.0, 0.0, 0.0]]), atol=2e-4, rtol=0)
    assert fn.noise_gap(sure, torch.tensor([0]), plus, minus).item() == 0


def test_noise_gap_without_noise_counts_disagreement_twice_and_never_moves_the_network():
    z = logits().requires_grad_()
    u, v = torch.zeros(6, 1).requires_grad_(), torch.zeros(6, 4)
    gap = fn.noise_gap(z, LABELS, *fn.label_noise(LABELS, u, v))
    assert torch.equal(gap, 2.0 * (z.argmax(1) != LABELS).float())
    gap.sum().backward()
    assert z.grad is None
