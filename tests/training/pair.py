"""Two real processes that train together, for tests; each calls the same function."""

from __future__ import annotations

import os
import sys
import traceback
from collections.abc import Callable
from dataclasses import replace
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist

import tiny
from cases import CASES, WITH_EDL
from forks import forks
from labelproof.__main__ import main
from labelproof.data.examples import Inputs
from labelproof.judging.crossfit import Retraining
from labelproof.judging.tune import choose_lambda_u
from labelproof.methods.dpc import DPC
from labelproof.nets import sockets
from labelproof.training import ranks
from labelproof.training.loop import predict
from labelproof.training.trained import revive, trained, without_examples

WORLD = 2
PATIENCE = 400.0  # seconds; a busy machine can take two minutes for all methods
METHODS = CASES | WITH_EDL
Outcome = tuple[Any, Any]  # probabilities and clean probabilities, as arrays


def together(target: Callable[..., Any], folder: Path, *args: Any) -> list[Any]:
    """What `target(*args)` gives on each of two processes that have joined."""
    context = forks()
    started = []
    for rank in range(WORLD):
        ours, theirs = context.Pipe(duplex=False)
        process = context.Process(target=_work, args=(rank, folder, theirs, target, args))
        process.start()
        theirs.close()
        started.append((process, ours))
    answers = []
    for process, pipe in started:
        assert pipe.poll(PATIENCE), "a process has not answered"
        answers.append(pipe.recv())
        process.join(PATIENCE)
    for failed in (answer for answer in answers if isinstance(answer, Failure)):
        raise AssertionError(str(failed))
    return answers


class Failure(str):
    """What went wrong in a process."""


def _work(
    rank: int, folder: Path, pipe: Connection, target: Callable[..., Any], args: tuple[Any, ...]
) -> None:
    torch.set_num_threads(1)
    store = dist.FileStore(str(folder / "meeting-place"), WORLD)  # type: ignore[attr-defined]
    dist.init_process_group("gloo", store=store, rank=rank, world_size=WORLD)
    try:
        pipe.send(target(*args))
    except BaseException:
        pipe.send(Failure(traceback.format_exc()))
    finally:
        dist.destroy_process_group()


def outcome(result: Any) -> Outcome:
    """Results as arrays, which need no shared memory on their way."""
    return result.probabilities.numpy(), result.clean.numpy()


def train_all(maker: str, size: int, names: list[str]) -> dict[str, Outcome]:
    """Every method in turn on one small problem."""
    problem = getattr(tiny, maker)(size=size)
    return {name: outcome(problem.train(METHODS[name])) for name in names}


def train_in_pieces(name: str, size: int, folder: Path) -> tuple[Outcome, Outcome]:
    """A run that is stopped after two epochs and resumed, and one that is left alone.

    The first process has the folder.
    """
    problem, own = tiny.patterns(size=size), folder if ranks.now().first else None
    stop, whole = tiny.Interrupting(after_epochs=2), problem.train(METHODS[name])
    try:
        problem.train(METHODS[name], folder=own, resume=own is not None, reporter=stop)
    except KeyboardInterrupt:
        pieces = problem.train(METHODS[name], folder=own, resume=own is not None)
        return outcome(pieces), outcome(whole)
    raise AssertionError("nothing interrupted it")


def ask_alone(size: int) -> Outcome | None:
    """What the networks of a saved model say to the first process; the other asks nothing."""
    problem = tiny.blobs(size=size)
    method, task = METHODS["ce"], problem.task
    result = problem.train(method)
    state = revive(method, without_examples(task), problem.trunk, trained(result.state), tiny.CPU)
    if not ranks.now().first:
        return None
    return result.probabilities.numpy(), predict(method, state, task.x, task, tiny.CPU).numpy()


def choose_weight(size: int) -> tuple[float, list[tuple[float, float | None]]]:
    """The weight that trials choose, and how each trial did."""
    problem = tiny.blobs(size=size)
    method = DPC(epochs=2, warmup=1, batch=64, lr=0.05, lambda_u="auto", ramp=1.0)
    again = Retraining(task=problem.task, method=method, trunk=problem.trunk, device=tiny.CPU)
    found = choose_lambda_u(again)
    return found.value, [(trial.value, trial.agreement) for trial in found.trials]


class Counting(tiny.Slow):
    """Inputs that count how many rows were read."""

    taken = 0

    def take(self, index: torch.Tensor) -> torch.Tensor:
        Counting.taken += len(index)
        return self.inner.take(index)


def read_rows(name: str, size: int) -> tuple[int, Outcome]:
    """Rows that this process has read in a run on inputs that must be fetched."""
    problem = tiny.blobs(size=size)
    fetched: Inputs = Counting(problem.task.x)
    problem = replace(problem, task=replace(problem.task, x=fetched))
    Counting.taken = 0
    result = problem.train(METHODS[name])
    return Counting.taken, outcome(result)


def command(rank: int, port: int, words: list[str], log: Path | None = None) -> None:
    """`labelproof ...` as one of the processes that `torchrun` starts.

    With a log, as on a machine of its own: no machine sees the sockets of another.
    """
    torch.set_num_threads(1)
    place = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port), "LOCAL_RANK": str(rank)}
    os.environ.update(place, RANK=str(rank), WORLD_SIZE=str(WORLD))
    if log:
        sockets.MOST = 0
        os.environ["LOCAL_RANK"] = "0"
        with log.open("wb") as file:
            for stream in (1, 2):
                os.dup2(file.fileno(), stream)
    sys.argv = ["labelproof", *words]
    main()
