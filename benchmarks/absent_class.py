"""Whether "Examples that no class fits" lists those of a class that is not among the labels.

Planted sets have some examples of one more class, labelled at random with the others; the other
sets have none. Each line is one default run.

    python benchmarks/absent_class.py cifar10n_features.npz labelme.npz
"""

from __future__ import annotations

import argparse
import csv
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from sklearn.datasets import load_breast_cancer, load_digits, load_iris, load_wine

from labelproof import pipeline
from labelproof.run_files import HEALTH_LIST
from labelproof.runs.spec import RunSpec

Array = npt.NDArray[Any]
KIND = "no right class"


@dataclass(frozen=True, kw_only=True)
class Case:
    """A set, and which of its examples no class fits."""

    name: str
    x: Array
    y: Array
    planted: Array


def case(
    name: str, x: Array, truth: Array, absent: int | None, *, each: int | None = None,
    keep: tuple[int, ...] | None = None, count: int = 60, noise: float = 0.0, seed: int = 0,
) -> Case:  # fmt: skip
    """Some classes of a set, and `count` examples of an absent one with labels at random."""
    rng = np.random.default_rng(seed)
    classes = [c for c in (keep or np.unique(truth).tolist()) if c != absent]
    mine = [np.flatnonzero(truth == c) for c in classes]
    rows = np.concatenate([rng.choice(one, each, replace=False) if each else one for one in mine])
    y = truth[rows].copy()
    wrong = rng.random(len(y)) < noise
    y[wrong] = rng.choice(classes, int(wrong.sum()))
    if absent is not None:
        more = rng.choice(np.flatnonzero(truth == absent), count, replace=False)
        rows, y = np.concatenate([rows, more]), np.concatenate([y, rng.choice(classes, count)])
    order = rng.permutation(len(y))
    planted = truth[rows] == (-1 if absent is None else absent)
    return Case(name=name, x=x[rows][order].astype(np.float32), y=y[order], planted=planted[order])


def cases(cifar: Path, labelme: Path) -> Iterator[Case]:
    """The sets, those with a planted class first."""
    data, people = np.load(cifar), np.load(labelme)
    x, truth = data["x"], data["clean"]
    digits, digit = load_digits(return_X_y=True)
    photos, place = people["x"], people["clean"]
    some, other, third = (0, 1, 4, 6, 7), (0, 2, 3, 5, 6), (0, 1, 2, 4, 8)
    yield case("CIFAR, ship absent", x, truth, 8, keep=some, each=200)
    yield case("the same, 20% redrawn", x, truth, 8, keep=some, each=200, noise=0.2, seed=1)
    yield case("CIFAR, cat absent", x, truth, 3, keep=third, each=200, seed=2)
    yield case("CIFAR, truck absent", x, truth, 9, keep=other, each=200, seed=3)
    yield case("CIFAR, deer of ten absent", x, truth, 4, each=200, count=100, seed=7)
    yield case("digits, 8 absent", digits, digit, 8)
    yield case("digits, 3 absent, 10% redrawn", digits, digit, 3, count=100, noise=0.1, seed=1)
    yield case("LabelMe, class 2 absent", photos, place, 2)
    yield case("LabelMe, class 6 absent", photos, place, 6, count=80, seed=1)
    yield case("CIFAR, five classes", x, truth, None, keep=some, each=200, seed=4)
    yield case("CIFAR, five classes, 25% redrawn", x, truth, None, keep=other, each=200,
               noise=0.25, seed=5)  # fmt: skip
    yield case("CIFAR, 10% redrawn", x, truth, None, each=200, noise=0.1, seed=6)
    yield case("digits", digits, digit, None, seed=2)
    yield case("digits, 25% redrawn", digits, digit, None, noise=0.25, seed=3)
    yield case("LabelMe", photos, place, None)
    for name, read in (("wine", load_wine), ("iris", load_iris), ("cancer", load_breast_cancer)):
        yield case(name, *read(return_X_y=True), None)


def listed(one: Case, folder: Path) -> list[int]:
    """The examples that a default run lists."""
    np.savez(folder / "d.npz", x=one.x, y=one.y)
    out = folder / "run"
    pipeline.run(RunSpec(data=str(folder / "d.npz"), out=out))
    with (out / HEALTH_LIST).open(newline="") as file:
        return [int(row["index"]) for row in csv.DictReader(file) if row["kind"] == KIND]


def main() -> None:
    """Print a row for each set."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("cifar", type=Path)
    parser.add_argument("labelme", type=Path)
    told = parser.parse_args()
    print("| set | examples | planted | listed | of these planted |\n|---|---:|---:|---:|---:|")
    for one in cases(told.cifar, told.labelme):
        with tempfile.TemporaryDirectory() as folder:
            rows = listed(one, Path(folder))
        count = int(one.planted.sum())
        hits = int(one.planted[rows].sum()) if rows else 0
        print(f"| {one.name} | {len(one.y):,} | {count} | {len(rows)} | {hits} |", flush=True)


if __name__ == "__main__":
    main()
