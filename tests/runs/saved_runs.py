"""Small finished runs on disk, made once and copied by tests that damage them."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np

from fitting import fit
from labelproof.data.readers.arrays import from_arrays
from labelproof.methods.dpc import DPC
from labelproof.training.protocol import Method

SMALL = DPC(epochs=4, warmup=2, batch=16, lr=0.05, lambda_u=0.0)


def vectors(size: int = 90, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    y = np.arange(size) % 3
    X = 3 * np.eye(3, 6)[y] + rng.normal(size=(size, 6))
    return (5 + 2 * X).astype(np.float32), y


def images(size: int = 40, edge: int = 8, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    y = np.arange(size) % 2
    noise = rng.integers(0, 100, (size, edge, edge + 4, 3))
    return (noise + 120 * y[:, None, None, None]).astype(np.uint8), y


def vector_run(folder: Path, method: Method = SMALL) -> Path:
    X, y = vectors()
    data = from_arrays(X, np.array(["ant", "bee", "cow"])[y])
    fit(data, method, name="dpc", out=folder, device="cpu")
    return folder


def copied(run: Path, to: Path) -> Path:
    return Path(shutil.copytree(run, to))
