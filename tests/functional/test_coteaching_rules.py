"""The small-loss rule and the schedules of Co-teaching, against NumPy and numbers by hand."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from labelproof import functional as fn


@pytest.mark.parametrize(
    ("size", "forget", "kept"),
    [(128, 0.5, 64), (128, 0.45, 70), (128, 0.2, 102), (10, 0.9, 1), (7, 0.0, 7)],
)
def test_kept_are_the_smallest_losses(size, forget, kept):
    losses = torch.randperm(size, generator=torch.Generator().manual_seed(0)).double()
    chosen = fn.small_loss(losses, forget)
    assert losses[chosen].tolist() == list(range(kept))


def test_all_are_kept_where_none_would_be():
    assert fn.small_loss(torch.tensor([3.0]), 0.5).tolist() == [0]
    assert fn.small_loss(torch.tensor([3.0, 1.0]), 1.0).tolist() == [1, 0]
    assert len(fn.small_loss(torch.zeros(0), 0.5)) == 0


def test_equal_losses_keep_their_order():
    assert fn.small_loss(torch.zeros(100), 0.5).tolist() == list(range(50))


@pytest.mark.parametrize("exponent", [1.0, 2.0])
def test_released_rise(exponent):
    expected = np.full(20, 0.5)
    expected[:10] = np.linspace(0, 0.5**exponent, 10)
    ours = [fn.forget_rate(epoch, 0.5, 10, exponent) for epoch in range(20)]
    np.testing.assert_allclose(ours, expected)


def test_rise_of_the_paper():
    linear = [fn.forget_rate(epoch, 0.5, 10, 1.0, "paper") for epoch in range(12)]
    np.testing.assert_allclose(linear, [0.05 * min(epoch, 10) for epoch in range(12)])
    # c = 2 reaches the whole rate at the square root of T_k, not a quarter of it at T_k
    assert fn.forget_rate(3, 0.5, 9, 2.0, "paper") == pytest.approx(0.5)
    assert fn.forget_rate(8, 0.5, 9, 2.0) == pytest.approx(0.25)


def test_a_rise_of_one_epoch():
    assert [fn.forget_rate(epoch, 0.4, 1) for epoch in range(3)] == [0.0, 0.4, 0.4]


def test_late_decay():
    plan = [fn.late_decay(1e-3, epoch, 200, 0.4) for epoch in range(200)]
    np.testing.assert_allclose(plan[:81], 1e-3)
    np.testing.assert_allclose(plan[80:], 1e-3 * np.arange(120, 0, -1) / 120)
    assert fn.late_decay(1.0, 4, 5, 1.0) == 1.0
