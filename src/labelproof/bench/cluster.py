"""A grid on many machines: a command for each cell, and one cell run alone."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from pathlib import Path

from labelproof.bench.asked import Asked
from labelproof.bench.cell import Cell
from labelproof.bench.results import is_done
from labelproof.bench.runner import Launcher, run_cells
from labelproof.errors import BadInput


def cell_commands(asked: Asked, picked: Sequence[Cell], runs: Path) -> list[str]:
    """A command for each cell that is not finished; they can run anywhere, in any order."""
    waiting = {cell.name: cell for cell in picked if not is_done(cell, runs)}
    return [f"{asked.command()} --cell {shlex.quote(name)}" for name in waiting]


def run_one(
    cells: Sequence[Cell], name: str, runs: Path, jobs: int, launcher: Launcher = "local"
) -> str:
    """Run the cell with this name alone; its error, or nothing."""
    chosen = [cell for cell in cells if cell.name == name]
    if not chosen:
        raise BadInput(f"this grid has no cell {name!r}; --print-cells prints them all.")
    runs.mkdir(parents=True, exist_ok=True)
    errors = run_cells(
        chosen[:1], runs, jobs, show=lambda _: None, ended=lambda *_: None, launcher=launcher
    )
    return errors.get(name, "")
