"""Small grids, and CIFAR in little."""

from __future__ import annotations

import pickle
import subprocess
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from bench_cells import forked, trial

from labelproof.bench import runner
from labelproof.bench.cell import Cell


@pytest.fixture(scope="session", autouse=True)
def _quick_starts() -> Iterator[None]:
    """Cells of a bench in this process start without importing PyTorch anew."""
    with pytest.MonkeyPatch.context() as patch:
        stand_in = SimpleNamespace(**{**vars(subprocess), "Popen": forked})
        patch.setattr(runner, "subprocess", stand_in)
        yield


@pytest.fixture
def labelproof(labelproof, monkeypatch):
    """The same in a wide terminal, which breaks no line."""
    monkeypatch.setenv("COLUMNS", "200")
    return labelproof


@pytest.fixture
def of_cells(monkeypatch):
    """Lets `labelproof bench` know one experiment, made of the cells it is given."""

    def put(*cells: Cell) -> None:
        monkeypatch.setattr("labelproof.bench.command.experiment", lambda name: trial(*cells))

    return put


@pytest.fixture(scope="session")
def cifar_folder(tmp_path_factory) -> Path:
    """CIFAR-10 and CIFAR-100 in their published form, with a few images each, and CIFAR-N."""
    root = tmp_path_factory.mktemp("cifar")
    rng = np.random.default_rng(0)
    ten, hundred = root / "cifar-10-batches-py", root / "cifar-100-python"
    ten.mkdir()
    hundred.mkdir()
    labels = []
    for name in (*(f"data_batch_{k}" for k in range(1, 6)), "test_batch"):
        labels.append(_batch(ten / name, b"labels", 10, 10, rng))
    _batch(hundred / "train", b"fine_labels", 200, 100, rng)
    _batch(hundred / "test", b"fine_labels", 100, 100, rng)
    clean = np.concatenate(labels[:5])
    human = dict.fromkeys(("clean_label", "aggre_label", "worse_label"), clean)
    human |= {f"random_label{k}": clean for k in (1, 2, 3)}
    np.save(root / "CIFAR-10_human_ordered.npy", human, allow_pickle=True)
    return root


def _batch(path: Path, key: bytes, count: int, classes: int, rng: np.random.Generator):
    y = rng.permutation(np.arange(count) % classes)
    pixels = rng.integers(0, 256, (count, 3072), dtype=np.uint8)
    path.write_bytes(pickle.dumps({b"data": pixels, key: y.tolist()}, protocol=2))
    return y


@pytest.fixture(scope="session")
def cifar_npz(tmp_path_factory) -> Path:
    """CIFAR-10 as arrays, with blocks of two by two pixels of known mean."""
    path = tmp_path_factory.mktemp("arrays") / "cifar10.npz"
    rng = np.random.default_rng(0)
    np.savez(
        path,
        train_images=rng.integers(0, 256, (60, 32, 32, 3), dtype=np.uint8),
        train_labels=np.arange(60) % 10,
        test_images=rng.integers(0, 256, (20, 32, 32, 3), dtype=np.uint8),
        test_labels=np.arange(20) % 10,
    )
    return path


@pytest.fixture
def vectors_npz(tmp_path) -> Path:
    """Vectors with clean and human labels, in the form that `--data` takes."""
    rng = np.random.default_rng(0)
    labels = {key: np.arange(60) % 10 for key in ("clean", "aggre", "rand1", "worst")}
    x, x_test = rng.normal(size=(60, 4)), rng.normal(size=(20, 4))
    path = tmp_path / "features.npz"
    np.savez(path, x=x, x_test=x_test, y_test=np.arange(20) % 10, **labels)
    return path
