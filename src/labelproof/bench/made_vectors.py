"""Vectors made by scikit-learn: clusters in few dimensions, for trying rules on other data."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
from sklearn.datasets import make_classification

from labelproof.bench.cell import Sources
from labelproof.bench.prepared_data import store

TEST = 5_000
SEED = 0


@dataclass(frozen=True, kw_only=True)
class Made:
    """How a set is made: `make_classification` with two clusters a class, and its label noise."""

    size: int
    classes: int
    features: int
    informative: int
    apart: float  # class_sep
    noise: str  # as --noise takes it

    @property
    def column(self) -> str:
        """Its column in a table."""
        kind, rate = self.noise.split(":")
        short = {"symmetric": "sym."}.get(kind, kind)
        return f"{self.size} made, {self.classes} classes {short} {float(rate):.0%}"


SETS = (
    Made(size=2_500, classes=2, features=20, informative=8, apart=1.0, noise="symmetric:0.4"),
    Made(size=3_000, classes=5, features=40, informative=15, apart=1.0, noise="symmetric:0.4"),
    Made(size=8_000, classes=5, features=40, informative=15, apart=1.0, noise="symmetric:0.4"),
    Made(size=12_000, classes=2, features=30, informative=10, apart=0.8, noise="pair:0.25"),
    Made(size=12_000, classes=20, features=60, informative=20, apart=1.2, noise="symmetric:0.5"),
    Made(size=10_000, classes=10, features=60, informative=20, apart=1.2, noise="pair:0.3"),
    Made(size=10_000, classes=10, features=60, informative=20, apart=1.5, noise="symmetric:0.8"),
)


def made_file(sources: Sources, made: Made) -> Path:
    """The set as an .npz of x and y, x_test and y_test; the labels are right."""
    x, y = make_classification(
        made.size + TEST,
        n_features=made.features,
        n_informative=made.informative,
        n_redundant=made.informative // 3,
        n_classes=made.classes,
        n_clusters_per_class=2,
        class_sep=made.apart,
        flip_y=0,
        random_state=SEED,
    )
    x, y = x.astype(np.float32), y.astype(np.int64)
    train, test = slice(made.size), slice(made.size, None)
    arrays = {"x": x[train], "y": y[train], "x_test": x[test], "y_test": y[test]}
    return store(sources.out, f"made-{made.classes}-classes-{made.size}", arrays)
