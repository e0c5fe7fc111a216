"""How long a grid would take: from cells that ran already, or from one measured epoch."""

from __future__ import annotations

import json
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import typer
from rich.console import Console
from rich.table import Table

from labelproof.bench.cell import Cell
from labelproof.bench.cost import pass_seconds, units
from labelproof.bench.grid_progress import epochs_of, history
from labelproof.bench.results import is_done, same_record
from labelproof.cli.options import source_options
from labelproof.data.examples import Examples
from labelproof.data.readers import from_arrays, load
from labelproof.data.readers.published.webvision import CLASSES, EDGE
from labelproof.data.task import Task
from labelproof.errors import BadInput
from labelproof.judging.tune import settled_for_now, undecided
from labelproof.recipes.recipe import chosen_method, read_settings
from labelproof.runs.prepare import prepare
from labelproof.training.estimate import estimate
from labelproof.training.run import pick_device
from labelproof.training.settings import split_settings
from labelproof.training.trunk import make_trunk

LARGE = ("preact18", "resnet34", "inception_resnet_v2")  # too slow to measure a whole epoch of
WEBVISION = 65_944  # training images
CLEANLAB = 5  # times as long as cross-entropy: five folds of 4/5, and the last network


@dataclass(frozen=True, kw_only=True)
class Guess:
    """Seconds a cell will take, and how that is known."""

    seconds: float
    how: str  # "done", "other cells", "measured epoch" or "counted passes"


def show_estimates(cells: Sequence[Cell], runs: Path, jobs: int, console: Console) -> None:
    """Print the grid with the time of every cell and of all that are left."""
    table = Table("row", "column", "seed", "time", "from", box=None, pad_edge=False)
    with Console(stderr=True).status("measuring a few batches"):
        guesses = guess_all(cells, runs)
    for cell in cells:
        guess = guesses[cell.name]
        table.add_row(cell.row, cell.column, str(cell.seed), words(guess.seconds), guess.how)
    console.print(table)
    unique = {cell.name: cell for cell in cells}
    left = [guesses[name].seconds for name in unique if guesses[name].how != "done"]
    console.print(
        f"\n{len(unique)} cells, {len(unique) - len(left)} of them done; the others take about "
        f"{words(finish_time(left, jobs))} with --jobs {jobs}. Nothing was run.",
        highlight=False,
        soft_wrap=True,
    )


def guess_all(cells: Sequence[Cell], runs: Path) -> dict[str, Guess]:
    """A guess for every cell, by name; cells that differ in their seed alone share one."""
    known: dict[str, Guess] = {}
    by_command: dict[tuple[str, ...], Guess] = {}
    reader = Reader()
    for cell in cells:
        siblings = [c for c in cells if (c.label, c.command) == (cell.label, cell.command)]
        if is_done(cell, runs):
            known[cell.name] = Guess(seconds=ran(cell, runs) or 0.0, how="done")
            continue
        key = (cell.label, *cell.command)
        if key not in by_command:
            by_command[key] = from_others(siblings, runs) or _measured(reader, cell)
        known[cell.name] = by_command[key]
    return known


def _measured(reader: Reader, cell: Cell) -> Guess:
    """What a few batches say; a cell that will be refused is no reason to show no others."""
    try:
        return reader.measure(cell)
    except BadInput as error:
        return Guess(seconds=0.0, how=f"will fail: {error}")


def from_others(siblings: Sequence[Cell], runs: Path) -> Guess | None:
    """What the same run took with other seeds, or what its first epochs say."""
    times = [t for t in (ran(cell, runs) for cell in siblings) if t is not None]
    if not times:
        return None
    return Guess(seconds=statistics.mean(times), how="other cells")


def ran(cell: Cell, runs: Path) -> float | None:
    """Seconds that a cell took, or will take by the epochs it has behind it."""
    lines = history(runs / cell.name) if same_record(cell, runs) else []
    if not lines:
        return taken(cell, runs)
    _, epochs = epochs_of(runs / cell.name)
    return float(lines[-1]["elapsed"]) / len(lines) * epochs * calibration(cell)


def taken(cell: Cell, runs: Path) -> float | None:
    """Seconds that the summary of a finished cell tells; cleanlab keeps no curves."""
    if not is_done(cell, runs):
        return None
    summary = json.loads((runs / cell.name / "summary.json").read_text(encoding="utf-8"))
    seconds = summary.get("seconds")
    return None if seconds is None else float(seconds)


def calibration(cell: Cell) -> int:
    """2 where calibration trains the method again on halves, else 1."""
    how = dict(pairwise(cell.command)).get("--calibrate", "folds")
    return 2 if how == "folds" else 1


class Reader:
    """Measures cells; data that several cells use is read once, and so is a network's speed."""

    def __init__(self) -> None:
        self._examples: dict[tuple[str, str, str | None], Examples] = {}
        self._passes: dict[tuple[str, tuple[int, ...]], float] = {}

    def measure(self, cell: Cell) -> Guess:
        """Train a few batches of the cell's own data, or count the passes through its network."""
        options = parsed(cell)
        task = self._task(options)
        name = "ce" if cell.label == "cleanlab" else options["method"]
        changes = split_settings(options["set_"] or [])
        if options["epochs"] is not None:
            changes["epochs"] = str(options["epochs"])
        values = read_settings(name, changes, options["recipe"])
        method = chosen_method(name, task.kind, values, options["recipe"], task.size)
        tried, method = undecided(method), settled_for_now(method, task.kind)
        trunk, net = make_trunk(options["net"], task)
        if net in LARGE:
            key = (net, task.x.shape)
            if key not in self._passes:
                self._passes[key] = pass_seconds(task, trunk)
            seconds, how = units(task, method) * task.size * self._passes[key], "counted passes"
        else:
            seconds = estimate(task, method, trunk, pick_device("cpu")).seconds
            how = "measured epoch"
        if options["data"] == "webvision":
            seconds *= WEBVISION / task.size
        times = CLEANLAB if cell.label == "cleanlab" else calibration(cell)
        return Guess(seconds=seconds * times, how=f"{how}, without trials" if tried else how)

    def _task(self, options: dict[str, Any]) -> Task:
        reading = source_options(options)
        key = (options["data"], reading.label_key, str(reading.data_dir))
        if key not in self._examples:
            large = options["data"] == "webvision"  # reading it takes longer than a guess is worth
            edge = reading.image_size or EDGE
            self._examples[key] = _like_webvision(edge) if large else load(options["data"], reading)
        return prepare(self._examples[key], noise=options["noise"]).task


def _like_webvision(edge: int) -> Examples:
    """A few black pictures in the shape of WebVision's."""
    pictures = np.zeros((2 * CLASSES, edge, edge, 3), np.uint8)
    return from_arrays(pictures, np.arange(2 * CLASSES) % CLASSES)


def parsed(cell: Cell) -> dict[str, Any]:
    """The options of `labelproof fit` that a cell's command gives, with their defaults."""
    return dict(_fit().make_context("fit", list(cell.command)).params)


@lru_cache(maxsize=1)
def _fit() -> Any:
    from labelproof.cli.fit import fit  # here: the command line imports this package

    app = typer.Typer()
    app.command()(fit)
    return typer.main.get_command(app)


def finish_time(seconds: Sequence[float], jobs: int) -> float:
    """When the last of these ends if each begins as soon as one of the processes is free."""
    free = [0.0] * jobs
    for time in seconds:
        first = free.index(min(free))
        free[first] += time
    return max(free)


def words(seconds: float) -> str:
    """A time as a person says it."""
    if seconds < 90:
        return f"{seconds:.0f} s"
    if seconds < 5400:
        return f"{seconds / 60:.0f} min"
    return f"{seconds / 3600:.1f} h" if seconds < 48 * 3600 else f"{seconds / 86400:.1f} days"
