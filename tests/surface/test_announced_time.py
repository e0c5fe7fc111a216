"""Before it trains, `labelproof fit` says how long that takes, or why it does not know."""

from __future__ import annotations

import contextlib
import io
import time

import numpy as np
import pytest
from rich.console import Console

from labelproof import pipeline
from labelproof.cli import fit
from labelproof.runs.forecast import Forecast, OutOfTime, at_most
from labelproof.runs.spec import RunSpec
from labelproof.training.ranks import ALONE, Ranks


@pytest.fixture
def vectors(tmp_path):
    x = np.random.default_rng(0).normal(size=(60, 4))
    np.savez(tmp_path / "d.npz", x=x, y=np.arange(60) % 3)
    return tmp_path / "d.npz"


@pytest.mark.parametrize(
    ("compiled", "here", "sentence"),
    [
        (True, ALONE, "not measured within 3 seconds, because compiling takes longer"),
        (False, ALONE, "not measured within 3 seconds, because a few batches take longer"),
        (False, Ranks(0, 2), "not measured, because several processes train together"),
    ],
)
def test_a_time_that_is_not_known_is_explained(compiled, here, sentence, vectors, monkeypatch):
    monkeypatch.setattr(fit, "forecast", lambda *_, **__: Forecast(training=9.0))
    monkeypatch.setattr(pipeline, "fused", lambda trunk, *_: trunk)
    spec = RunSpec(data=str(vectors), method="ce", compile=compiled)
    parts = pipeline.assemble(spec)
    console = Console(file=io.StringIO(), width=200)
    fit._announce(console, here, parts)
    said = console.file.getvalue()
    assert "Run:     " in said
    assert f"Time:    {sentence}\n" in said


@pytest.mark.parametrize(("here", "speaks"), [(Ranks(0, 2), True), (Ranks(1, 2), False)])
def test_one_of_several_processes_speaks(here, speaks, tmp_path):
    assert fit._begins(RunSpec(out=tmp_path), False, here) == speaks


def test_one_of_several_processes_plans(labelproof, vectors, monkeypatch):
    monkeypatch.setenv("WORLD_SIZE", "2")
    said = []
    for rank in ("0", "1"):
        monkeypatch.setenv("RANK", rank)
        code, out, err = labelproof("plan", vectors, "--method", "ce")
        assert code == 0, err
        said.append(out)
    assert "note: the time is that of a single process" in said[0]
    assert said[1] == ""


def test_the_end_of_the_time_is_repeated_where_a_library_caught_it():
    def deaf() -> None:
        with contextlib.suppress(OutOfTime):
            time.sleep(30)
        time.sleep(30)

    with pytest.raises(OutOfTime), at_most(0.01):
        deaf()
