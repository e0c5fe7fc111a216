"""What the host reads of a device in every step: it waits there, so methods read at the end.

Each method is trained on few and on many examples. What it reads more often with more steps is read
in every step. The host's own numbers, such as the weight of a mixture, are
drawn elsewhere (`functional`, `training`) and do not count.
"""

from __future__ import annotations

import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
import torch
from torch.overrides import TorchFunctionMode

import tiny
from cases import CASES
from labelproof.training import loop
from labelproof.training.run import Run

METHODS = f"labelproof{Path('/methods/')}"
READS = ("item", "tolist", "nonzero", "__bool__", "__int__", "__float__", "cpu", "masked_select")
# methods whose next operation depends on what a step finds: how many rows, or a plain number
IN_EVERY_STEP = {
    "coteaching_plus": "rows on which the networks differ",
    "cores": "rows that passed the sieve",
    "decoupling": "rows on which the networks differ",
    "mentornet": "weight decay of the step",
    "promix": "rows of the clean part",
    "unicon": "whether a batch has guessed labels",
}


class Reading(TorchFunctionMode):
    """Counts what methods read, by line."""

    def __init__(self) -> None:
        super().__init__()
        self.lines: Counter[str] = Counter()

    def __torch_function__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None):
        caller = sys._getframe(1).f_code.co_filename
        if METHODS in caller and reads(function.__name__, args):
            self.lines[f"{Path(caller).stem}, {function.__name__}"] += 1
        return function(*args, **(kwargs or {}))


def reads(name: str, args: Any) -> bool:
    if name in ("__getitem__", "__setitem__"):  # a mask becomes rows, as many as are true
        places = args[1] if isinstance(args[1], tuple) else (args[1],)
        return any(isinstance(p, torch.Tensor) and p.dtype == torch.bool for p in places)
    return name in READS


def lines_of(name: str, size: int) -> Counter[str]:
    """What a method reads in all its epochs."""
    problem, method, seen = tiny.blobs(size=size), CASES[name], Reading()
    with torch.random.fork_rng(devices=[]):
        run = Run(problem.task, problem.trunk, device=tiny.CPU, seed=0)
        state = method.setup(run)
        for epoch, phase, first, last in loop._epochs(method, 0):
            run.begin(epoch)
            if first and phase.enter:
                phase.enter(state, run)
            with seen:
                phase.epoch(state, run)
            if last and phase.leave:
                phase.leave(state, run)
    return seen.lines


@pytest.mark.parametrize("name", [name for name in CASES if name != "linear"])
def test_a_step_waits_only_where_it_must(name):
    more = lines_of(name, 288) - lines_of(name, 96)
    assert bool(more) == (name in IN_EVERY_STEP), more
