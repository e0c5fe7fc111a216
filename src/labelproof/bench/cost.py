"""What an epoch costs, counted: passes through the network, for networks too slow to measure.

A forward pass of one example is 1, each backward pass through it 2. Derivatives of a backward pass
itself are not seen, so a method that takes them costs more than is counted.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import torch
from torch import Tensor, nn

from labelproof.data.examples import Subset
from labelproof.data.task import Task
from labelproof.training.estimate import clock, entered
from labelproof.training.protocol import Method
from labelproof.training.run import Run, Trunk

SAMPLE = 512  # training examples that passes are counted on
BATCH = 32  # examples of the measured pass


class Counting(nn.Module):
    """A trunk that hardly computes, and counts what goes through it."""

    features = 8

    def __init__(self, add: Callable[[float], None]) -> None:
        super().__init__()
        self.layer = nn.Linear(1, self.features)
        self._add = add  # a function, as copies of the network share it

    def forward(self, x: Tensor) -> Tensor:
        """(B, ...) to (B, 8)."""
        self._add(len(x))
        out: Tensor = self.layer(x.flatten(1).mean(1, keepdim=True))
        if out.requires_grad:
            out.register_hook(lambda slope: self._add(2.0 * len(slope)))  # type: ignore[no-untyped-call]
        return out


def units(task: Task, method: Method) -> float:
    """Passes an example costs over all epochs; the split is that of a network that knows little."""
    rows = torch.linspace(0, task.size - 1, min(SAMPLE, task.size)).long()
    few = replace(task, x=Subset(task.x, rows), y=task.y[rows], fixed=None)
    counted, total = [0.0], 0.0

    def add(passes: float) -> None:
        counted[0] += passes

    with torch.random.fork_rng(devices=[]):
        run = Run(few, lambda: Counting(add), device=torch.device("cpu"), seed=0)
        state = method.setup(run)
        for phase in entered(method, state, run):
            counted[0] = 0.0
            phase.epoch(state, run)
            total += phase.epochs * counted[0] / len(rows)
    return total


def pass_seconds(task: Task, trunk: Trunk, device: torch.device) -> float:
    """Seconds of one forward pass of one example, a third of a pass that is trained on."""
    net = trunk().to(device)
    x = task.views.plain(task.x.take(torch.arange(min(BATCH, task.size))).to(device))
    net(x).mean().backward()  # the first pass pays for set-up
    start = clock(device)
    net(x).mean().backward()
    return (clock(device) - start) / 3 / len(x)
