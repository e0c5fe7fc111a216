"""One thread for every test: tiny networks run faster on it, and two processes share two cores.

Property tests draw the same examples every time, so that a change is judged by what it changed.
"""

from __future__ import annotations

import gc
import os
import pkgutil
import sys
import tempfile
from collections.abc import Iterator

import pytest
from hypothesis import settings

from labelproof.__main__ import main

# Vectors of encoded pictures go to a folder of their own, never to the user's.
os.environ["LABELPROOF_CACHE"] = tempfile.mkdtemp(prefix="labelproof-cache-")
settings.register_profile("same", derandomize=True)
settings.load_profile("same")
SHORT = {
    "labelproof.judging.annotators.PATIENCE": 1,
    "labelproof.judging.annotators.ROUNDS": 1,
    "labelproof.judging.annotators.STEPS": 8,
    "labelproof.judging.crossfit.FEW": 0,
    "labelproof.methods.dpc.FEWEST_STEPS": 40,
    "labelproof.views.defaults.FEW_COLUMNS": 0,
}


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Slow tests come first, so that none of them is left to one process at the end."""
    items.sort(key=lambda item: item.get_closest_marker("slow") is None)


def pytest_collection_finish() -> None:
    """One thread; and all that was imported stays, so no search for garbage goes through it again.

    PyTorch is imported here, since the process that hands out the tests does without it.
    """
    import torch

    torch.set_num_threads(1)
    gc.freeze()


@pytest.fixture(scope="session", autouse=True)
def short_fits() -> Iterator[dict[str, int]]:
    """DPC trains briefly on few examples, with five folds, and no waves of vectors are tried.

    What explains votes best is looked for in one round of few steps. All this holds for fixtures
    of modules too. What a command starts in a process of its own is as for users.
    """
    for_users = {name: pkgutil.resolve_name(name) for name in SHORT}
    with pytest.MonkeyPatch.context() as patch:
        for name, value in SHORT.items():
            patch.setattr(name, value)
        patch.setattr(os, "fsync", os.fstat)  # no test cuts the power, and each waits for the disk
        yield for_users


@pytest.fixture(autouse=True)
def whole_fits(
    request: pytest.FixtureRequest, short_fits: dict[str, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Tests marked `whole` train as users do."""
    if request.node.get_closest_marker("whole") is not None:
        for name, value in short_fits.items():
            monkeypatch.setattr(name, value)


@pytest.fixture
def labelproof(monkeypatch, capsys, tmp_path):
    """Runs a command in an empty folder; gives exit code, what was printed, what was complained."""
    monkeypatch.chdir(tmp_path)

    def run(*words: object) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["labelproof", *map(str, words)])
        code = 0
        try:
            main()
        except SystemExit as stop:
            code = stop.code if isinstance(stop.code, int) else 0
        out, err = capsys.readouterr()
        return code, out, err

    return run
