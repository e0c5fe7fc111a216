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
