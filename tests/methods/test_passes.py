"""Passes through the network, counted: against those that methods' pages tell."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from labelproof.methods.ce import CrossEntropy
from labelproof.methods.mixup import Mixup
from labelproof.methods.mlnt import MLNT
from labelproof.methods.sop import SOPPlus
from labelproof.training.estimate import entered
from labelproof.training.run import Run
from tiny import CPU, patterns

STUDENT, MENTOR = 3, 2  # epochs


class Counting(nn.Module):
    """A trunk that hardly computes, and notes what goes through it; backward counts twice."""

    features = 8

    def __init__(self, seen: list[float]) -> None:
        super().__init__()
        self.layer = nn.Linear(1, self.features)
        self.add = seen.append  # a function, as copies of the network share it

    def forward(self, x):
        self.add(len(x))
        out = self.layer(x.flatten(1).mean(1, keepdim=True))
        if out.requires_grad:
            out.register_hook(lambda slope: self.add(2.0 * len(slope)))
        return out


def passes(method) -> float:
    """Of an example over all epochs; the first epoch of a phase stands for all."""
    task, seen = patterns(size=256).task, []
    run = Run(task, lambda: Counting(seen), device=CPU, seed=0)
    state, total = method.setup(run), 0.0
    for phase in entered(method, state, run):
        seen.clear()
        phase.epoch(state, run)
        total += phase.epochs * sum(seen) / task.size
    return total


@pytest.mark.parametrize(
    ("method", "expected"),
    [
        (CrossEntropy(epochs=5, batch=32), 5 * 3),
        (Mixup(epochs=5, batch=32), 5 * 3),
        (SOPPlus(epochs=5, batch=32), 5 * 6),
    ],
)
def test_passes_of_an_example(method, expected):
    with torch.random.fork_rng():
        assert passes(method) == pytest.approx(expected)


@pytest.mark.parametrize(("order", "each"), [("first", 5), ("second", 7)])
def test_imagined_steps_are_counted(order, each):
    method = MLNT(epochs=STUDENT + MENTOR, mentor_epochs=MENTOR, batch=32, synthetic=4, order=order)
    assert passes(method) == pytest.approx(STUDENT * (4 + 4 * each) + MENTOR * 3)
