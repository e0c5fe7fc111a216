"""A cell of an experiment: one run, the command that makes it, and its place in the table."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from labelproof.recipes.recipe import known_defaults

if TYPE_CHECKING:
    from labelproof.bench.results import Results

Scale = Literal["paper", "small", "tiny"]
SCALES: tuple[Scale, ...] = ("paper", "small", "tiny")
READABLE = 60  # letters of the readable part of a folder's name


@dataclass(frozen=True, kw_only=True)
class Cell:
    """One run of an experiment.

    Two cells with the same command and seed are the same run, also in different experiments, so
    they share a folder; `row` and `column` only say where a table shows it.
    """

    row: str  # of the table: "dpc", "SOP with L_edl", "beta = 1"
    column: str  # of the table: "CIFAR-10 sym. 50%", "worst"
    seed: int
    command: tuple[str, ...]  # arguments of `labelproof fit`, without --out, --seed and --resume
    label: str = "fit"  # what makes it: "fit", or "cleanlab"

    @property
    def name(self) -> str:
        """Folder name: readable, safe on every file system, the same for the same run."""
        kind = () if self.label == "fit" else (self.label,)
        values = (*kind, *(w for w in self._portable()[1:] if not w.startswith("--")))
        readable = re.sub(r"[^a-z0-9._]+", "-", "-".join(values).lower())[:READABLE].strip("-.")
        known = json.dumps([self.label, *self._portable()])
        return f"{readable}-{hashlib.sha256(known.encode()).hexdigest()[:8]}-seed{self.seed}"

    def record(self) -> dict[str, Any]:
        """What a finished cell counts for, while it is the same: command, seed, data, defaults."""
        paths = [Path(w) for w in self.command if Path(w).is_absolute()]
        digests = {path.name: _digest(path) for path in paths if path.is_file()}
        return {
            "label": self.label,
            "command": list(self._portable()),
            "seed": self.seed,
            "data": digests,
            "defaults": _defaults(self.label, self.command),
        }

    def _portable(self) -> tuple[str, ...]:
        """The command without folders, so that moving data and runs changes nothing."""
        return without_folders(self.command)


@dataclass(frozen=True, kw_only=True)
class Sources:
    """Where an experiment finds its data, and what the user restricts it to."""

    out: Path  # prepared data goes to out/data, cells to out/cells
    data: Path | None = None
    human_labels: Path | None = None  # .npz with the label sets of CIFAR-10N
    methods: tuple[str, ...] | None = None
    labels: tuple[str, ...] | None = None
    epochs: int | None = None  # instead of the scale's own number
    blocks: bool = False  # asymmetric CIFAR-100 by blocks of consecutive labels


@dataclass(frozen=True, kw_only=True)
class Experiment:
    """A grid of cells, and what is made of their results."""

    name: str
    title: str  # one line, for lists and headings
    seeds: Mapping[Scale, int]  # how many unless told
    cells: Callable[[Scale, Sources, int], list[Cell]]  # scale, where the data is, seeds
    finish: Callable[[Results, Path], list[Path]]  # writes tables and figures, returns the files
    takes: tuple[str, ...] = ()  # of methods and labels, what the user may restrict it to


def without_folders(words: Sequence[str]) -> tuple[str, ...]:
    """A command whose absolute paths are names alone."""
    return tuple(Path(w).name if Path(w).is_absolute() else w for w in words)


def _defaults(label: str, command: Sequence[str]) -> str:
    """Digest of the method's settings before the command changes any."""
    words = dict(pairwise(command))
    name = "ce" if label == "cleanlab" else words.get("--method", "dpc")
    known = known_defaults(name, words.get("--recipe"))
    return hashlib.sha256(known.encode()).hexdigest()[:16]


@lru_cache(maxsize=64)
def _digest(path: Path) -> str:
    known = hashlib.sha256()
    with path.open("rb") as file:
        while block := file.read(1 << 20):
            known.update(block)
    return known.hexdigest()[:16]
