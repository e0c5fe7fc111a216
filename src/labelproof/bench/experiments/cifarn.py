"""CIFAR-10 and CIFAR-100 with the labels that people gave (CIFAR-N)."""

from __future__ import annotations

from pathlib import Path

from labelproof.bench import published_numbers as published
from labelproof.bench.asked import chosen
from labelproof.bench.cell import Cell, Experiment, Scale, Sources, crossed, seeded
from labelproof.bench.results import BEST, LAST, Results
from labelproof.bench.scales import STARS, Setting, human_settings, published_form, title_of
from labelproof.bench.tables import borrowed, grid
from labelproof.methods import METHODS
from labelproof.runs.spec import RunSpec

LABELS: dict[Scale, tuple[str, ...]] = {
    "paper": published.HUMAN_COLUMNS,
    "small": ("aggre", "rand1", "worst"),
    "tiny": ("worst",),
}
WITH_EDL = {"sop_plus_edl": "sop_plus", "mlnt_edl": "mlnt"}  # table 3 of the appendix
ALL = (*METHODS, *STARS, *WITH_EDL)
ROWS: dict[Scale, tuple[str, ...]] = {
    "paper": ALL,
    "small": ("ce", "gce", "coteaching", "dividemix", "sop_plus", "dpc"),
    "tiny": ("ce", "dpc"),
}


def cells(scale: Scale, sources: Sources, seeds: int) -> list[Cell]:
    """A cell for every label set, method and seed."""
    labels = chosen("label set", sources.labels, published.HUMAN_COLUMNS, LABELS[scale])
    settings = human_settings(scale, sources, labels)
    methods = chosen("method", sources.methods, ALL, ROWS[scale])

    def one(setting: Setting, method: str) -> list[Cell]:
        row = f"{WITH_EDL[method]} with L_edl" if method in WITH_EDL else title_of(method)
        return seeded(row, setting.column, _spec(setting, method, scale, sources), seeds)

    return crossed(settings, methods, one)


def _spec(setting: Setting, method: str, scale: Scale, sources: Sources) -> RunSpec:
    if method in WITH_EDL:
        return published_form(setting, WITH_EDL[method], scale, sources, {"loss": "edl"})
    return published_form(setting, method, scale, sources)


def finish(results: Results, folder: Path) -> list[Path]:
    """Accuracy after the last epoch, and at the best one."""
    known = published.numbers(published.HUMAN_ROWS, published.HUMAN_COLUMNS)
    notes = (published.HUMAN_NOTE, *borrowed(results)) if results.scale != "tiny" else ()
    title = "Labels that people gave" if results.scale != "tiny" else "Digits, labels redrawn"
    main = grid(results, LAST, title=title, published=known, notes=notes)
    best = grid(results, BEST, title=title, published=known, notes=notes)
    files = [*main.write(folder), *best.write(folder, "table-best")]
    if results.scale == "tiny":
        return files
    again = published.numbers(published.REPLICATED_ROWS, published.HUMAN_COLUMNS)
    notes = (published.REPLICATED_NOTE,)
    anchor = grid(results, LAST, title=title, published=again, beside="replicated", notes=notes)
    return [*files, *anchor.write(folder, "table-replicated")]


EXPERIMENT = Experiment(
    name="cifarn",
    title="test accuracy with the human labels of CIFAR-10N and CIFAR-100N (table 2)",
    seeds={"paper": 5, "small": 1, "tiny": 1},
    cells=cells,
    finish=finish,
    takes=("methods", "labels"),
)
