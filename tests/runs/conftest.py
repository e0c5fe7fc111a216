"""One run of each kind for all tests of this folder."""

from __future__ import annotations

from pathlib import Path

import pytest
from saved_runs import images, vector_run

from fitting import fit
from labelproof.data.readers.arrays import from_arrays
from labelproof.methods.ce import CrossEntropy


@pytest.fixture(scope="session")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return vector_run(tmp_path_factory.mktemp("vectors") / "run")


@pytest.fixture(scope="session")
def image_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("images") / "run"
    method = CrossEntropy(epochs=2, batch=8, lr=0.05)
    fit(from_arrays(*images()), method, name="ce", out=folder, device="cpu")
    return folder
