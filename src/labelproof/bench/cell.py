"""A cell of an experiment: one run as a `RunSpec`, and its place in the table."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeVar

from labelproof.files import file_hash
from labelproof.recipes.recipe import known_defaults
from labelproof.runs.spec import RunSpec

if TYPE_CHECKING:
    from labelproof.bench.results import Results

Column = TypeVar("Column")
Row = TypeVar("Row")
Scale = Literal["paper", "small", "tiny"]
SCALES: tuple[Scale, ...] = ("paper", "small", "tiny")
Maker = Literal["fit", "cleanlab", "logistic", "pruned", "neighbours"]
OUTSIDE: tuple[Maker, ...] = ("logistic", "pruned", "neighbours")  # scikit-learn and cleanlab alone
READABLE = 60  # letters of the readable part of a folder's name
UNNAMED = ("data", "data_dir", "flip", "method", "seed")  # not in its list of values


@dataclass(frozen=True, kw_only=True)
class Cell:
    """One run of an experiment.

    Two cells with the same spec are the same run, also in different experiments, so they share a
    folder; `row` and `column` only say where a table shows it.
    """

    row: str  # of the table: "dpc", "SOP with L_edl", "beta = 1"
    column: str  # of the table: "CIFAR-10 sym. 50%", "worst"
    spec: RunSpec  # without `out`
    maker: Maker = "fit"  # what carries it out: our pipeline, or a rival

    @property
    def seed(self) -> int:
        """The seed of the run."""
        return self.spec.seed

    @property
    def place(self) -> str:
        """Where it stands in the table, in words."""
        return f"{self.row}, {self.column}, seed {self.seed}"

    @property
    def group(self) -> str:
        """The folder's name without the seed: the same for cells that differ in it alone."""
        told = changed(self.spec)
        kind = [] if self.maker == "fit" else [self.maker]
        words = [*kind, self.spec.method, *_values(told)]
        readable = re.sub(r"[^a-z0-9._]+", "-", "-".join(words).lower())[:READABLE].strip("-.")
        known = json.dumps([self.maker, {**told, "seed": None}], sort_keys=True)
        return f"{readable}-{hashlib.sha256(known.encode()).hexdigest()[:8]}"

    @property
    def name(self) -> str:
        """Folder name: readable, safe on every file system, the same for the same run."""
        return f"{self.group}-seed{self.seed}"

    def record(self) -> dict[str, Any]:
        """What a finished cell counts for, while it is the same: spec, data, defaults."""
        data = Path(str(self.spec.data))
        defaults = known_defaults(self.spec.trained, self.spec.recipe)
        return {
            "maker": self.maker,
            "spec": changed(self.spec),
            "data": {data.name: _digest(data)} if data.is_absolute() and data.is_file() else {},
            "defaults": hashlib.sha256(defaults.encode()).hexdigest()[:16],
        }


@dataclass(frozen=True, kw_only=True)
class Sources:
    """Where an experiment finds its data, and what the user restricts it to."""

    out: Path  # prepared data goes to out/data, cells to out/cells
    data: Path | None = None
    human_labels: Path | None = None  # .npz with the label sets of CIFAR-10N
    methods: tuple[str, ...] | None = None
    labels: tuple[str, ...] | None = None
    epochs: int | None = None  # instead of the scale's own number
    images: int | None = None  # to train on, instead of the scale's own number
    blocks: bool = False  # asymmetric CIFAR-100 by blocks of consecutive labels
    stand_ins: bool = False  # published sets are only named: nothing will be read or run

    @property
    def has_people(self) -> bool:
        """Whether there are labels that people gave."""
        return self.human_labels is not None or self.stand_ins


@dataclass(frozen=True, kw_only=True)
class Experiment:
    """A grid of cells, and what is made of their results."""

    name: str
    title: str  # one line, for lists and headings
    seeds: Mapping[Scale, int]  # how many unless told
    cells: Callable[[Scale, Sources, int], list[Cell]]  # scale, where the data is, seeds
    finish: Callable[[Results, Path], list[Path]]  # writes tables and figures, returns the files
    takes: tuple[str, ...] = ()  # of methods, labels and images, what the user may restrict


def seeded(row: str, column: str, spec: RunSpec, seeds: int, maker: Maker = "fit") -> list[Cell]:
    """A cell for every seed: 0, 1, ..."""
    return [
        Cell(row=row, column=column, spec=replace(spec, seed=seed), maker=maker)
        for seed in range(seeds)
    ]


def crossed(
    columns: Iterable[Column], rows: Iterable[Row], cells: Callable[[Column, Row], list[Cell]]
) -> list[Cell]:
    """The cells of every row in every column, column by column."""
    every = tuple(rows)
    return [cell for column in columns for row in every for cell in cells(column, row)]


def changed(spec: RunSpec) -> dict[str, Any]:
    """What a spec says that the defaults do not, as plain values.

    Absolute paths are names alone, so that moving data and runs changes nothing.
    """
    usual, told = RunSpec().describe(), spec.describe()
    reading = _differing(told.pop("reading"), usual.pop("reading"))
    return _differing(told, usual) | ({"reading": reading} if reading else {})


def _differing(values: Mapping[str, Any], usual: Mapping[str, Any]) -> dict[str, Any]:
    return {name: _portable(value) for name, value in values.items() if value != usual[name]}


def _portable(value: Any) -> Any:
    path = isinstance(value, str) and Path(value).is_absolute()
    return Path(value).name if path else value


def _values(told: Mapping[str, Any]) -> list[str]:
    """The values of a described spec as words, in the order of its fields."""
    words = list[str]()
    for name, value in told.items():
        if isinstance(value, dict):
            words += _values(value)
        elif name not in UNNAMED:
            words.append(str(value))
    return words


@lru_cache(maxsize=64)
def _digest(path: Path) -> str:
    return file_hash(path)[:16]
