"""How long a grid would take: from cells that ran already, or from a few measured batches."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import torch
from rich.console import Console
from rich.table import Table

from labelproof import pipeline
from labelproof.bench.cell import OUTSIDE, Cell
from labelproof.bench.results import epochs_of, is_done, read_summary, same_record, total_seconds
from labelproof.bench.runner import threads
from labelproof.data.encoders.apply import Glance, glance
from labelproof.data.examples import Examples
from labelproof.data.readers import from_arrays
from labelproof.data.readers.published.webvision_files import CLASSES, EDGE
from labelproof.errors import BadInput
from labelproof.runs.folder import history_so_far
from labelproof.runs.forecast import Forecast, duration, forecast
from labelproof.runs.prepare import Assembled
from labelproof.runs.spec import RunSpec

PATIENCE = 60.0  # seconds that measuring a cell may take
WEBVISION = 65_944  # training images
CLEANLAB = 5  # times as long as cross-entropy: five folds of 4/5, and the last network


@dataclass(frozen=True, kw_only=True)
class Guess:
    """Seconds a cell will take, and how that is known."""

    seconds: float
    how: str  # such as "done", "other cells", "measured epoch"

    @property
    def told(self) -> str:
        """The time in words."""
        return duration(self.seconds) if self.seconds else "-"


def show_estimates(
    cells: Sequence[Cell], runs: Path, jobs: int, console: Console, stand_ins: bool = False
) -> None:
    """Print the grid with the time of every cell and of all that are left."""
    table = Table("row", "column", "seed", "time", "from", box=None, pad_edge=False)
    with Console(stderr=True).status("measuring a few batches") as status, threads_of(jobs):
        guesses = guess_all(cells, runs, status.update)
    for cell in cells:
        guess = guesses[cell.name]
        table.add_row(cell.row, cell.column, str(cell.seed), guess.told, guess.how)
    console.print(table)
    unique = {cell.name: cell for cell in cells}
    left = [guesses[name].seconds for name in unique if guesses[name].how != "done"]
    console.print(
        f"\n{len(unique)} cells, {len(unique) - len(left)} of them done; "
        + (f"the others take about {duration(finish_time(left, jobs))}" if left else "none is left")
        + f" with --jobs {jobs}. Nothing was run."
        + (" The data was not named, so black pictures stood in for it." if stand_ins else ""),
        highlight=False,
        soft_wrap=True,
    )


@contextmanager
def threads_of(jobs: int) -> Iterator[None]:
    """Compute with as many threads as each of so many processes will have."""
    before = torch.get_num_threads()
    torch.set_num_threads(threads(jobs))
    try:
        yield
    finally:
        torch.set_num_threads(before)


def guess_all(
    cells: Sequence[Cell], runs: Path, show: Callable[[str], None] = lambda _: None
) -> dict[str, Guess]:
    """A guess for every cell, by name; cells that differ in their seed alone share one."""
    groups = {cell.group for cell in cells}
    known: dict[str, Guess] = {}
    by_group: dict[str, Guess] = {}
    reader = Reader()
    for cell in cells:
        group = cell.group
        if is_done(cell, runs):
            known[cell.name] = Guess(seconds=took(cell, runs) or 0.0, how="done")
            continue
        if group not in by_group:
            show(f"measuring a few batches of run {len(by_group) + 1} of {len(groups)}")
            siblings = [other for other in cells if other.group == group]
            by_group[group] = from_others(siblings, runs) or _measured(reader, siblings, runs)
        known[cell.name] = by_group[group]
    return known


def from_others(siblings: Sequence[Cell], runs: Path) -> Guess | None:
    """What the same run took with other seeds."""
    times = [t for t in (took(cell, runs) for cell in siblings) if t is not None]
    if not times:
        return None
    return Guess(seconds=statistics.mean(times), how="other cells")


def took(cell: Cell, runs: Path) -> float | None:
    """Seconds that a finished cell took, calibration included."""
    summary = read_summary(runs / cell.name) if is_done(cell, runs) else None
    return total_seconds(summary) if summary else None


def _measured(reader: Reader, siblings: Sequence[Cell], runs: Path) -> Guess:
    """What a few batches say; a cell that will be refused is no reason to show no others."""
    try:
        return reader.measure(siblings[0], begun(siblings, runs))
    except BadInput as error:
        return Guess(seconds=0.0, how=f"will fail: {error}")


def begun(siblings: Sequence[Cell], runs: Path) -> float | None:
    """Seconds of training that the first epochs of cells that were begun say."""
    for cell in siblings:
        lines = history_so_far(runs / cell.name) if same_record(cell, runs) else []
        if lines:
            return float(lines[-1]["elapsed"]) / len(lines) * epochs_of(runs / cell.name)[1]
    return None


class Reader:
    """Measures cells; data and a measurement that several cells share are taken once."""

    def __init__(self) -> None:
        self._seen: dict[tuple[str, ...], Glance] = {}
        self._known: dict[str, Forecast] = {}

    def measure(self, cell: Cell, training: float | None = None) -> Guess:
        """Train a few batches of the cell's own data; `training` is known of a run that began."""
        if cell.maker in OUTSIDE:
            return Guess(seconds=0.0, how="not measured: scikit-learn")
        seen = self._look(cell.spec)
        parts = pipeline.assemble(cell.spec, pipeline.Given(data=seen.examples))
        coming = self._forecast(parts)
        how = "measured epoch" if coming.measured else f"more: not measured in {PATIENCE:.0f} s"
        times = WEBVISION / parts.prepared.task.size if cell.spec.data == "webvision" else 1
        if training is not None:
            coming, how = replace(coming, training=training / times), "first epochs"
        known = coming.training * CLEANLAB if cell.maker == "cleanlab" else coming.seconds
        return Guess(seconds=seen.seconds + known * times, how=how)

    def _forecast(self, parts: Assembled) -> Forecast:
        """The time of a run; that of the same one on other labels is the same."""
        task, spec = parts.prepared.task, parts.spec
        shape = (task.size, *task.x.shape, task.num_classes)
        key = repr((parts.method, parts.net, shape, spec.how, spec.number_type))
        if key not in self._known:
            self._known[key] = forecast(parts, patience=PATIENCE)
        return self._known[key]

    def _look(self, spec: RunSpec) -> Glance:
        """The data; vectors that an encoder would make are stand-ins."""
        reading, encoder = spec.reading, pipeline.wanted_encoder(spec)
        key = (str(spec.data), reading.label_key, str(reading.data_dir), encoder)
        if key not in self._seen:
            self._seen[key] = glance(_stand_in(spec) or pipeline.read_raw(spec), encoder)
        return self._seen[key]


def _stand_in(spec: RunSpec) -> Examples | None:
    """Black pictures in the shape of the data, where it is not named or takes long to read."""
    data = str(spec.data)
    if data == "webvision":  # a few
        return _black(2 * CLASSES, spec.reading.image_size or EDGE, CLASSES)
    if data.startswith("cifar") and spec.reading.data_dir is None:
        return _black(50_000, 32, 100 if data.startswith("cifar100") else 10)
    return None


def _black(count: int, edge: int, classes: int) -> Examples:
    return from_arrays(np.zeros((count, edge, edge, 3), np.uint8), np.arange(count) % classes)


def finish_time(seconds: Sequence[float], jobs: int) -> float:
    """When the last of these ends if each begins as soon as one of the processes is free."""
    free = [0.0] * jobs
    for time in seconds:
        first = free.index(min(free))
        free[first] += time
    return max(free)
