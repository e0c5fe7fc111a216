"""All methods on vectors with real human label noise, and cleanlab beside them."""

from __future__ import annotations

from collections.abc import Sequence
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
    ECE_CALIBRATED,
    LISTED,
    MEASURED,
    SECONDS,
    STATED,
    Metric,
    Record,
    Results,
)
from labelproof.bench.scales import array_spec, lasting
from labelproof.bench.tables import entry, listing
from labelproof.methods import METHODS
from labelproof.runs.spec import RunSpec

LABELS = ("clean", "aggre", "rand1", "worst")
CLEANLAB: Maker = "cleanlab"
# other forms of methods that the tables know by one name
FORMS: dict[str, tuple[str, dict[str, object]]] = {
    "gce_truncated": ("gce", {"truncate": True}),
    "bootstrap_soft": ("bootstrap", {"target": "soft"}),
    "cores_star": ("cores", {"consistency": 10}),
}
TINY_METHODS = ("ce", "dpc", CLEANLAB)
TINY_LABELS = ("clean", "worst")
OWN = "given labels"  # the column of a user's own vectors
ALL = (*LISTED, STATED, MEASURED, SECONDS)
BY_FOLDS = (ECE_CALIBRATED, STATED, MEASURED)  # read where calibration trained on folds
JUDGED = ("ce", "dpc")


def cells(scale: Scale, sources: Sources, seeds: int) -> list[Cell]:
    """A cell for every label set, method and seed."""
    tiny = scale == "tiny"
    known = (*METHODS, *FORMS, CLEANLAB)
    methods = chosen("method", sources.methods, known, TINY_METHODS if tiny else known)
    epochs = sources.epochs or (4 if tiny else None)
    columns = _columns(tiny, sources)
    return crossed(columns, methods, lambda c, m: _cells(m, c, columns[c], epochs, seeds))


def _columns(tiny: bool, sources: Sources) -> dict[str, RunSpec]:
    """What is read for each set of labels: CIFAR-10N's, or those of a user's own vectors."""
    if not tiny and not sources.labels and has_own_labels(sources.data):
        path = measurable(sources)
        return {OWN: array_spec(path, "y", own_truth(path))}
    labels = chosen("label set", sources.labels, LABEL_SETS, TINY_LABELS if tiny else LABELS)
    path = tiny_vectors(sources) if tiny else vectors_file(sources, labels)
    return {key: array_spec(path, key, "clean") for key in labels}


def _cells(method: str, column: str, data: RunSpec, epochs: int | None, seeds: int) -> list[Cell]:
    """The runs of a method; calibration trains on five folds again, so only two have it."""
    if method == CLEANLAB:
        spec = replace(data, method="ce", settings=lasting(epochs))
        return seeded(method, column, spec, seeds, CLEANLAB)
    name, changes = FORMS.get(method, (method, {}))
    spec = replace(
        data,
        method=name,
        settings={**changes, **lasting(epochs)},
        calibrate="folds" if method in JUDGED else "quick",
    )
    return seeded(method, column, spec, seeds)


NOTES = (
    "`last` is the accuracy after the last epoch; `best` is chosen on the test set. AUROC and "
    "AP: how well wrong labels are found, by the method's own clean probabilities and by those "
    "that labels.csv has. Precision: share of the suspects that are wrong, as "
    "stated without true labels and as measured with them.",
    "Calibrated ECE and precision are of runs whose labels were judged by networks that were not "
    "trained on them; their number of seeds stands in brackets. For cleanlab the precision is that "
    "of the labels it prunes. Seconds are of training alone.",
)


def finish(results: Results, folder: Path) -> list[Path]:
    """One table, a row for every label set and method."""
    table = listing(
        results, ALL, title="Methods on vectors", notes=NOTES, columns="labels", show=number
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


EXPERIMENT = Experiment(
    name="vectors",
    title="all methods and cleanlab on vectors: human labels of CIFAR-10N, or your own data",
    seeds={"paper": 3, "small": 3, "tiny": 1},
    cells=cells,
    finish=finish,
    takes=("methods", "labels"),
)
