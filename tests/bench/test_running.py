"""Grids as a person meets them: continued, not repeated, going on past a failure."""

from __future__ import annotations

import io
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass, replace
from multiprocessing.process import BaseProcess
from pathlib import Path

import pytest
from bench_cells import QUICK, bench_process, lead_bench, quick_cell, trial

from forks import forks
from labelproof.__main__ import main
from labelproof.bench import asked, gpus, runner
from labelproof.bench.asked import Asked, experiment
from labelproof.bench.cell import Cell, Sources
from labelproof.bench.command import Display
from labelproof.bench.scales import array_spec
from labelproof.recipes.recipe import recipes_of

VECTORS = ("vectors", "--methods", "ce", "--labels", "worst", "--seeds", "1", "--jobs", "1")
BAD = Cell(row="bad", column="digits", spec=replace(QUICK, data="nowhere.npz"))


def wait_for(condition, seconds: float = 300) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "nothing happened"
        time.sleep(0.05)


def epochs(out: Path) -> list[int]:
    found = list(out.glob("cells/*/metrics.jsonl"))
    if not found:
        return []
    return [json.loads(x)["epoch"] for x in found[0].read_text().splitlines() if x.endswith("}")]


def gone(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    return Path(f"/proc/{pid}/stat").read_text().split(") ")[1][0] == "Z"


def children(process: subprocess.Popen[str] | BaseProcess) -> list[int]:
    """The runs at work for a bench."""
    listed = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text()
    return [int(pid) for pid in listed.split()]


@pytest.mark.slow
def test_ctrl_c_stops_the_runs_which_go_on_and_end_with_a_bench_that_was_killed(
    vectors_npz, tmp_path
):
    words = (*VECTORS, "--data", vectors_npz, "--epochs", 100_000, "--out", tmp_path / "b")
    process = bench_process(*words, cwd=tmp_path)
    wait_for(lambda: len(epochs(tmp_path / "b")) >= 1)
    first = children(process)
    assert first
    process.send_signal(signal.SIGINT)
    text, _ = process.communicate(timeout=120)
    assert process.returncode == 130
    assert "To continue" in text
    assert "labelproof bench vectors" in text
    assert all(map(gone, first))
    before = len(epochs(tmp_path / "b"))
    process = forks().Process(target=lead_bench, args=words)
    process.start()
    wait_for(lambda: len(epochs(tmp_path / "b")) > before)
    log = next((tmp_path / "b" / "cells").glob("*.log")).read_text()
    assert "done before" in log  # continued, not started anew
    second = children(process)
    assert second
    process.kill()
    process.join()
    wait_for(lambda: all(map(gone, second)), 60)


def longer_cell(vectors_npz: Path) -> Cell:
    quick = {"method": "ce", "settings": {"epochs": 200}, "calibrate": "off"}
    spec = replace(array_spec(vectors_npz, "worst"), **quick)
    return Cell(row="ce", column="worst", spec=spec)


def test_a_killed_group_of_processes_goes_on_where_it_stopped(
    labelproof, of_cells, vectors_npz, tmp_path
):
    cell, out = longer_cell(vectors_npz), tmp_path / "b"
    words = ("trial", "--out", out)
    process = forks().Process(target=lead_bench, args=words, kwargs={"cell": cell})
    process.start()
    wait_for(lambda: len(epochs(out)) >= 2)
    os.killpg(process.pid, signal.SIGKILL)  # bench and run at once, as a scheduler does
    process.join()
    assert process.exitcode == -signal.SIGKILL
    assert not list(out.glob("cells/*/summary.json"))
    of_cells(cell)
    code, text, err = labelproof("bench", "trial", "--out", out)
    assert code == 0, err
    assert "| ce |" in text
    assert epochs(out) == list(range(1, 201))
    assert "done before" in next((out / "cells").glob("*.log")).read_text()


def test_a_killed_run_goes_on_where_it_stopped(
    labelproof, of_cells, vectors_npz, monkeypatch, tmp_path
):
    of_cells(longer_cell(vectors_npz))
    words = ("bench", "trial", "--out", tmp_path / "b")

    def kill(display: Display, now: runner.Progress) -> None:
        if now.running and len(epochs(tmp_path / "b")) >= 2:
            now.running[0].process.kill()

    with monkeypatch.context() as patch:
        patch.setattr(runner, "POLL", 0.01)
        patch.setattr(Display, "show", kill)
        code, out, _ = labelproof(*words)
    assert code == 1
    assert "signal 9 ended it; it may have run out of memory" in out
    assert 2 <= len(epochs(tmp_path / "b")) < 200
    assert not list(tmp_path.glob("b/cells/*/summary.json"))
    code, out, err = labelproof(*words)
    assert code == 0, err
    assert "| ce |" in out
    assert epochs(tmp_path / "b") == list(range(1, 201))
    log = next((tmp_path / "b" / "cells").glob("*.log")).read_text()
    assert "done before" in log


@dataclass(frozen=True)
class Ended:
    """A bench that has ended."""

    folder: Path
    code: int
    out: str
    err: str


@pytest.fixture(scope="module")
def ended(tmp_path_factory) -> Ended:
    """A cell that fails, and one run that stands in two places of the table; run once."""
    cells, folder = (BAD, quick_cell("one"), quick_cell("two")), tmp_path_factory.mktemp("ended")
    out, err = io.StringIO(), io.StringIO()
    with pytest.MonkeyPatch.context() as patch, redirect_stdout(out), redirect_stderr(err):
        patch.chdir(folder)
        patch.setenv("COLUMNS", "200")
        patch.setattr("labelproof.bench.command.experiment", lambda name: trial(*cells))
        patch.setattr(sys, "argv", ["labelproof", "bench", "trial", "--out", "b", "--jobs", "1"])
        with pytest.raises(SystemExit) as stop:
            main()
    return Ended(folder / "b", stop.value.code, out.getvalue(), err.getvalue())


@pytest.fixture
def cell(ended, of_cells, tmp_path) -> Path:
    """The folder of the finished cell, in a copy of that bench which has it alone."""
    shutil.copytree(ended.folder, tmp_path / "b")
    of_cells(quick_cell("one"))
    return next(tmp_path.glob("b/cells/*/summary.json")).parent


def test_one_failing_cell_does_not_stop_the_others(labelproof, of_cells, ended, tmp_path):
    out = ended.out
    assert ended.code == 1
    assert "| bad | failed |" in out
    assert "nowhere.npz" in out.split("failed:")[1]
    assert "b/cells/" in out.split("failed:")[1]
    assert "two, digits, seed 0: done" in ended.err
    lines = [json.loads(x) for x in (ended.folder / "trial-small/results.jsonl").open()]
    assert [line["state"] for line in lines] == ["failed", "done", "done"]
    assert lines[1]["summary"]["accuracy"]["last"] > 0
    # once more: only the failed one is tried again
    shutil.copytree(ended.folder, tmp_path / "b")
    of_cells(BAD, quick_cell("one"))
    summary = next(tmp_path.glob("b/cells/*/summary.json"))
    before = summary.stat().st_mtime_ns
    assert labelproof("bench", "trial", "--out", "b")[0] == 1
    assert summary.stat().st_mtime_ns == before


def test_the_same_run_in_two_places_is_run_once(ended):
    assert len(list(ended.folder.glob("cells/*.log"))) == 2  # one of them is that of the failed one
    assert ended.out.count("| one |") == ended.out.count("| two |") == 1


def test_a_changed_record_is_run_again_from_the_start(labelproof, cell):
    (cell / "stray").touch()
    record = cell.with_name(f"{cell.name}.cell.json")
    same = record.read_text()
    record.write_text(same.replace("symmetric:0.4", "symmetric:0.3"))
    assert labelproof("bench", "trial", "--out", "b")[0] == 0
    assert not (cell / "stray").exists()
    assert (cell / "summary.json").exists()
    assert record.read_text() == same


def test_a_run_that_cannot_be_continued_begins_anew(labelproof, cell):
    (cell / "summary.json").unlink()
    record = cell / "run.json"
    settings = json.loads(record.read_text())
    settings["settings"]["lr"] = 123.0  # as if another version had made it
    record.write_text(json.dumps(settings))
    assert labelproof("bench", "trial", "--out", "b")[0] == 0
    assert json.loads(record.read_text())["settings"]["lr"] != 123.0
    kept = json.loads((cell.with_name(f"{cell.name}.refused") / "run.json").read_text())
    assert kept["settings"]["lr"] == 123.0


def test_other_defaults_of_a_method_make_another_record(monkeypatch):
    cell = quick_cell()
    before = cell.record()
    monkeypatch.setitem(recipes_of("ce").images, "lr", 0.123)
    assert cell.record() != before
    assert cell.record()["spec"] == before["spec"]


def test_the_command_below_a_table_makes_the_whole_of_it():
    sources = Sources(out=Path("b"), data=Path("/far/x.npz"), labels=("clean", "worst"))
    asked = Asked(experiment("vectors"), "small", sources, seeds=3, only="ce, clean", jobs=99)
    start = "labelproof bench vectors --data"
    rest = "--seeds 3 --labels clean,worst"
    assert asked.whole_grid() == f"{start} x.npz {rest}"
    again = f"{start} /far/x.npz --out b --jobs 99 {rest} --only 'ce, clean'"
    assert asked.command() == again


def test_two_benches_in_one_folder_are_refused(labelproof, of_cells, monkeypatch, tmp_path):
    monkeypatch.setattr(runner, "WAIT", 0.1)
    of_cells(quick_cell())
    with runner.alone(tmp_path / "b"):
        code, _, err = labelproof("bench", "trial", "--out", "b")
    assert code == 2
    assert "another bench is running" in err


def test_a_name_is_the_same_for_the_same_run_wherever_its_data_lies(tmp_path):
    def at(folder: str, content: bytes) -> Cell:
        path = tmp_path / folder / "data.npz"
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(content)
        return Cell(row="", column="", spec=replace(QUICK, data=str(path), method="dpc", seed=1))

    here, moved, changed = at("a", b"1"), at("b", b"1"), at("c", b"2")
    assert here.name == moved.name == changed.name
    assert here.record() == moved.record() != changed.record()
    assert here.name.startswith("dpc-symmetric-0.4-1-cnn-off-")
    assert here.name.endswith("-seed1")


@pytest.mark.parametrize(("jobs", "expected"), [(1, 4), (2, 2), (4, 1), (9, 1)])
def test_processes_share_the_cores(monkeypatch, jobs, expected):
    monkeypatch.setattr(runner, "cores", lambda: 4)
    assert runner.threads(jobs) == expected


@pytest.mark.skipif(sys.platform != "linux", reason="cores are allotted on Linux alone")
def test_only_the_cores_that_may_be_used_count(monkeypatch):
    monkeypatch.setattr(gpus, "visible", tuple)
    allowed = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {min(allowed)})
    try:
        assert runner.threads(1) == asked.at_a_time() == 1
    finally:
        os.sched_setaffinity(0, allowed)
