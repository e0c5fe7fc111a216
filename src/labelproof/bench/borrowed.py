"""Cells whose method has no published settings for their column, for a note below the table."""

from __future__ import annotations

from labelproof.bench.cell import Cell
from labelproof.bench.published import HUMAN_COLUMNS
from labelproof.bench.results import Results

KINDS = {"sym.": "symmetric", "asym.": "asymmetric"}


def borrowed(results: Results) -> list[str]:
    """One note that lists them, or none."""
    found: dict[str, list[str]] = {}
    for record in results.records:
        words = dict(zip(record.cell.command, record.cell.command[1:], strict=False))
        if "--recipe" not in words:
            continue  # vectors: docs/bench.md says what is borrowed there
        recipe = words["--recipe"].removesuffix("-star")
        if recipe != wanted(record.cell):
            found.setdefault(f"{record.cell.row} ({recipe})", []).append(record.cell.column)
    lines = [f"{name}: {', '.join(dict.fromkeys(columns))}" for name, columns in found.items()]
    if not lines:
        return []
    listed = "; ".join(lines)
    return [f"No settings are published for these cells; the most similar were used: {listed}."]


def wanted(cell: Cell) -> str:
    """The name of the published setting that a column stands for."""
    if cell.column in HUMAN_COLUMNS:
        return "cifar100n" if cell.column == "noisy100" else f"cifar10n-{cell.column}"
    data, kind, rate = cell.column.rsplit(" ", 2)
    return f"{data.lower().replace('-', '')}-{KINDS[kind]}-{int(rate[:-1]) / 100}"
