"""A run in a process of its own, which tells of every step so that it can be killed at any."""

from __future__ import annotations

from multiprocessing.connection import Connection
from pathlib import Path

import torch

from labelproof.methods.dpc import DPC
from labelproof.training.log import Reporter
from labelproof.training.loop import Result
from tiny import patterns

METHOD = DPC(epochs=12, warmup=4, batch=8, lr=0.02, lambda_u=5.0, ramp=4.0)


class Telling(Reporter):
    """Sends a word for every step."""

    def __init__(self, pipe: Connection) -> None:
        self._pipe = pipe

    def start(self, name: str, epochs: int, done: int, unit: str = "epochs") -> None:
        self._pipe.send(done)

    def step(self) -> None:
        self._pipe.send("step")


def train(folder: Path | None = None, reporter: Reporter | None = None) -> Result:
    """The run, from where the folder stands."""
    resume = folder is not None
    return patterns(size=40).train(METHOD, folder=folder, resume=resume, reporter=reporter)


def work(folder: Path, pipe: Connection) -> None:
    """What the process does."""
    torch.set_num_threads(1)
    train(folder, Telling(pipe))
