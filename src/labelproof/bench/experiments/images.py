"""All methods on small images, with the defaults a user's own images get."""

from __future__ import annotations

from pathlib import Path

from labelproof.bench.asked import chosen
from labelproof.bench.cell import Cell, Experiment, Maker, Scale, Sources, crossed, seeded
from labelproof.bench.results import LISTED, SECONDS, Results
from labelproof.bench.scales import (
    Setting,
    cleanlab_form,
    human_settings,
    own_form,
    synthetic_settings,
)
from labelproof.bench.tables import listing
from labelproof.methods import METHODS

CLEANLAB: Maker = "cleanlab"
ALL = (*METHODS, CLEANLAB)
TINY_ROWS = ("ce", "dpc")


def cells(scale: Scale, sources: Sources, seeds: int) -> list[Cell]:
    """A cell for every noise, method and seed."""
    usual = TINY_ROWS if scale == "tiny" else ALL
    settings = synthetic_settings(scale, sources, ("cifar10-symmetric-0.5",))
    given = ("worst",) if sources.has_people or scale == "tiny" else ()
    labels = chosen("label set", sources.labels, ("aggre", "rand1", "worst"), given)
    settings += human_settings(scale, sources, labels)
    methods = chosen("method", sources.methods, ALL, usual)
    return crossed(settings, methods, lambda s, m: _cells(s, m, seeds, scale, sources))


def _cells(setting: Setting, method: str, seeds: int, scale: Scale, sources: Sources) -> list[Cell]:
    if method == CLEANLAB:
        spec = cleanlab_form(setting, scale, sources)
        return seeded(method, setting.column, spec, seeds, CLEANLAB)
    return seeded(method, setting.column, own_form(setting, method, scale, sources), seeds)


def finish(results: Results, folder: Path) -> list[Path]:
    """One table, a row for every noise and method."""
    return listing(results, (*LISTED, SECONDS), title="Methods on small images").write(folder)


EXPERIMENT = Experiment(
    name="images",
    title="all methods on small images: redrawn labels and labels that people gave",
    seeds={"paper": 1, "small": 1, "tiny": 1},
    cells=cells,
    finish=finish,
    takes=("methods", "labels"),
)
