"""All methods on scikit-learn's digits with 40% of the labels redrawn: no file is needed."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from labelproof.bench.asked import chosen
from labelproof.bench.cell import Cell, Experiment, Scale, Sources, seeded
from labelproof.bench.results import AP, AUROC, BEST, ECE, LAST, SECONDS, Results
from labelproof.bench.scales import lasting
from labelproof.bench.tables import Table, closing, entry
from labelproof.methods import METHODS
from labelproof.runs.spec import RunSpec

NOISE = "symmetric:0.4"
TINY_METHODS = ("ce", "dpc")
ALL = (LAST, BEST, ECE, AUROC, AP, SECONDS)


def cells(scale: Scale, sources: Sources, seeds: int) -> list[Cell]:
    """A cell for every method and seed, with the method's defaults for images."""
    known = tuple(METHODS)
    methods = chosen("method", sources.methods, known, TINY_METHODS if scale == "tiny" else known)
    epochs = sources.epochs or (4 if scale == "tiny" else None)
    spec = RunSpec(data="digits", noise=NOISE, settings=lasting(epochs), calibrate="quick")
    return [
        cell
        for method in methods
        for cell in seeded(method, "digits", replace(spec, method=method), seeds)
    ]


def finish(results: Results, folder: Path) -> list[Path]:
    """One table, a row for every method."""
    rows = [
        (row, *(entry(metric, results.at(row, "digits")) for metric in ALL)) for row in results.rows
    ]
    table = Table(
        title="Methods on digits, 40% symmetric noise",
        header=("method", *(metric.title for metric in ALL)),
        rows=tuple(rows),
        notes=tuple(closing(results)),
    )
    return table.write(folder)


EXPERIMENT = Experiment(
    name="digits",
    title="all methods on scikit-learn's digits, 40% of the labels redrawn",
    seeds={"paper": 3, "small": 3, "tiny": 1},
    cells=cells,
    finish=finish,
    takes=("methods",),
)
