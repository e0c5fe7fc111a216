"""Cells for tests: quick ones, and ones that look finished."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from functools import partial
from multiprocessing import get_context
from multiprocessing.context import BaseContext
from pathlib import Path
from types import SimpleNamespace
from typing import IO, Any

import torch

from forks import forks
from labelproof.__main__ import main
from labelproof.bench import child, command, runner
from labelproof.bench.cell import Cell, Experiment
from labelproof.bench.results import LAST, record_path
from labelproof.bench.tables import grid
from labelproof.runs.spec import RunSpec

QUICK = RunSpec(
    data="digits",
    noise="symmetric:0.4",
    method="ce",
    net="cnn",
    settings={"epochs": 1},
    calibrate="off",
)


def quick_cell(row: str = "ce") -> Cell:
    """A run of a second: one epoch of cross-entropy on the digits."""
    return Cell(row=row, column="digits", spec=QUICK)


def trial(*cells: Cell) -> Experiment:
    """An experiment of these cells."""
    return Experiment(
        name="trial",
        title="a trial",
        seeds={"paper": 1, "small": 1, "tiny": 1},
        cells=lambda scale, sources, seeds: list(cells),
        finish=lambda results, folder: grid(results, LAST, title="trial").write(folder),
    )


def finished(cell: Cell, cells: Path, summary: dict[str, object]) -> Path:
    """A folder that looks like a finished cell's."""
    folder = cells / cell.name
    folder.mkdir(parents=True)
    (folder / "summary.json").write_text(json.dumps(summary))
    record_path(cell, cells).write_text(json.dumps(cell.record()))
    return folder


def forked(
    words: list[str],
    *,
    stdout: IO[bytes],
    env: dict[str, str],
    context: BaseContext | None = None,
    **options: Any,
) -> Any:
    """Stands for `subprocess.Popen` of a cell.

    The process is real, but comes from one that has imported PyTorch, which takes seconds. Other
    processes than those of a single cell are started as usual.
    """
    if words[1:3] != ["-m", child.__name__]:
        return subprocess.Popen(words, stdout=stdout, env=env, **options)
    made = context or forks()
    process = made.Process(target=as_child, args=(words[2:], stdout.name, env))  # type: ignore[attr-defined]
    process.start()
    return Forked(process)


class Forked:
    """A process of `multiprocessing` as `subprocess` would give it."""

    def __init__(self, process: Any) -> None:
        self._process = process

    @property
    def returncode(self) -> int | None:
        return self._process.exitcode

    def poll(self) -> int | None:
        return self.returncode

    def send_signal(self, number: int) -> None:
        os.kill(self._process.pid, number)

    def kill(self) -> None:
        self._process.kill()

    def wait(self) -> None:
        self._process.join()


def as_child(words: list[str], log: str, env: dict[str, str]) -> None:
    """The process of one cell; it works for the one that it was forked from."""
    os.environ.update(env)
    torch.set_num_threads(1)
    with open(log, "ab") as file:
        for stream in (1, 2):
            os.dup2(file.fileno(), stream)
    sys.argv = [words[0], str(os.getppid()), *words[2:]]
    child.main()


def lead_bench(*words: object, cell: Cell | None = None) -> None:
    """A bench, of one cell if given, in this process, which leads a group that runs belong to."""
    os.setsid()
    stand_in = {**vars(subprocess), "Popen": partial(forked, context=get_context("fork"))}
    runner.subprocess = SimpleNamespace(**stand_in)  # type: ignore[assignment]
    if cell:
        command.experiment = lambda name: trial(cell)
    sys.argv = ["labelproof", "bench", *map(str, words)]
    main()


def bench_process(*words: object, cwd: Path) -> subprocess.Popen[str]:
    """`labelproof bench` as a process that leads a group of its own."""
    return subprocess.Popen(
        [sys.executable, "-m", "labelproof", "bench", *map(str, words)],
        cwd=cwd,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        preexec_fn=listen,
    )


def listen() -> None:
    """Let Ctrl-C count, also where the tests were started in the background of a script."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)
