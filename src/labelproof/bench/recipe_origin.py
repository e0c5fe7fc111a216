"""Where the settings of cells come from: published for their column, for another, or ours."""

from __future__ import annotations

from pathlib import Path

from labelproof.bench.cell import Cell
from labelproof.bench.published_numbers import HUMAN_COLUMNS
from labelproof.bench.results import Results
from labelproof.bench.scales import PAPER_VECTORS
from labelproof.bench.tables import Table
from labelproof.methods import METHODS
from labelproof.recipes.recipe import is_ours, source_of

SETTINGS = "settings"  # stem of the file that lists them
KINDS = {"sym.": "symmetric", "asym.": "asymmetric"}


def borrowed(results: Results) -> list[str]:
    """Notes that list the cells whose method has no published settings for their column."""
    found: dict[str, list[str]] = {}
    ours: dict[str, list[str]] = {}
    for record in results.records:
        spec = record.cell.spec
        if spec.recipe in (None, PAPER_VECTORS):
            continue  # vectors: docs/bench.md says what is borrowed there
        recipe = spec.recipe.removesuffix("-star")
        if recipe != wanted(record.cell):
            found.setdefault(f"{record.cell.row} ({recipe})", []).append(record.cell.column)
        elif is_ours(spec.method, spec.recipe):
            ours.setdefault(record.cell.row, []).append(record.cell.column)
    none = "No published settings are known to us for these cells; "
    return [
        *_note(f"{none}the most similar were used", found),
        *_note(f"{none}the authors' trainer was used, told the noise where it asks for it", ours),
    ]


def settings_files(results: Results, folder: Path) -> list[Path]:
    """A table of every place's recipe, changes, network and source, where cells have recipes."""
    cells = {(r.cell.row, r.cell.column): r.cell for r in results.records}.values()
    rows = tuple(_settings(cell) for cell in cells if cell.spec.recipe)
    table = Table(
        title="Settings of every cell",
        header=("row", "data", "recipe", "changes", "network", "source"),
        rows=rows,
        notes=("The page of each method says where its paper and its released code differ.",),
        words=6,
    )
    return table.write(folder, SETTINGS) if rows else []


def _settings(cell: Cell) -> tuple[str, ...]:
    name, recipe, net = cell.spec.method, str(cell.spec.recipe), cell.spec.net
    changes = ", ".join(f"{key}={value}" for key, value in cell.spec.settings.items())
    source = f"{METHODS[name].about.paper}: {source_of(name, recipe)}"
    return (cell.row, cell.column, recipe, changes, net, source)


def _note(text: str, places: dict[str, list[str]]) -> list[str]:
    lines = [f"{name}: {', '.join(dict.fromkeys(columns))}" for name, columns in places.items()]
    return [f"{text}: {'; '.join(lines)}."] if lines else []


def wanted(cell: Cell) -> str:
    """The name of the published setting that a column stands for."""
    if cell.column in HUMAN_COLUMNS:
        return "cifar100n" if cell.column == "noisy100" else f"cifar10n-{cell.column}"
    data, kind, rate = cell.column.rsplit(" ", 2)
    return f"{data.lower().replace('-', '')}-{KINDS[kind]}-{int(rate[:-1]) / 100}"
