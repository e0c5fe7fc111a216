"""How long a grid would take: from cells that ran already, or from one measured epoch."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import torch
from rich.console import Console
from rich.table import Table
from torch import Tensor, nn

from labelproof import pipeline
from labelproof.bench.cell import OUTSIDE, Cell
from labelproof.bench.results import epochs_of, is_done, read_summary, same_record
from labelproof.data.encoders.apply import Glance, glance
from labelproof.data.examples import Examples, Subset
from labelproof.data.readers import from_arrays
from labelproof.data.readers.published.webvision_files import CLASSES, EDGE
from labelproof.data.task import Task
from labelproof.errors import BadInput
from labelproof.judging.tune import settled_for_now, undecided
from labelproof.nets.heads import MultiHead
from labelproof.runs.folder import history_so_far
from labelproof.runs.prepare import Assembled
from labelproof.runs.spec import RunSpec
from labelproof.training.estimate import clock, entered, estimate
from labelproof.training.protocol import Method
from labelproof.training.run import Precision, Run, Trunk, precision_for

LARGE = (
    "preact18",
    "resnet18",
    "resnet34",
    "inception_resnet_v2",
)  # too slow to measure a whole epoch of
WEBVISION = 65_944  # training images
CLEANLAB = 5  # times as long as cross-entropy: five folds of 4/5, and the last network


@dataclass(frozen=True, kw_only=True)
class Guess:
    """Seconds a cell will take, and how that is known."""

    seconds: float
    how: str  # such as "done", "other cells", "measured epoch", "counted passes"


def show_estimates(
    cells: Sequence[Cell], runs: Path, jobs: int, console: Console, stand_ins: bool = False
) -> None:
    """Print the grid with the time of every cell and of all that are left."""
    table = Table("row", "column", "seed", "time", "from", box=None, pad_edge=False)
    with Console(stderr=True).status("measuring a few batches") as status:
        guesses = guess_all(cells, runs, status.update)
    for cell in cells:
        guess = guesses[cell.name]
        table.add_row(cell.row, cell.column, str(cell.seed), words(guess.seconds), guess.how)
    console.print(table)
    unique = {cell.name: cell for cell in cells}
    left = [guesses[name].seconds for name in unique if guesses[name].how != "done"]
    console.print(
        f"\n{len(unique)} cells, {len(unique) - len(left)} of them done; the others take about "
        f"{words(finish_time(left, jobs))} with --jobs {jobs}. Nothing was run."
        + (" The data was not named, so black pictures stood in for it." if stand_ins else ""),
        highlight=False,
        soft_wrap=True,
    )


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
            known[cell.name] = Guess(seconds=ran(cell, runs) or 0.0, how="done")
            continue
        if group not in by_group:
            show(f"measuring a few batches of run {len(by_group) + 1} of {len(groups)}")
            siblings = [other for other in cells if other.group == group]
            by_group[group] = from_others(siblings, runs) or _measured(reader, cell)
        known[cell.name] = by_group[group]
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
    lines = history_so_far(runs / cell.name) if same_record(cell, runs) else []
    if not lines:
        return taken(cell, runs)
    _, epochs = epochs_of(runs / cell.name)
    return float(lines[-1]["elapsed"]) / len(lines) * epochs * calibration(cell)


def taken(cell: Cell, runs: Path) -> float | None:
    """Seconds that the summary of a finished cell tells; cleanlab keeps no curves."""
    summary = read_summary(runs / cell.name) if is_done(cell, runs) else None
    seconds = summary.get("seconds") if summary else None
    return None if seconds is None else float(seconds)


def calibration(cell: Cell) -> int:
    """2 where calibration trains the method again on halves, else 1."""
    return 2 if cell.spec.how == "folds" else 1


class Reader:
    """Measures cells; data that several cells use is read once, and so is a network's speed."""

    def __init__(self) -> None:
        self._seen: dict[tuple[str, ...], Glance] = {}
        self._passes: dict[tuple[str, tuple[int, ...], str], float] = {}

    def measure(self, cell: Cell) -> Guess:
        """Train a few batches of the cell's own data, or count the passes through its network."""
        if cell.maker in OUTSIDE:
            return Guess(seconds=0.0, how="not measured: scikit-learn")
        seen = self._look(cell.spec)
        parts = pipeline.assemble(cell.spec, pipeline.Given(data=seen.examples))
        tried = undecided(parts.method)
        task = parts.prepared.task
        parts = replace(parts, method=settled_for_now(parts.method, task.kind))
        seconds, how = self._timed(parts)
        if cell.spec.data == "webvision":
            seconds *= WEBVISION / task.size
        times = CLEANLAB if cell.maker == "cleanlab" else calibration(cell)
        seconds = seen.seconds + seconds * times
        return Guess(seconds=seconds, how=f"{how}, without trials" if tried else how)

    def _timed(self, parts: Assembled) -> tuple[float, str]:
        """Seconds of the whole plan, and how they are known."""
        if parts.net in LARGE:
            counted = self._counted(parts)
            return counted, "counted passes" if counted else "not measured: no passes to count"
        task = parts.prepared.task
        measured = estimate(task, parts.method, parts.trunk, parts.device, parts.spec.number_type)
        return measured.seconds, "measured epoch"

    def _counted(self, parts: Assembled) -> float:
        task = parts.prepared.task
        key = (parts.net, task.x.shape, parts.spec.number_type)
        if key not in self._passes:
            self._passes[key] = pass_seconds(
                task, parts.trunk, parts.device, parts.spec.number_type
            )
        return units(task, parts.method) * task.size * self._passes[key]

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


def words(seconds: float) -> str:
    """A time as a person says it."""
    if seconds < 90:
        return f"{seconds:.0f} s"
    if seconds < 5400:
        return f"{seconds / 60:.0f} min"
    return f"{seconds / 3600:.1f} h" if seconds < 48 * 3600 else f"{seconds / 86400:.1f} days"


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


def pass_seconds(
    task: Task, trunk: Trunk, device: torch.device, precision: Precision = "auto"
) -> float:
    """Seconds of one forward pass of one example, a third of a pass that is trained on."""
    net = MultiHead(trunk(), {"none": nn.Identity()}, precision_for(device, precision)).to(device)
    x = task.views.plain(task.x.take(torch.arange(min(BATCH, task.size))).to(device))
    net(x).mean().backward()  # type: ignore[no-untyped-call]  # the first pays for set-up
    start = clock(device)
    net(x).mean().backward()  # type: ignore[no-untyped-call]
    return (clock(device) - start) / 3 / len(x)
