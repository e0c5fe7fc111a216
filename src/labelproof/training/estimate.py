"""How long and how large a run will be, measured on a few batches of the data itself."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import torch

from labelproof.data.examples import Subset
from labelproof.data.task import Task
from labelproof.training.checkpoint import networks
from labelproof.training.loop import predict
from labelproof.training.protocol import Method, Phase
from labelproof.training.run import Precision, Run, Trunk

SAMPLE = 1024  # training examples the measurement uses


@dataclass(frozen=True, kw_only=True)
class Estimate:
    """What a run will take."""

    phases: dict[str, tuple[int, float]]  # epochs and seconds an epoch, by phase
    parameters: int  # of all networks
    data_bytes: int  # of the raw inputs, if resident

    @property
    def seconds(self) -> float:
        """The whole plan."""
        return sum(epochs * seconds for epochs, seconds in self.phases.values())


def clock(device: torch.device) -> float:
    """Seconds, once all that a GPU was given to do is done."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)
    elif device.type == "mps":
        torch.mps.synchronize()
    return time.perf_counter()


def entered(method: Method, state: Any, run: Run) -> Iterator[Phase]:
    """Every phase with epochs, at the start of its first one."""
    epoch = 0
    for phase in method.plan():
        if phase.epochs:
            run.begin(epoch)
            epoch += phase.epochs
            if phase.enter:
                phase.enter(state, run)
            yield phase


def estimate(
    task: Task,
    method: Method,
    trunk: Trunk,
    device: torch.device,
    precision: Precision = "auto",
    sample: int = SAMPLE,
) -> Estimate:
    """Train each phase for one epoch on a few examples and scale up to the whole set."""
    rows = torch.linspace(0, task.size - 1, min(sample, task.size)).long()
    few = replace(task.part(Subset(task.x, rows), rows), fixed=None)
    scale = task.size / len(rows)
    with torch.random.fork_rng(devices=[]):
        run = Run(few, trunk, device=device, seed=0, precision=precision)
        state = method.setup(run)
        parameters = sum(p.numel() for net in networks(state).values() for p in net.parameters())
        predict(method, state, few.x, few, device)  # the first pass pays for set-up
        phases = {}
        for phase in entered(method, state, run):
            start = clock(device)
            phase.epoch(state, run)
            phases[phase.name] = (phase.epochs, (clock(device) - start) * scale)
    one = task.x.take(torch.zeros(1, dtype=torch.int64))
    held = one.numel() * one.element_size() * task.size if task.x.resident else 0
    return Estimate(phases=phases, parameters=parameters, data_bytes=held)
