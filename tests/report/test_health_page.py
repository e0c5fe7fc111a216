"""The health of the data in a run: files, report, groups."""

from __future__ import annotations

import csv
import json
import shutil
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from made_runs import picture_folder, trained
from sklearn.datasets import load_digits
from typer.testing import CliRunner

from labelproof.cli.app import app
from labelproof.data.readers import SourceOptions, load
from labelproof.errors import BadInput
from labelproof.report import health_measure
from labelproof.report.plots import class_shares
from labelproof.runs.next_checks import near_pairs


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("health")
    rng = np.random.default_rng(0)
    y = np.arange(200) % 2
    x = rng.normal(size=(200, 8)).astype(np.float32)
    x[np.arange(200), y] += 4
    x[11] = x[10] + 1e-5  # nearly the same input, with another label
    x[21] = x[20]  # the same input, with another label
    x_test = rng.normal(size=(20, 8)).astype(np.float32)
    x_test[3] = x[50]
    source = np.where(np.arange(200) < 100, "phone", "scan")
    np.savez(folder / "d.npz", x=x, y=y, x_test=x_test, y_test=np.arange(20) % 2, source=source)
    words = ["fit", str(folder / "d.npz"), "--group", "source", "--method", "ce"]
    told = CliRunner().invoke(app, [*words, "--epochs", "3", "--out", str(folder / "run")])
    assert told.exit_code == 0, told.output
    return folder / "run"


def _finding(run: Path, kind: str) -> dict[str, object]:
    found = json.loads((run / "health.json").read_text())["findings"]
    return next(one for one in found if one["kind"] == kind)


def test_near_duplicates_and_leaks_are_listed(run: Path) -> None:
    pairs = _finding(run, "near-duplicates with different labels")
    assert pairs["count"] == 2
    assert pairs["entries"][0]["index"] == 10
    assert pairs["low"] < pairs["share"] < pairs["high"]
    assert "wrong" not in pairs["advice"]  # similar examples may well differ
    same = _finding(run, "identical inputs with different labels")
    assert [(one["index"], one["other"]) for one in same["entries"]] == [(20, 21)]
    assert "At least one label of each pair is wrong" in same["advice"]
    leaks = _finding(run, "test examples in training")
    assert leaks["entries"][0]["index"] == 50
    assert leaks["entries"][0]["other"] == "test 3"
    with (run / "health.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert {"kind", "index", "id", "other", "score"} == set(rows[0])
    assert any(row["kind"] == "test examples in training" for row in rows)


def test_leaked_test_examples_are_shown_by_file_and_with_their_picture(tmp_path: Path) -> None:
    data, run = tmp_path / "pictures", tmp_path / "run"
    picture_folder(data / "train")
    picture_folder(data / "test", per_class=4)
    (data / "train" / "red" / "broken.png").unlink()
    (data / "test" / "red" / "broken.png").unlink()
    (data / "test" / "red" / "twin.png").write_bytes((data / "train/blue/6.png").read_bytes())
    words = ["fit", str(data), "--method", "ce", "--epochs", "2", "--encoder", "none"]
    told = CliRunner().invoke(app, [*words, "--out", str(run)])
    assert told.exit_code == 0, told.output
    entries = {one["other"]: one for one in _finding(run, "test examples in training")["entries"]}
    assert {"red/twin.png", "blue/0.png"} <= set(entries)
    with (run / "health.csv").open(newline="") as file:
        rows = [row for row in csv.DictReader(file) if row["kind"] == "test examples in training"]
    assert {"red/twin.png", "blue/0.png"} <= {row["other"] for row in rows}
    shown = [one for one in entries.values() if one.get("test")]
    assert len(shown) == min(8, len(entries))
    page = (run / "report.html").read_text()
    for one in shown:
        assert f"test example {one['other']}: labelled" in page
        assert one["test"]["picture"]["data"] in page
    shutil.rmtree(data)  # the pictures of test data need nothing but the run folder
    assert CliRunner().invoke(app, ["report", str(run)]).exit_code == 0
    assert shown[0]["test"]["picture"]["data"] in (run / "report.html").read_text()


def _contradicting(tmp_path: Path) -> tuple[Path, np.ndarray]:
    """A run with labels that models contradict, five of them suspects, and its labels."""
    labels, run = np.arange(300) % 2, tmp_path / "run"
    x = np.random.default_rng(0).normal(size=(300, 4)).astype(np.float32)
    x[np.arange(300), labels] += 2
    np.savez(tmp_path / "d.npz", x=x, y=labels)
    words = ["fit", str(tmp_path / "d.npz"), "--method", "ce", "--epochs", "3"]
    told = CliRunner().invoke(app, [*words, "--review-budget", "5", "--out", str(run)])
    assert told.exit_code == 0, told.output
    return run, labels


def test_of_very_many_contradicted_labels_the_first_are_listed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(health_measure, "LISTED", 3)
    run, _ = _contradicting(tmp_path)
    found = _finding(run, "contradicted labels")
    assert found["count"] > 3 == len(found["entries"])
    page = (run / "report.html").read_text()
    assert f"a model contradicts: the first 3 of {found['count']:,}</h3>" in page


def test_examples_of_an_absent_digit_are_listed(tmp_path: Path) -> None:
    x, y = load_digits(return_X_y=True)
    rng, run = np.random.default_rng(0), tmp_path / "run"
    rows = np.r_[np.flatnonzero(y < 5)[:500], np.flatnonzero(y == 8)[:40]]
    y = np.where(y == 8, rng.integers(0, 5, len(y)), y)
    rows = rng.permutation(rows)
    names = 2 * y[rows]  # classes without a label make no difference
    np.savez(tmp_path / "d.npz", x=x[rows].astype(np.float32), y=names)
    words = ["fit", str(tmp_path / "d.npz"), "--method", "ce", "--epochs", "10"]
    told = CliRunner().invoke(app, [*words, "--out", str(run)])
    assert told.exit_code == 0, told.output
    found = [one["index"] for one in _finding(run, "no right class")["entries"]]
    planted = load_digits().target[rows] == 8
    assert planted[found].sum() >= 10
    assert planted[found].mean() >= 0.8
    assert "of an even spread" in (run / "report.html").read_text()


def test_findings_are_about_the_consensus_of_votes(tmp_path: Path) -> None:
    rng, truth, run = np.random.default_rng(0), np.arange(600) % 3, tmp_path / "run"
    x = rng.normal(size=(600, 6)).astype(np.float32)
    x[np.arange(600), truth] += 1.5
    wrong = rng.random((600, 3)) < 0.25
    votes = np.where(wrong, rng.integers(0, 3, (600, 3)), truth[:, None])
    votes[rng.random((600, 3)) < 0.3] = -1
    votes[(votes < 0).all(1), 0] = 0
    np.savez(tmp_path / "d.npz", x=x, votes=votes)
    words = ["fit", str(tmp_path / "d.npz"), "--method", "ce", "--epochs", "3"]
    told = CliRunner().invoke(app, [*words, "--out", str(run)])
    assert told.exit_code == 0, told.output
    with (run / "votes.csv").open(newline="") as file:
        sure = {int(row["index"]): row for row in csv.DictReader(file)}
    wrong_by = {i: 1 - float(row["p_consensus"]) for i, row in sure.items()}
    usual = np.mean(list(wrong_by.values()))
    consensus = np.array([int(sure[i]["consensus"]) for i in range(600)])
    with (run / "health.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    for kind in ("contradicted labels", "harmful examples"):
        listed = [int(row["index"]) for row in rows if row["kind"] == kind]
        assert 0 < len(listed) < 120
        assert min(wrong_by[index] for index in listed) > usual
        assert (consensus != truth)[listed].mean() > 1.5 * (consensus != truth).mean()


def test_labels_that_the_model_contradicts_are_listed_beside_the_suspects(tmp_path: Path) -> None:
    run, labels = _contradicting(tmp_path)
    found, scores = _finding(run, "contradicted labels"), np.load(run / "scores.npy")
    with (run / "labels.csv").open(newline="") as file:
        table = {int(row["index"]): row for row in csv.DictReader(file)}
    suspects = {index for index, row in table.items() if row["suspect"] == "1"}
    assert len(suspects) == 5
    with (run / "health.csv").open(newline="") as file:
        rows = [row for row in csv.DictReader(file) if row["kind"] == "contradicted labels"]
    listed = [int(row["index"]) for row in rows]
    assert len(listed) == found["count"] > 0
    assert set(listed) > set(np.flatnonzero(scores.argmax(1) != labels)) - suspects
    assert not set(listed) & suspects
    assert [row["other"] for row in rows] == [str(1 - labels[index]) for index in listed]
    right = [float(table[index]["p_clean"]) for index in listed]
    assert right == sorted(right)
    assert found["low"] < found["share"] < found["high"]
    page = (run / "report.html").read_text()
    assert "Further labels that a model contradicts" in page
    assert f'<span class="id">model: {1 - labels[listed[0]]}</span>' in page


def test_findings_on_classes_show_examples_of_them(tmp_path: Path) -> None:
    rng, run = np.random.default_rng(0), tmp_path / "run"
    kind = np.repeat(np.arange(5), [100, 100, 100, 100, 6])  # two of them have the same inputs
    x = rng.normal(size=(406, 6)).astype(np.float32)
    x[np.arange(406), np.array([0, 1, 2, 2, 3])[kind]] += 6
    x[:100, 4] += np.where(np.arange(100) % 2, 12, -12)  # the first class is two
    order = rng.permutation(406)
    np.savez(tmp_path / "d.npz", x=x[order], y=kind[order])
    words = ["fit", str(tmp_path / "d.npz"), "--method", "ce", "--epochs", "5"]
    told = CliRunner().invoke(app, [*words, "--out", str(run)])
    assert told.exit_code == 0, told.output
    (split,) = _finding(run, "split class")["entries"]
    one, other = split["examples"]
    assert split["class"] == "0"
    assert x[order][one, 4] * x[order][other, 4] < -100  # one of each group
    (merged,) = _finding(run, "overlapping classes")["entries"]
    assert [str(kind[order][row]) for row in merged["examples"]] == ["2", "3"]
    (rare,) = _finding(run, "rare class")["entries"]
    assert [kind[order][row] for row in rare["examples"]] == [4, 4]
    with (run / "health.csv").open(newline="") as file:
        rows = {row["kind"]: row for row in csv.DictReader(file)}
    assert (rows["split class"]["index"], rows["split class"]["id"]) == ("", "0")
    both = [rows["overlapping classes"][name] for name in ("index", "id", "other")]
    assert both == ["", "2", "3"]
    page = (run / "report.html").read_text()
    for row in (*split["examples"], *merged["examples"], *rare["examples"]):
        assert f'<span class="id">row {row}: labelled ' in page


def test_identical_zeros_are_pairs_too(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    y = np.arange(60) % 2
    x = rng.normal(size=(60, 8)).astype(np.float32)
    x[np.arange(60), y] += 4
    x[[4, 7, 9]] = 0  # labels 0, 1, 1: as black pictures, at a right angle to everything
    np.savez(tmp_path / "d.npz", x=x, y=y)
    words = ["fit", str(tmp_path / "d.npz"), "--method", "ce", "--epochs", "1"]
    told = CliRunner().invoke(app, [*words, "--out", str(tmp_path / "run")])
    assert told.exit_code == 0, told.output
    differ = _finding(tmp_path / "run", "identical inputs with different labels")
    assert [(one["index"], one["other"]) for one in differ["entries"]] == [(4, 7), (4, 9)]
    same = _finding(tmp_path / "run", "near-duplicates")
    assert [(one["index"], one["other"]) for one in same["entries"]] == [(7, 9)]
    assert near_pairs(tmp_path / "run", 60).tolist() == [[7, 9]]  # the order of review uses them
    assert "In 1 group the labels differ" in (tmp_path / "run" / "report.html").read_text()


def test_class_folders_are_not_called_sorted_by_class(tmp_path: Path) -> None:
    run = trained(picture_folder(tmp_path / "pictures"), tmp_path / "run", max_bad=0.2)
    found = json.loads((run / "health.json").read_text())["findings"]
    assert "near-duplicates" in {one["kind"] for one in found}
    assert "rows sorted by class" not in {one["kind"] for one in found}


def test_groups_and_report(run: Path) -> None:
    groups = json.loads((run / "health.json").read_text())["groups"]
    assert {group["name"] for group in groups} == {"phone", "scan"}
    page = (run / "report.html").read_text()
    assert "Health of the data" in page
    assert "Near-duplicates with different labels" in page
    assert "phone" in page
    assert '<span class="sure">distance ' in page
    for row in (10, 11, 20, 21):  # both examples of a pair, with both labels
        assert f'<span class="id">row {row}: labelled <strong>{row % 2}</strong></span>' in page
    assert "the first 1 of 1" not in page  # two examples were found, and their one pair is shown


def test_classes_by_group_are_drawn(run: Path) -> None:
    page = (run / "report.html").read_text().split("<h3>By group</h3>")[1]
    assert "Review the groups with the most wrong labels first." in page
    drawing = page.split("<figure")[1].split("</figure>")[0]
    assert "phone" in drawing
    assert drawing.count(">50<") == 4  # percent of both classes in both groups
    assert "Only the noisiest" not in drawing


def test_of_many_classes_those_that_differ_between_groups_are_drawn() -> None:
    classes = [f"class {code}" for code in range(100)]
    even = np.full(100, 0.01)
    odd = even.copy()
    odd[[7, 70]] = [0.02, 0.0]
    groups = [{"name": "a", "classes": even.tolist()}, {"name": "b", "classes": odd.tolist()}]
    drawn = class_shares(groups, classes)
    assert drawn is not None
    drawing, whole = drawn
    assert "class 7<" in drawing
    assert "class 70<" in drawing
    assert not whole
    assert class_shares([], classes) is None


def test_the_table_of_groups_speaks_as_the_summary_does(run: Path) -> None:
    summary = json.loads((run / "summary.json").read_text())
    groups = json.loads((run / "health.json").read_text())["groups"]
    low, high = summary["noise_rate_interval"]
    page = (run / "report.html").read_text()
    for group in groups:
        assert (group["wrong"] is None) == (summary["noise_rate_estimate"] is None)
        assert group["high"] - group["low"] >= high - low
    assert ("A single number would not be reliable. “Model" in page) == (
        summary["noise_rate_estimate"] is None
    )
    assert "95% interval</th>" not in page.split("<h3>By group</h3>")[1]


@pytest.mark.parametrize("kind", ["csv", "npz"])
def test_a_group_for_every_row_is_refused(tmp_path: Path, kind: str) -> None:
    x = np.random.default_rng(0).normal(size=12)
    columns = {"x": x, "y": np.arange(12) % 2, "name": np.arange(12)}
    data = tmp_path / f"d.{kind}"
    if kind == "npz":
        np.savez(data, **{**columns, "x": columns["x"][:, None]})
    else:
        pd.DataFrame(columns).to_csv(data, index=False)
    with pytest.raises(BadInput, match="each of the 12 values occurs only once"):
        load(data, SourceOptions(group="name"))
    assert set(load(data, SourceOptions(group="y")).groups or ()) == {"0", "1"}


def test_an_unknown_group_is_refused(run: Path) -> None:
    words = ["fit", "--from", str(run / "run.json"), "--group", "month"]
    told = CliRunner().invoke(app, [*words, "--out", str(run.parent / "no")])
    assert "correct --group" in str(told.exception)


def test_groups_of_another_length_are_refused(tmp_path: Path) -> None:
    x, y = np.random.default_rng(0).normal(size=(40, 3)), np.arange(40) % 2
    np.savez(tmp_path / "d.npz", x=x, y=y, short=y[:39])
    with pytest.raises(BadInput, match=r"each of the 40 examples .*'short' .*its shape is \(39,\)"):
        load(tmp_path / "d.npz", SourceOptions(group="short"))


def test_of_many_examples_a_random_part_is_compared(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(health_measure, "MOST", 50)
    rows = health_measure.compared(1000)
    assert len(rows) == len(rows.unique()) == 50
    assert rows.equal(health_measure.compared(1000))
    assert rows.max() > 800
    assert rows.tolist() == sorted(rows.tolist())
    assert health_measure.compared(50).tolist() == list(range(50))


def test_a_table_sorted_by_class_with_a_date_is_in_no_order(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    y = np.arange(300) // 100
    x = rng.normal(size=(300, 4)) + 3 * np.eye(3, 4)[y]
    days = np.datetime64("2024-01-01") + np.arange(300) // 2
    with (tmp_path / "t.csv").open("w", newline="") as file:
        names = ("a", "b", "c", "d", "day", "label")
        rows = ([*row, day, f"k{code}"] for row, day, code in zip(x, days, y, strict=True))
        csv.writer(file).writerows([names, *rows])
    words = ["fit", str(tmp_path / "t.csv"), "--method", "ce", "--epochs", "3"]
    told = CliRunner().invoke(app, [*words, "--out", str(tmp_path / "run")])
    assert told.exit_code == 0, told.output
    assert _finding(tmp_path / "run", "order of rows")["count"] == 0
    assert _finding(tmp_path / "run", "rows sorted by class")["count"] == 300
