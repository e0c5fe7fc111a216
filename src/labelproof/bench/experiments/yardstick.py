"""The defaults on sets of different kinds and sizes, beside what a practitioner would do instead.

Every set is seen by seven rows: the default, DPC, plain training and our regression, each alone,
and three rivals made of scikit-learn and cleanlab. Subsets of CIFAR-10N join with `--data`.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from labelproof.bench.asked import chosen
from labelproof.bench.cell import Cell, Experiment, Maker, Scale, Sources, crossed, seeded
from labelproof.bench.experiments import yardstick_tables as tables
from labelproof.bench.results import Results
from labelproof.bench.scales import array_spec, lasting
from labelproof.bench.yardstick_sets import HUMAN_SETS, LARGE_SETS, SETS, YardSet
from labelproof.runs.spec import RunSpec

OURS = (tables.DEFAULT, "dpc", tables.PLAIN, "linear")
RIVALS: dict[str, Maker] = {"logistic": "logistic", "pruned": "pruned", "neighbours": "neighbours"}
TINY_EPOCHS = 4


def cells(scale: Scale, sources: Sources, seeds: int) -> list[Cell]:
    """A cell for every set, row and seed."""
    known = (*OURS, *RIVALS)
    methods = chosen("method", sources.methods, known, known)
    epochs = sources.epochs or (TINY_EPOCHS if scale == "tiny" else None)
    data = {one.name: array_spec(one.file(sources), "y", "clean") for one in sets(scale, sources)}
    return crossed(data, methods, lambda c, m: _cells(m, c, data[c], epochs, seeds))


def sets(scale: Scale, sources: Sources) -> tuple[YardSet, ...]:
    """Two for trying things out, else all; human labels where they are named."""
    if scale == "tiny":
        return SETS[:2]
    if sources.data is None:
        return SETS
    return (*SETS, *HUMAN_SETS, *(LARGE_SETS if scale == "paper" else ()))


def _cells(method: str, column: str, data: RunSpec, epochs: int | None, seeds: int) -> list[Cell]:
    if method in RIVALS:
        spec = replace(data, method="linear")  # a rival reads the data of a spec, and its seed
        return seeded(tables.ROWS[method], column, spec, seeds, RIVALS[method])
    settings = {} if method == "linear" else lasting(epochs)
    spec = replace(data, method=method, settings=settings)
    return seeded(tables.ROWS[method], column, spec, seeds)


def finish(results: Results, folder: Path) -> list[Path]:
    """What every row has on every set, the default against the best rival, and the sets."""
    about = {one.name: one.about for one in (*SETS, *HUMAN_SETS, *LARGE_SETS)}
    return [
        *tables.everything(results).write(folder),
        *tables.against_rivals(results).write(folder, "table-rivals"),
        *tables.described(results, about).write(folder, "table-sets"),
    ]


EXPERIMENT = Experiment(
    name="yardstick",
    title="the defaults compared with scikit-learn and cleanlab, on sets of different kinds and "
    "sizes",
    seeds={"paper": 3, "small": 2, "tiny": 1},
    cells=cells,
    finish=finish,
    takes=("methods",),
)
