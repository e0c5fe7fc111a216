"""Showing how a grid goes: live bars in a terminal, a line a cell elsewhere."""

from __future__ import annotations

import json
from pathlib import Path

from rich import progress as bars
from rich.console import Console

from labelproof.bench.cell import Cell
from labelproof.bench.runner import Progress, Running
from labelproof.run_files import RUN
from labelproof.runs.folder import history_so_far
from labelproof.training.log import bar_in_terminal


class Display:
    """One display over all cells; use it as a context."""

    def __init__(self, console: Console, cells: Path, total: int) -> None:
        self._console, self._cells = console, cells
        self._live = bar_in_terminal(
            console,
            bars.TextColumn("{task.description}", markup=False),
            bars.BarColumn(bar_width=24),
            bars.TextColumn("{task.completed:.0f}/{task.total:.0f}"),
            bars.TimeElapsedColumn(),
        )
        self._all = self._live.add_task("cells", total=total)
        self._each: dict[str, bars.TaskID] = {}

    def __enter__(self) -> Display:
        self._live.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._live.stop()

    def show(self, now: Progress) -> None:
        """Bring the bars to where the grid is."""
        failed = f", {now.failed} failed" if now.failed else ""
        self._live.update(self._all, completed=now.done, description=f"cells done{failed}")
        if not self._console.is_terminal:
            return
        names = {job.cell.name for job in now.running}
        for name in [name for name in self._each if name not in names]:
            self._live.remove_task(self._each.pop(name))
        for job in now.running:
            self._follow(job)

    def ended(self, cell: Cell, error: str, seconds: float) -> None:
        """A line about a cell that ended."""
        what = f"failed: {error}" if error else f"done in {seconds:.0f} s"
        self._console.print(f"{place(cell)}: {what}", markup=False, highlight=False, soft_wrap=True)

    def _follow(self, job: Running) -> None:
        epoch, epochs = epochs_of(self._cells / job.cell.name)
        if job.cell.name not in self._each:
            self._each[job.cell.name] = self._live.add_task(f"  {place(job.cell)}", total=epochs)
        self._live.update(self._each[job.cell.name], completed=epoch, total=epochs)


def place(cell: Cell) -> str:
    """Where a cell stands in the table, in words."""
    return f"{cell.row}, {cell.column}, seed {cell.seed}"


def epochs_of(folder: Path) -> tuple[int, int]:
    """Epochs that a run has behind it, and all of them; 0 and 1 while nothing is known."""
    try:
        record = json.loads((folder / RUN).read_text(encoding="utf-8"))
        return len(history_so_far(folder)), int(record["settings"]["epochs"])
    except (OSError, ValueError, KeyError):
        return 0, 1
