"""Passes through the network, counted: against those that methods' pages tell."""

from __future__ import annotations

import pytest

from labelproof.bench.duration import units
from labelproof.methods.ce import CrossEntropy
from labelproof.methods.mixup import Mixup
from labelproof.methods.mlnt import MLNT
from labelproof.methods.sop import SOPPlus
from tiny import patterns

STUDENT, MENTOR = 3, 2  # epochs


@pytest.mark.parametrize(
    ("method", "expected"),
    [
        (CrossEntropy(epochs=5, batch=32), 5 * 3),
        (Mixup(epochs=5, batch=32), 5 * 3),
        (SOPPlus(epochs=5, batch=32), 5 * 6),
    ],
)
def test_passes_of_an_example(method, expected):
    assert units(patterns(size=256).task, method) == pytest.approx(expected)


@pytest.mark.parametrize(("order", "each"), [("first", 5), ("second", 7)])
def test_imagined_steps_are_counted(order, each):
    method = MLNT(epochs=STUDENT + MENTOR, mentor_epochs=MENTOR, batch=32, synthetic=4, order=order)
    counted = units(patterns(size=256).task, method)
    assert counted == pytest.approx(STUDENT * (4 + 4 * each) + MENTOR * 3)
