"""Label noise put into CIFAR-10 and CIFAR-100: symmetric and asymmetric, all methods."""

from __future__ import annotations

from pathlib import Path

from labelproof.bench import published_numbers as published
from labelproof.bench.asked import chosen
from labelproof.bench.cell import Cell, Experiment, Scale, Sources, crossed, seeded
from labelproof.bench.results import BEST, LAST, LAST10, Results
from labelproof.bench.scales import (
    STAR,
    Setting,
    of_vectors,
    published_form,
    synthetic_settings,
    title_of,
)
from labelproof.bench.tables import borrowed, grid
from labelproof.methods import METHODS

NOISES = (
    *(f"symmetric-{rate}" for rate in (0.2, 0.5, 0.8)),
    *(f"asymmetric-{rate}" for rate in (0.1, 0.3, 0.4)),
)
COLUMNS: dict[Scale, tuple[str, ...]] = {
    "paper": tuple(f"{data}-{noise}" for data in ("cifar10", "cifar100") for noise in NOISES),
    "small": ("cifar10-symmetric-0.5", "cifar10-symmetric-0.8", "cifar10-asymmetric-0.4"),
    "tiny": ("cifar10-symmetric-0.5",),
}
ALL = (*METHODS, STAR)
ROWS: dict[Scale, tuple[str, ...]] = {
    "paper": ALL,
    "small": ("ce", "dividemix", "dpc"),
    "tiny": ("ce", "dividemix", "dpc"),
}
ON_VECTORS = ("ce", "gce", "coteaching", "elr_plus", "sop_plus", "dividemix", "dpc")


def cells(scale: Scale, sources: Sources, seeds: int) -> list[Cell]:
    """A cell for every noise, method and seed."""
    usual = ON_VECTORS if of_vectors(scale, sources) else ROWS[scale]
    settings = synthetic_settings(scale, sources, COLUMNS[scale])
    methods = chosen("method", sources.methods, ALL, usual)

    def one(setting: Setting, method: str) -> list[Cell]:
        spec = published_form(setting, method, scale, sources)
        return seeded(title_of(method), setting.column, spec, seeds)

    return crossed(settings, methods, one)


def finish(results: Results, folder: Path) -> list[Path]:
    """Accuracy at the end (the paper's way at its scale), and at the best epoch."""
    known = published.numbers(published.SYNTHETIC_ROWS, published.SYNTHETIC_COLUMNS)
    last = LAST10 if results.scale == "paper" else LAST
    notes = (published.SYNTHETIC_NOTE, *borrowed(results)) if results.scale != "tiny" else ()
    title = "Label noise put in on purpose"
    main = grid(results, last, title=title, published=known, notes=notes)
    best = grid(results, BEST, title=f"{title}, chosen on the test set")
    return [*main.write(folder), *best.write(folder, "table-best")]


EXPERIMENT = Experiment(
    name="synthetic",
    title="test accuracy with symmetric and asymmetric label noise (table 1)",
    seeds={"paper": 3, "small": 1, "tiny": 1},
    cells=cells,
    finish=finish,
    takes=("methods",),
)
