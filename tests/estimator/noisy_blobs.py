"""Blobs with some labels moved to the next class, as arrays."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from sklearn.datasets import make_blobs

Array = npt.NDArray[Any]
NAMES = np.array(["ant", "bee", "cow"])


@dataclass(frozen=True)
class Blobs:
    X: Array
    y: Array  # given labels
    truth: Array
    X_test: Array
    y_test: Array

    @property
    def wrong(self) -> Array:
        return np.asarray(self.y != self.truth)


def noisy_blobs(size: int = 240, noise: float = 0.25, words: bool = False, seed: int = 0) -> Blobs:
    X, truth = make_blobs(
        n_samples=size + 120, centers=3, n_features=5, cluster_std=2.5, random_state=seed
    )
    rng = np.random.default_rng(seed)
    y = truth.copy()
    moved = rng.permutation(size)[: round(noise * size)]
    y[moved] = (y[moved] + 1 + rng.integers(0, 2, len(moved))) % 3
    if words:
        truth, y = NAMES[truth], NAMES[y]
    return Blobs(X[:size], y[:size], truth[:size], X[size:], truth[size:])
