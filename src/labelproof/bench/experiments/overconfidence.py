"""Are softmax networks over-confident, and are DPC's not? Figures 1 and 2 of the DPC paper.

Two runs on the same noisy data, DivideMix and DPC, each in its paper's form. Their networks are
then applied once more to training and test data: reliability, distributions of confidence and of
logits, and selection by loss against selection by margin.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path

from labelproof.bench.asked import chosen
from labelproof.bench.cell import Cell, Experiment, Scale, Sources, crossed, seeded
from labelproof.bench.experiments import overconfidence_figures as drawn
from labelproof.bench.experiments import overconfidence_tables as tables
from labelproof.bench.experiments.overconfidence_measure import Outputs, read_outputs
from labelproof.bench.prepared_data import LABEL_SETS
from labelproof.bench.results import Results
from labelproof.bench.scales import (
    Setting,
    human_settings,
    lasting,
    of_vectors,
    published_form,
    synthetic_settings,
)
from labelproof.bench.tables import closing
from labelproof.errors import BadInput
from labelproof.runs.spec import RunSpec

METHODS = {"dividemix": "DivideMix", "dpc": "DPC"}
RECIPE = "cifar10-symmetric-0.5"
HUMAN = "worst"  # the label set of vectors unless told
TINY_SIZES = {"warmup": 5, "ramp": 3.0, "epochs": 12}


def cells(scale: Scale, sources: Sources, seeds: int) -> list[Cell]:
    """Both methods on the same data, for every seed."""
    methods = chosen("method", sources.methods, tuple(METHODS), tuple(METHODS))
    found = columns(scale, sources)
    return crossed(found, methods, lambda name, m: seeded(METHODS[m], name, found[name](m), seeds))


def columns(scale: Scale, sources: Sources) -> dict[str, Callable[[str], RunSpec]]:
    """The run of a method on the data of each column; images are those of other experiments."""
    if sources.labels and not of_vectors(scale, sources):
        raise BadInput("overconfidence takes --labels on vectors alone: --scale small, --data.")
    if scale == "tiny":
        return {"digits sym. 40%": partial(tiny, epochs=sources.epochs)}
    if of_vectors(scale, sources):
        labels = chosen("label set", sources.labels, LABEL_SETS[1:], (HUMAN,))
        settings = human_settings(scale, sources, labels)
    else:
        settings = synthetic_settings(scale, sources, (RECIPE,))
    return {
        setting.column: partial(trained, setting, scale=scale, sources=sources)
        for setting in settings
    }


def trained(setting: Setting, method: str, scale: Scale, sources: Sources) -> RunSpec:
    """The paper's form; on vectors, where there is time for it, calibrated by folds."""
    spec = published_form(setting, method, scale, sources)
    return replace(spec, calibrate="folds") if of_vectors(scale, sources) else spec


def tiny(method: str, epochs: int | None) -> RunSpec:
    """The digits, two of five labels redrawn, by the paper's recipe in a few epochs."""
    return RunSpec(
        data="digits",
        noise="symmetric:0.4",
        method=method,
        recipe=RECIPE,
        settings=lasting(epochs) or TINY_SIZES,
        calibrate="folds",
    )


def finish(results: Results, folder: Path) -> list[Path]:
    """Figure 1 and its numbers; figure 2 and two tables for every data set with a finished run."""
    files = [*drawn.figure_1(folder), *tables.figure_1().write(folder, "figure1")]
    for number, column in enumerate(results.columns, 1):
        ending = f"-{number}" if len(results.columns) > 1 else ""
        runs = {row: finished(results, row, column) for row in results.rows}
        runs = {row: seeds for row, seeds in runs.items() if seeds}
        if runs:
            first = {row: seeds[0] for row, seeds in runs.items()}
            shown = f"{column}, {first_seeds(results, column)}"
            files += drawn.figure_2(folder, first, shown, ending)
            files += tables.calibration(runs, column, closing(results)).write(
                folder, f"calibration{ending}"
            )
            files += tables.selection(runs, column, closing(results)).write(
                folder, f"selection{ending}"
            )
    return files


def finished(results: Results, row: str, column: str) -> list[Outputs]:
    """What the networks of every finished seed say."""
    return [read_outputs(r.folder) for r in results.at(row, column) if r.state == "done"]


def first_seeds(results: Results, column: str) -> str:
    """Which run of each row the figures show."""
    rows = ([r for r in results.at(row, column) if r.state == "done"] for row in results.rows)
    seeds = sorted({done[0].cell.seed for done in rows if done})
    return f"seed{'s' if len(seeds) > 1 else ''} {' and '.join(map(str, seeds))}"


EXPERIMENT = Experiment(
    name="overconfidence",
    title="figures 1 and 2 of the paper: confidence, logits and selection of DivideMix and DPC",
    seeds={"paper": 1, "small": 3, "tiny": 1},
    cells=cells,
    finish=finish,
    takes=("methods", "labels"),
)
