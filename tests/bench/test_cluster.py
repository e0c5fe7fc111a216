"""Cells as independent commands, their results collected, and GPUs shared."""

from __future__ import annotations

import json
import shlex
from dataclasses import replace

import pytest
import torch

from labelproof.bench import gpus, runner
from labelproof.bench.cell import Cell
from labelproof.bench.scales import array_spec
from labelproof.errors import BadInput

GRID = ("vectors", "--methods", "ce", "--labels", "worst", "--epochs", 2)


def test_printed_cells_run_alone_and_are_collected(labelproof, vectors_npz, monkeypatch, tmp_path):
    monkeypatch.setattr("labelproof.bench.asked.cores", lambda: 2)  # on a machine of one core too
    grid = (*GRID, "--data", vectors_npz, "--seeds", 2, "--out", tmp_path / "b")
    code, out, err = labelproof("bench", *grid, "--print-cells")
    assert code == 0, err
    commands = [shlex.split(line) for line in out.splitlines()]
    assert len(commands) == 2
    assert all("--jobs 1" in line for line in out.splitlines())
    assert all(words[:3] == ["labelproof", "bench", "vectors"] for words in commands)
    code, out, err = labelproof(*commands[0][1:])
    assert code == 0, err
    assert "finished" in out
    assert not list((tmp_path / "b").glob("*/results.jsonl"))  # of the whole grid: by --collect
    assert len(labelproof("bench", *grid, "--print-cells")[1].splitlines()) == 1
    code, out, err = labelproof("bench", *grid, "--collect")
    assert code == 0, err
    assert "| worst | ce |" in out
    assert "not finished: 1 of 2 cells; --print-cells prints their commands:" in out
    assert "missing: ce, worst, seed 1 (" in out
    assert len(list((tmp_path / "b" / "cells").glob("*/summary.json"))) == 1


def test_nothing_to_collect_is_refused(labelproof, vectors_npz, tmp_path):
    grid = (*GRID, "--data", vectors_npz, "--out", tmp_path / "b")
    code, _, err = labelproof("bench", *grid, "--collect")
    assert code == 2
    assert "no cell of this grid is finished in" in err
    assert not list((tmp_path / "b").glob("vectors*"))


@pytest.mark.parametrize(("more", "threads"), [((), 8), (("--jobs", 4), 2)])
def test_a_cell_alone_has_all_cores(labelproof, vectors_npz, tmp_path, monkeypatch, more, threads):
    asked = []
    monkeypatch.setattr(runner, "cores", lambda: 8)
    monkeypatch.setattr(runner, "start", lambda *args: asked.append(args[2]) or 1 / 0)
    grid = (*GRID, "--data", vectors_npz, "--seeds", 1, "--out", tmp_path / "b", *more)
    name = shlex.split(labelproof("bench", *grid, "--print-cells")[1])[-1]
    with pytest.raises(ZeroDivisionError):
        labelproof("bench", *grid, "--cell", name)
    assert asked == [threads]


def test_the_estimate_says_that_it_is_of_single_processes(labelproof, vectors_npz, tmp_path):
    grid = (*GRID, "--data", vectors_npz, "--seeds", 1, "--out", tmp_path / "b", "--dry-run")
    code, out, err = labelproof("bench", *grid, "--launcher", "torchrun")
    assert code == 0, err
    assert "Those of --launcher torchrun are not estimated" in out
    assert "torchrun" not in labelproof("bench", *grid)[1]


def test_an_unknown_cell_is_refused(labelproof, vectors_npz, tmp_path):
    grid = (*GRID, "--data", vectors_npz)
    code, _, err = labelproof("bench", *grid, "--out", tmp_path / "b", "--cell", "none")
    assert code == 2
    assert "has no cell 'none'; --print-cells" in err


@pytest.mark.parametrize(
    ("environment", "expected"),
    [({}, ("0", "1", "2")), ({gpus.NAME: "4,7,9"}, ("4", "7", "9"))],
)
def test_runs_are_spread_over_the_gpus(monkeypatch, environment, expected):
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 3)
    there = gpus.visible(environment)
    assert there == expected
    taken: list[str] = []
    for _ in range(7):
        taken.append(gpus.least_used(there, taken))
    assert taken == [*expected, *expected, expected[0]]
    assert gpus.least_used((), ()) == ""


def test_several_processes_train_a_cell(tmp_path, vectors_npz, monkeypatch):
    monkeypatch.setattr(runner, "together", lambda jobs: 2)
    quick = {"method": "ce", "settings": {"epochs": 1}, "calibrate": "off"}
    spec = replace(array_spec(vectors_npz, "worst"), **quick)
    cell, ended = Cell(row="ce", column="worst", spec=spec), []
    errors = runner.run_cells(
        [cell],
        tmp_path,
        1,
        show=lambda _: None,
        ended=lambda *told: ended.append(told[:2]),
        launcher="torchrun",
    )
    assert not errors
    assert ended == [(cell, "")]
    assert json.loads((tmp_path / cell.name / "run.json").read_text())["processes"] == 2


def test_an_unknown_launcher_is_refused(labelproof, vectors_npz, tmp_path):
    grid = (*GRID, "--data", vectors_npz)
    code, _, err = labelproof("bench", *grid, "--out", tmp_path / "b", "--launcher", "slurm")
    assert code == 2
    assert "there is no launcher 'slurm'; use local or torchrun." in err


def test_processes_of_a_run_share_gpus_and_cores(monkeypatch):
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 8)
    assert [runner.together(jobs) for jobs in (1, 2, 3, 16)] == [8, 4, 2, 1]
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 0)
    monkeypatch.setattr(runner, "cores", lambda: 4)
    assert [runner.together(jobs) for jobs in (1, 4)] == [4, 1]


@pytest.mark.parametrize(
    ("device", "seen"),
    [("auto", ("4", "7", "9")), ("cuda", ("4", "7", "9")), ("cuda:1", ("7",)), ("cpu", ())],
)
def test_a_bench_uses_only_the_devices_it_is_told(device, seen, monkeypatch):
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 3)
    environment = {gpus.NAME: "4,7,9"}
    gpus.use_only(device, environment)
    assert gpus.visible(environment) == seen
    with pytest.raises(
        BadInput, match="no device 'cuda:3' here; use auto or cpu or cuda or cuda:0"
    ):
        gpus.use_only("cuda:3", {gpus.NAME: "4,7,9"})


def test_a_bench_refuses_a_device_that_is_not_there(monkeypatch):
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 0)
    for device in ("cuda", "cuda:x", "tpu"):
        with pytest.raises(BadInput, match="use auto or cpu"):
            gpus.use_only(device, {})
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 1)
    for device in ("cuda0", "cuda:", "cuda:1", "cudas"):
        with pytest.raises(BadInput, match="use auto or cpu or cuda"):
            gpus.use_only(device, {})
