"""One thread for every test: tiny networks run faster on it, and two processes share two cores.

Property tests draw the same examples every time, so that a change is judged by what it changed.
"""

from __future__ import annotations

import gc
import os
import sys
import tempfile

import pytest
from hypothesis import settings

from labelproof.__main__ import main

# Vectors of encoded pictures go to a folder of their own, never to the user's.
os.environ["LABELPROOF_CACHE"] = tempfile.mkdtemp(prefix="labelproof-cache-")
settings.register_profile("same", derandomize=True)
settings.load_profile("same")


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


@pytest.fixture(autouse=True)
def short_fits(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """DPC trains briefly on few examples, with five folds; tests marked `whole` train as users do.

    Nor is it tried whether vectors should get waves. What a command starts in a process of its own
    is whole too.
    """
    if request.node.get_closest_marker("whole") is None:
        monkeypatch.setattr("labelproof.views.defaults.FEW_COLUMNS", 0)
        monkeypatch.setattr("labelproof.methods.dpc.FEWEST_STEPS", 40)
        monkeypatch.setattr("labelproof.judging.crossfit.FEW", 0)


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
