"""All methods on one kind of data: vectors, small images, and scikit-learn's digits.

Vectors have human label noise, and cleanlab stands beside the methods; images have the defaults a
user's own would get; the digits, with 40% of the labels redrawn, need no file.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from labelproof.bench.asked import chosen
from labelproof.bench.cell import Cell, Experiment, Maker, Scale, Sources, crossed, seeded
from labelproof.bench.prepared_data import (
    LABEL_SETS,
    has_own_labels,
    measurable,
    own_truth,
    tiny_vectors,
    vectors_file,
)
from labelproof.bench.results import (
    AP,
    AUROC,
    BEST,
    ECE,
    ECE_CALIBRATED,
    LAST,
    LISTED,
    MEASURED,
    SECONDS,
    STATED,
    Metric,
    Record,
    Results,
)
from labelproof.bench.scales import (
    Setting,
    array_spec,
    cleanlab_form,
    human_settings,
    lasting,
    own_form,
    synthetic_settings,
)
from labelproof.bench.tables import Table, closing, entry, listing
from labelproof.choices import How
from labelproof.methods import METHODS
from labelproof.runs.spec import RunSpec

CLEANLAB: Maker = "cleanlab"
FEW = ("ce", "dpc")  # the rows of the scale tiny
TINY_EPOCHS = 4


def rows(scale: Scale, sources: Sources, known: Sequence[str], few: Sequence[str]) -> Sequence[str]:
    """The methods that were asked for, else all, or a few for trying things out."""
    return chosen("method", sources.methods, known, few if scale == "tiny" else known)


def epochs(scale: Scale, sources: Sources) -> int | None:
    """The epochs that were asked for; None is each method's own number."""
    return sources.epochs or (TINY_EPOCHS if scale == "tiny" else None)


# ---- vectors ----

LABELS = ("clean", "aggre", "rand1", "worst")
TINY_LABELS = ("clean", "worst")
# other forms of methods that the tables know by one name
FORMS: dict[str, tuple[str, dict[str, object]]] = {
    "gce_truncated": ("gce", {"truncate": True}),
    "bootstrap_soft": ("bootstrap", {"target": "soft"}),
    "cores_star": ("cores", {"consistency": 10}),
}
OWN = "given labels"  # the column of a user's own vectors
OF_VECTORS = (*LISTED, STATED, MEASURED, SECONDS)
BY_FOLDS = (ECE_CALIBRATED, STATED, MEASURED)  # read where calibration trained on folds
JUDGED = ("ce", "dpc")  # calibrated by folds, which takes five more trainings
NOTES = (
    "`last` is the accuracy after the last epoch; `best` is chosen on the test set. AUROC and "
    "AP: how well wrong labels are found, by the method's own clean probabilities and by those "
    "that labels.csv has. Precision: share of the suspects that are wrong, as "
    "stated without true labels and as measured with them.",
    "Calibrated ECE and precision are of runs whose labels were judged by networks that were not "
    "trained on them; their number of seeds stands in brackets. For cleanlab the precision is that "
    "of the labels it prunes. Seconds are of training alone.",
)


def cells_of_vectors(scale: Scale, sources: Sources, seeds: int) -> list[Cell]:
    """A cell for every label set, method and seed."""
    methods = rows(scale, sources, (*METHODS, *FORMS, CLEANLAB), (*FEW, CLEANLAB))
    columns, length = _label_sets(scale == "tiny", sources), lasting(epochs(scale, sources))
    return crossed(columns, methods, lambda c, m: _on_vectors(m, c, columns[c], length, seeds))


def _label_sets(tiny: bool, sources: Sources) -> dict[str, RunSpec]:
    """What is read for each set of labels: CIFAR-10N's, or those of a user's own vectors."""
    if not tiny and not sources.labels and has_own_labels(sources.data):
        path = measurable(sources)
        return {OWN: array_spec(path, "y", own_truth(path))}
    labels = chosen("label set", sources.labels, LABEL_SETS, TINY_LABELS if tiny else LABELS)
    path = tiny_vectors(sources) if tiny else vectors_file(sources, labels)
    return {key: array_spec(path, key, "clean") for key in labels}


def _on_vectors(
    method: str, column: str, data: RunSpec, length: Mapping[str, object], seeds: int
) -> list[Cell]:
    if method == CLEANLAB:
        spec = replace(data, method="ce", settings=length)
        return seeded(method, column, spec, seeds, CLEANLAB)
    name, changes = FORMS.get(method, (method, {}))
    how: How = "folds" if method in JUDGED else "quick"
    spec = replace(data, method=name, settings={**changes, **length}, calibrate=how)
    return seeded(method, column, spec, seeds)


def table_of_vectors(results: Results, folder: Path) -> list[Path]:
    """One table, a row for every label set and method."""
    table = listing(
        results, OF_VECTORS, title="Methods on vectors", notes=NOTES, columns="labels", show=number
    )
    return table.write(folder)


def number(metric: Metric, records: Sequence[Record]) -> str:
    """A number; those that need calibration by folds are read from such runs alone."""
    if metric not in BY_FOLDS:
        return entry(metric, records)
    folds = [r for r in records if r.cell.spec.how == "folds" or r.cell.maker == CLEANLAB]
    count = sum(r.state == "done" and metric.read(r.summary) is not None for r in folds)
    text = entry(metric, folds)
    return f"{text} ({count})" if count else text


# ---- small images ----


def cells_of_images(scale: Scale, sources: Sources, seeds: int) -> list[Cell]:
    """A cell for every noise, method and seed."""
    settings = synthetic_settings(scale, sources, ("cifar10-symmetric-0.5",))
    given = ("worst",) if sources.has_people or scale == "tiny" else ()
    labels = chosen("label set", sources.labels, ("aggre", "rand1", "worst"), given)
    settings += human_settings(scale, sources, labels)
    methods = rows(scale, sources, (*METHODS, CLEANLAB), FEW)
    return crossed(settings, methods, lambda s, m: _on_images(s, m, seeds, scale, sources))


def _on_images(
    setting: Setting, method: str, seeds: int, scale: Scale, sources: Sources
) -> list[Cell]:
    if method == CLEANLAB:
        spec = cleanlab_form(setting, scale, sources)
        return seeded(method, setting.column, spec, seeds, CLEANLAB)
    return seeded(method, setting.column, own_form(setting, method, scale, sources), seeds)


def table_of_images(results: Results, folder: Path) -> list[Path]:
    """One table, a row for every noise and method."""
    return listing(results, (*LISTED, SECONDS), title="Methods on small images").write(folder)


# ---- digits ----

OF_DIGITS = (LAST, BEST, ECE, AUROC, AP, SECONDS)


def cells_of_digits(scale: Scale, sources: Sources, seeds: int) -> list[Cell]:
    """A cell for every method and seed, with the method's defaults for images."""
    methods, length = rows(scale, sources, tuple(METHODS), FEW), lasting(epochs(scale, sources))
    spec = RunSpec(data="digits", noise="symmetric:0.4", settings=length, calibrate="quick")
    return crossed(("digits",), methods, lambda c, m: seeded(m, c, replace(spec, method=m), seeds))


def table_of_digits(results: Results, folder: Path) -> list[Path]:
    """One table, a row for every method."""
    values = [
        (row, *(entry(metric, results.at(row, "digits")) for metric in OF_DIGITS))
        for row in results.rows
    ]
    table = Table(
        title="Methods on digits, 40% symmetric noise",
        header=("method", *(metric.title for metric in OF_DIGITS)),
        rows=tuple(values),
        notes=tuple(closing(results)),
    )
    return table.write(folder)


EXPERIMENTS = {
    "vectors": Experiment(
        name="vectors",
        title="all methods and cleanlab on vectors: human labels of CIFAR-10N, or your own data",
        seeds={"paper": 3, "small": 3, "tiny": 1},
        cells=cells_of_vectors,
        finish=table_of_vectors,
        takes=("methods", "labels"),
    ),
    "images": Experiment(
        name="images",
        title="all methods on small images: redrawn labels and labels that people gave",
        seeds={"paper": 1, "small": 1, "tiny": 1},
        cells=cells_of_images,
        finish=table_of_images,
        takes=("methods", "labels"),
    ),
    "digits": Experiment(
        name="digits",
        title="all methods on scikit-learn's digits, 40% of the labels redrawn",
        seeds={"paper": 3, "small": 3, "tiny": 1},
        cells=cells_of_digits,
        finish=table_of_digits,
        takes=("methods",),
    ),
}
