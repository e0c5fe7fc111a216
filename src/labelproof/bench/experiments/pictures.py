"""The paper's claims on CIFAR-10 at 32 x 32 pixels, on two cores.

DPC against cross-entropy and DivideMix, DPC*, and DPC without each of its parts, all with the
recipe `fast` (the compact network, a short one-cycle schedule), under labels that people gave and
under half of the labels redrawn. Curves show how accuracy and the split develop.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from labelproof.bench import figures
from labelproof.bench.asked import chosen
from labelproof.bench.cell import Cell, Experiment, Scale, Sources, seeded
from labelproof.bench.experiments.ablation import PARTS
from labelproof.bench.prepared_data import LABEL_SETS, pictures_file, tiny_images
from labelproof.bench.results import (
    AUROC,
    AUROC_OWN,
    BEST,
    ECE,
    ECE_CALIBRATED,
    LAST,
    SECONDS,
    Record,
    Results,
    mean_spread,
)
from labelproof.bench.scales import STAR, array_spec, lasting, title_of
from labelproof.bench.tables import Table, closing, listing
from labelproof.errors import BadInput
from labelproof.runs.folder import history_so_far
from labelproof.runs.spec import RunSpec
from labelproof.training.run import native_bf16

RECIPE = "fast"
METHODS = ("ce", "dpc", "dividemix", STAR)
PENALISED = ("dpc", "dividemix", STAR)  # in the warm-up on labels of people, as published
KURTOSIS: dict[str, dict[str, object]] = {"kurtosis rule": {"selector": "auto"}}  # the appendix's
NOISE, NOISE_COLUMN = "symmetric:0.5", "sym. 50%"
SIZES: dict[Scale, int | None] = {"paper": None, "small": 20_000}  # images; None is all
TINY_EPOCHS = 6
METRICS = (LAST, BEST, ECE, ECE_CALIBRATED, AUROC_OWN, AUROC, SECONDS)
Series = dict[str, tuple[list[float], list[float], list[float]]]


def cells(scale: Scale, sources: Sources, seeds: int) -> list[Cell]:
    """The comparison first, then what is left out of DPC; both noises, every seed."""
    methods = chosen("method", sources.methods, METHODS, METHODS)
    data = _data(scale, sources)
    rows = {title_of(method): _spec(method, scale, sources) for method in methods}
    if sources.methods is None:
        cut = {row: changes for row, changes in {**PARTS, **KURTOSIS}.items() if changes}
        rows |= {row: _spec("dpc", scale, sources, changes) for row, changes in cut.items()}
    # cross-entropy and DPC on both noises come before everything else
    names = list(rows)
    return [
        cell
        for group in (names[:2], *([name] for name in names[2:]))
        for column, read in data.items()
        for row in group
        for cell in seeded(row, column, _on(read, rows[row]), seeds)
    ]


def _data(scale: Scale, sources: Sources) -> dict[str, RunSpec]:
    """How each column is read: labels of people where they are named, then labels redrawn."""
    tiny = scale == "tiny"
    usual = ("worst",) if tiny or sources.has_people else ()
    labels = chosen("label set", sources.labels, LABEL_SETS[1:], usual)
    if tiny and sources.images:
        raise BadInput(
            "the scale tiny has its own images; leave --images out, or use --scale small."
        )
    if sources.stand_ins:
        human = {label: RunSpec(data=f"cifar10n-{label}") for label in labels}
        return {**human, NOISE_COLUMN: RunSpec(data="cifar10", noise=NOISE)}
    if tiny:
        path = tiny_images(sources)
    else:
        path = pictures_file(sources, labels, sources.images or SIZES[scale])
    human = {label: array_spec(path, label, "clean") for label in labels}
    drawn = replace(array_spec(path, "clean"), noise=NOISE)
    found = {**human, NOISE_COLUMN: drawn}
    return {name: replace(spec, flip=False) for name, spec in found.items()} if tiny else found


def _spec(
    method: str, scale: Scale, sources: Sources, changes: dict[str, object] | None = None
) -> RunSpec:
    epochs = sources.epochs or (TINY_EPOCHS if scale == "tiny" else None)
    return RunSpec(
        method="dpc" if method == STAR else method,
        recipe=f"{RECIPE}-star" if method == STAR else RECIPE,
        settings={**(changes or {}), **lasting(epochs)},
        calibrate="quick",
        precision="bf16" if native_bf16() else "fp32",
    )


def _on(read: RunSpec, spec: RunSpec) -> RunSpec:
    """The run on a column's data; labels of people bring the published confidence penalty."""
    people = read.noise is None and spec.method in PENALISED
    settings = {"confidence_penalty": 1.0, **spec.settings} if people else spec.settings
    given = replace(spec, data=read.data, reading=read.reading, noise=read.noise, flip=read.flip)
    return replace(given, settings=settings)


def finish(results: Results, folder: Path) -> list[Path]:
    """A line for every place, the curves, and the split epoch by epoch."""
    files = listing(results, METRICS, title="The paper's claims on pictures").write(folder)
    for number, column in enumerate(results.columns):
        curves = {row: curve(results.at(row, column), "test_accuracy") for row in results.rows}
        shown = {row: points for row, points in curves.items() if points[0]}
        if shown:
            stem = folder / ("figure" if number == 0 else f"figure-{number + 1}")
            title = f"Test accuracy by epoch, {column}"
            files += figures.lines(stem, title, "epoch", "test accuracy (%)", shown)
    split = split_table(results)
    return files + (split.write(folder, "table-split") if split.rows else [])


def curve(records: Sequence[Record], key: str) -> tuple[list[float], list[float], list[float]]:
    """Epochs with mean and spread in per cent over the seeds that have got there."""
    found: dict[int, list[float]] = {}
    for record in records:
        for line in history_so_far(record.folder):
            if key in line:
                found.setdefault(line["epoch"], []).append(100 * line[key])
    pairs = [mean_spread(values) or (0.0, 0.0) for values in found.values()]
    return [float(e) for e in found], [mean for mean, _ in pairs], [spread for _, spread in pairs]


def split_table(results: Results) -> Table:
    """What each epoch's split keeps, how much of it is right, and how accurate the model is."""
    rows = [
        (column, row, f"{line['epoch']}", *(_share(line, key) for key in SPLIT))
        for column in results.columns
        for row in results.rows
        for record in results.at(row, column)[:1]
        for line in history_so_far(record.folder)
        if "kept_right" in line
    ]
    return Table(
        title="The split, epoch by epoch, first seed",
        header=("data", "method", "epoch", *SPLIT.values()),
        rows=tuple(rows),
        notes=tuple(closing(results)),
        words=2,
    )


SPLIT = {
    "selected": "kept (%)",
    "kept_right": "of these right (%)",
    "error_auroc": "AUROC (%)",
    "test_accuracy": "test accuracy (%)",
}


def _share(line: dict[str, float], key: str) -> str:
    return f"{100 * line[key]:.1f}" if key in line else ""


EXPERIMENT = Experiment(
    name="pictures",
    title="DPC, DivideMix, cross-entropy and DPC's parts on CIFAR-10 at 32 x 32 pixels",
    seeds={"paper": 2, "small": 2, "tiny": 1},
    cells=cells,
    finish=finish,
    takes=("methods", "labels", "images"),
)
