"""Schedules, at their ends and by hand in between."""

from __future__ import annotations

import math

import pytest
import torch

from labelproof import functional as fn


@pytest.mark.parametrize(
    ("epoch", "expected"), [(0, 0), (10, 0), (14, 0.25), (18, 0.5), (26, 1), (300, 1)]
)
def test_ramp(epoch, expected):
    assert fn.ramp(epoch, 10) == expected


def test_ramp_without_length_is_a_step():
    assert [fn.ramp(e, 3, 0) for e in (2.9, 3.0, 4.0)] == [0.0, 1.0, 1.0]
    assert [fn.ramp(e, 3, 1) for e in (3.0, 3.25, 4.0)] == [0.0, 0.25, 1.0]


def test_sigmoid_ramp():
    assert fn.sigmoid_ramp(0, 80) == pytest.approx(math.exp(-5))
    assert fn.sigmoid_ramp(40, 80) == pytest.approx(math.exp(-1.25))
    assert fn.sigmoid_ramp(80, 80) == fn.sigmoid_ramp(500, 80) == fn.sigmoid_ramp(3, 0) == 1.0


def test_step_decay():
    rates = [fn.step_decay(0.02, e, (150, 200)) for e in (0, 149, 150, 199, 200)]
    assert rates == pytest.approx([0.02, 0.02, 0.002, 0.002, 0.0002])
    assert fn.step_decay(1.0, 5, (2, 4), factor=0.5) == 0.25
    assert fn.step_decay(1.0, 5, ()) == 1.0


def test_stair_decay_has_its_steps_at_shares_of_the_epochs():
    rates = [fn.stair_decay(1.0, e, 7, (0.5, 0.9), 0.5) for e in range(7)]
    assert rates == [fn.step_decay(1.0, e, (4, 6), 0.5) for e in range(7)]  # 3.5 rounds to even
    assert fn.stair_decay(0.02, 9, 10, (0.5,)) == fn.step_decay(0.02, 9, (5,))


def test_the_smallest_losses_of_every_class_are_found():
    losses = torch.tensor([0.3, 0.1, 0.1, 0.9, 0.2, 0.7])
    labels = torch.tensor([0, 0, 0, 2, 2, 2])
    half = fn.smallest_per_class(losses, labels, lambda size: round(size / 2))
    assert half.nonzero().squeeze(1).tolist() == [1, 2, 4, 5]  # 1.5 rounds to 2
    one = fn.smallest_per_class(losses, labels, lambda size: 0)
    assert one.nonzero().squeeze(1).tolist() == [1, 4]  # the first of equals; never none


def test_cosine_decay_follows_the_library():
    parameter = torch.nn.Parameter(torch.zeros(1))
    optimiser = torch.optim.SGD([parameter], lr=0.1)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimiser, T_max=20, eta_min=0.01)
    for epoch in range(21):
        expected = schedule.get_last_lr()[0]
        assert fn.cosine_decay(0.1, epoch, 20, floor=0.01) == pytest.approx(expected)
        optimiser.step()
        schedule.step()
    assert fn.cosine_decay(0.1, 99, 20, floor=0.01) == pytest.approx(0.01)


def test_one_cycle_climbs_falls_and_has_its_peak_where_asked():
    points = {0: 0.2, 2: 0.6, 4: 1.0, 10: 0.5, 16: 0.0, 20: 0.0}
    for epoch, rate in points.items():
        assert fn.one_cycle(3.0, epoch, 16, peak=0.25) == pytest.approx(3 * rate)
    assert fn.one_cycle(1.0, 0, 16, peak=0.0) == 1.0


def test_schedules_of_no_epochs_are_at_their_end():
    assert fn.cosine_decay(0.1, 0, 0, floor=0.01) == pytest.approx(0.01)
    assert fn.one_cycle(1.0, 0, 0) == 0.0
