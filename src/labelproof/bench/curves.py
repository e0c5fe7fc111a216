"""Sensitivity to one setting of DPC: a table and a figure of accuracy against its values."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from labelproof.bench import figures
from labelproof.bench.cell import Cell, Scale, Sources, seeded
from labelproof.bench.results import BEST, LAST, LAST10, Metric, Results, mean_spread
from labelproof.bench.scales import published_form, synthetic_settings
from labelproof.bench.tables import Published, grid

COLUMNS: Mapping[Scale, tuple[str, ...]] = {
    "paper": ("cifar10-symmetric-0.5", "cifar100-symmetric-0.5"),
    "small": ("cifar10-symmetric-0.5",),
    "tiny": ("cifar10-symmetric-0.5",),
}
Series = dict[str, tuple[list[float], list[float], list[float]]]


def curve_cells(
    setting: str, row: str, values: Sequence[float], usual: float, scale: Scale, sources: Sources,
    seeds: int,
) -> list[Cell]:  # fmt: skip
    """A cell for every value; the published value is the same run as in other experiments."""
    return [
        cell
        for column in synthetic_settings(scale, sources, COLUMNS[scale])
        for value in values
        for cell in seeded(
            row.format(value),
            column.column,
            published_form(
                column, "dpc", scale, sources, {} if value == usual else {setting: value}
            ),
            seeds,
        )
    ]


def curve_files(
    results: Results,
    folder: Path,
    row: str,
    values: Sequence[float],
    *,
    name: str,
    published: Published,
    published_best: Published,
    note: str,
) -> list[Path]:
    """Tables of last and best accuracy, and a figure of both for every column."""
    last = LAST10 if results.scale == "paper" else LAST
    notes = (note,) if results.scale != "tiny" else ()
    title = f"Sensitivity to {name}"
    files = grid(results, last, title=title, published=published, notes=notes).write(folder)
    best = grid(results, BEST, title=title, published=published_best, notes=notes)
    files += best.write(folder, "table-best")
    for number, column in enumerate(results.columns):
        series = {
            "last": points(results, last, row, column, values),
            "best (chosen on the test set)": points(results, BEST, row, column, values),
        }
        if any(xs for xs, _, _ in series.values()):
            stem = folder / ("figure" if number == 0 else f"figure-{number + 1}")
            files += figures.lines(stem, f"{title}, {column}", name, "test accuracy (%)", series)
    return files


def points(
    results: Results, metric: Metric, row: str, column: str, values: Sequence[float]
) -> tuple[list[float], list[float], list[float]]:
    """Values with mean and spread of the accuracy; values that are missing are left out."""
    found = {v: mean_spread(results.values(metric.read, row.format(v), column)) for v in values}
    known = {value: pair for value, pair in found.items() if pair is not None}
    means, spreads = [pair[0] for pair in known.values()], [pair[1] for pair in known.values()]
    return list(known), means, spreads
