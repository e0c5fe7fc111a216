"""Fitting again: reviewed labels are put in and held fixed; other data or labels are refused."""

from __future__ import annotations

import json
import shlex
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from made_runs import table, trained

from fitting import fit
from labelproof.data.readers import load
from labelproof.errors import BadInput
from labelproof.recipes.recipe import chosen_method
from labelproof.review.corrected import export
from labelproof.review.refit_job import Again
from labelproof.runs.hold_reviewed import hold
from labelproof.runs.prepare import prepare
from labelproof.runs.reread import read_again
from labelproof.runs.reviewed import open_review
from labelproof.runs.spec import load_spec

NOISE = "symmetric:0.5"


@pytest.fixture
def data(tmp_path: Path) -> Path:
    rng = np.random.default_rng(0)
    y = np.arange(60) % 3
    x = (4 * np.eye(3)[y] + rng.normal(size=(60, 3))).astype(np.float32)
    np.savez(tmp_path / "data.npz", x=x, y=y)
    return tmp_path / "data.npz"


@pytest.fixture
def run(data: Path, tmp_path: Path) -> Path:
    return trained(data, tmp_path / "run", noise=NOISE)


def decide(run: Path, changes: dict[int, str]) -> None:
    review = open_review(run, write=True)
    wishes = [{"index": i, "decision": "change", "label": name} for i, name in changes.items()]
    review.decisions.decide(wishes)
    review.decisions.close()


def test_reviewed_labels_are_put_in_and_held(data: Path, run: Path) -> None:
    given = {int(row["index"]): int(row["given"]) for row in table(run)}
    decide(run, {5: "0", 9: str(given[9])})
    examples = load(data)
    prepared, _, held = hold(prepare(examples, noise=NOISE), examples, run)
    wanted = {**given, 5: 0}
    assert prepared.task.y.tolist() == [wanted[i] for i in range(60)]
    assert prepared.task.fixed is not None
    assert prepared.task.fixed.nonzero().squeeze(1).tolist() == [5, 9] == held.index.tolist()
    assert prepared.audit.truth is not None
    assert prepared.audit.truth.tolist() == (np.arange(60) % 3).tolist()


def test_a_second_review_adds_to_the_first(data: Path, run: Path, tmp_path: Path) -> None:
    decide(run, {5: "0", 7: "1"})
    examples, method = load(data), chosen_method("ce", "vectors", {"epochs": 1})
    second = tmp_path / "second"
    fit(examples, method, name="ce", how="quick", noise=NOISE, reviewed=run, out=second)
    assert {row["id"]: row["given"] for row in table(second)}["5"] == "0"
    assert json.loads((second / "run.json").read_text())["reviewed"]["count"] == 2
    certain = {row["index"] for row in table(second) if float(row["p_clean"]) == 1}
    assert {"5", "7"} <= certain
    decide(second, {5: "2", 11: "1"})
    prepared, _, held = hold(prepare(examples, noise=NOISE), examples, second)
    assert dict(zip(held.index.tolist(), held.labels.tolist(), strict=True)) == {5: 2, 7: 1, 11: 1}
    assert prepared.task.y[[5, 7, 11]].tolist() == [2, 1, 1]


def test_going_on_after_more_decisions_is_refused(data: Path, run: Path, tmp_path: Path) -> None:
    decide(run, {5: "0"})
    examples, method = load(data), chosen_method("ce", "vectors", {"epochs": 1})
    again = {
        "name": "ce",
        "how": "quick",
        "noise": NOISE,
        "reviewed": run,
        "out": tmp_path / "second",
    }
    fit(examples, method, **again)
    fit(examples, method, resume=True, **again)
    decide(run, {6: "0"})
    with pytest.raises(BadInput):
        fit(examples, method, resume=True, **again)


def test_nothing_reviewed_is_said(data: Path, run: Path, tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="labelproof review"):
        fit(load(data), chosen_method("ce", "vectors", {}), reviewed=run, out=tmp_path / "x")
    assert not (tmp_path / "x").exists()


def test_other_labels_other_inputs_and_other_sizes_are_refused(
    data: Path, run: Path, tmp_path: Path
) -> None:
    decide(run, {5: "0"})
    examples = load(data)
    with pytest.raises(BadInput, match="--noise"):
        hold(prepare(examples), examples, run)
    with pytest.raises(BadInput, match="--seed"):
        hold(prepare(examples, noise=NOISE, seed=1), examples, run)
    with np.load(data) as arrays:
        x, y = arrays["x"], arrays["y"]
    np.savez(tmp_path / "moved.npz", x=x + 1, y=y)
    moved = load(tmp_path / "moved.npz")
    with pytest.raises(BadInput, match="other inputs"):
        hold(prepare(moved, noise=NOISE), moved, run)
    np.savez(tmp_path / "fewer.npz", x=x[:50], y=y[:50])
    fewer = load(tmp_path / "fewer.npz")
    with pytest.raises(BadInput, match="60 examples"):
        hold(prepare(fewer, noise=NOISE), fewer, run)


def test_labels_corrected_in_the_data_itself_may_agree_with_the_review(
    data: Path, tmp_path: Path
) -> None:
    run = trained(data, tmp_path / "plain")
    decide(run, {5: "0"})
    with np.load(data) as arrays:
        x, y = arrays["x"], arrays["y"].copy()
    y[5] = 0
    np.savez(data, x=x, y=y)
    examples = load(data)
    prepared, _, _ = hold(prepare(examples), examples, run)
    assert prepared.task.y.tolist() == y.tolist()


def test_the_command_to_fit_again_repeats_the_run(data: Path, run: Path) -> None:
    decide(run, {5: "0"})
    command = shlex.split(Again(open_review(run)).command())
    assert command[:6] == ["labelproof", "fit", "--from", str(run), "--reviewed", str(run)]
    again = load_spec(run)
    assert (again.data, again.noise) == (str(data), NOISE)
    assert dict(again.settings) == {"epochs": 1}


def test_the_command_is_carried_out_by_a_process_of_its_own(data: Path, run: Path) -> None:
    decide(run, {5: "0"})
    again = Again(open_review(run))
    out = run.with_name("run-reviewed")
    typed = again.command()
    again.start()
    with pytest.raises(BadInput, match="running already"):
        again.start()
    while again.status()["state"] == "running":
        time.sleep(0.2)
    status = again.status()
    assert (status["state"], status["epoch"], status["folder"]) == ("done", 1, str(out))
    assert status["said"].splitlines()[-1].startswith("Every label, the most suspicious first")
    assert load_spec(out) == replace(load_spec(run), reviewed=run, out=out)
    record = json.loads((out / "run.json").read_text())
    assert record["command"] == shlex.split(typed)
    assert record["reviewed"]["count"] == 1


def test_what_stops_a_fit_is_told_to_the_page(data: Path, run: Path) -> None:
    decide(run, {5: "0"})
    again = Again(open_review(run))
    data.unlink()
    again.start()
    while again.status()["state"] == "running":
        time.sleep(0.2)
    assert again.status()["state"] == "failed"
    assert str(data) in again.status()["said"]
    record = json.loads((run / "run.json").read_text())
    (run / "run.json").write_text(json.dumps(record | {"seal": None}))
    with pytest.raises(BadInput, match="name the data yourself"):
        Again(open_review(run)).start()


def test_a_stopped_fit_ends_as_ctrl_c_does(data: Path, run: Path) -> None:
    decide(run, {5: "0"})
    again = Again(open_review(run))
    again.start()
    again.stop()
    assert again.status()["state"] == "failed"
    again.stop()


def test_a_missing_list_of_held_labels_is_said(data: Path, run: Path, tmp_path: Path) -> None:
    decide(run, {5: "0"})
    examples, method = load(data), chosen_method("ce", "vectors", {"epochs": 1})
    second = tmp_path / "second"
    fit(examples, method, name="ce", how="quick", noise=NOISE, reviewed=run, out=second)
    decide(second, {6: "0"})
    (second / "reviewed.csv").unlink()
    with pytest.raises(BadInput, match=r"reviewed\.csv"):
        hold(prepare(examples, noise=NOISE), examples, second)


def remove(run: Path, *rows: int) -> None:
    review = open_review(run, write=True)
    review.decisions.decide([{"index": row, "decision": "remove"} for row in rows])
    review.decisions.close()


def test_removed_examples_are_left_out_of_the_next_fit(
    data: Path, run: Path, tmp_path: Path
) -> None:
    decide(run, {5: "0", 20: "1"})
    remove(run, 3, 20)
    examples, method = load(data), chosen_method("ce", "vectors", {"epochs": 1})
    second, third = tmp_path / "second", tmp_path / "third"
    again = {"name": "ce", "how": "quick", "noise": NOISE}
    fit(examples, method, reviewed=run, out=second, **again)
    record = json.loads((second / "run.json").read_text())
    assert record["task"]["size"] == len(table(second)) == 58
    assert record["reviewed"]["removed"] == [3, 20]
    assert record["reviewed"]["count"] == 1  # the label of a removed example is none to hold
    names = {row["id"]: row for row in table(second)}
    assert not {"3", "20"} & names.keys()
    assert names["5"]["given"] == "0"
    assert names["59"]["index"] == "57"
    assert "2 examples removed by a person were left out." in (second / "report.html").read_text()
    remove(second, 57)  # example 59 of the data
    prepared, left, held = hold(prepare(examples, noise=NOISE), examples, second)
    assert held.removed == (3, 20, 59)
    assert prepared.task.size == len(left) == 57
    assert prepared.audit.truth is not None
    assert prepared.audit.truth.tolist() == [i % 3 for i in range(60) if i not in (3, 20, 59)]
    fit(examples, method, reviewed=second, out=third, **again)
    assert len(table(third)) == 57


def test_a_run_without_removed_examples_is_read_and_exported_again(tmp_path: Path) -> None:
    source = tmp_path / "data.csv"
    source.write_text("size,label\n" + "".join(f"{i % 7},{'ab'[i % 2]}\n" for i in range(20)))
    first = trained(source, tmp_path / "first")
    remove(first, 4)
    examples, method = load(source), chosen_method("ce", "vectors", {"epochs": 1})
    second = tmp_path / "second"
    spec = {
        "name": "ce",
        "how": "quick",
        "reviewed": first,
        "out": second,
        "reading": {"data": source},
    }
    fit(examples, method, **spec)
    review = open_review(second)
    again = read_again(second, review.record, review.rows)
    assert len(again) == 19
    assert again.captions is not None
    assert again.captions[4] == "size=5"  # the sixth row of the file
    remove(second, 0)
    export(open_review(second), tmp_path / "new.csv")
    lines = source.read_text().splitlines()
    assert (tmp_path / "new.csv").read_text().splitlines() == [lines[0], *lines[2:5], *lines[6:]]
