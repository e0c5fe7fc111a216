"""Cells for tests: quick ones, and ones that look finished."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

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
