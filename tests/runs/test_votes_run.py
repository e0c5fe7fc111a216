"""Several annotators through a whole run: command line, files, estimator."""

from __future__ import annotations

import csv
import json
import re
import shutil
from collections import Counter
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

from labelproof.cli.app import app
from labelproof.errors import BadInput
from labelproof.runs.reviewed import open_review
from labelproof.sklearn import NoisyLabelClassifier

SIZE, CLASSES = 240, ("bat", "cat", "dog")
RIGHT = {"rater_ann": 0.95, "rater_bob": 0.75, "rater_cy": 0.4}


def _made() -> tuple[np.ndarray, np.ndarray, pd.DataFrame]:
    rng = np.random.default_rng(0)
    truth = rng.integers(0, 3, SIZE)
    x = rng.normal(size=(SIZE, 4)) * 0.7
    x[np.arange(SIZE), truth] += 2
    names = np.array(CLASSES)
    votes = {
        who: np.where(rng.random(SIZE) < right, names[truth], names[rng.integers(0, 3, SIZE)])
        for who, right in RIGHT.items()
    }
    frame = pd.DataFrame(votes)
    frame.loc[rng.random(SIZE) < 0.3, "rater_bob"] = ""
    return x, names[truth], frame


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("votes")
    x, truth, votes = _made()
    features = pd.DataFrame(x, columns=list("abcd"))
    table = pd.concat([features, votes, pd.Series(truth, name="truth")], axis=1)
    table.to_csv(folder / "t.csv", index=False)
    words = ["fit", str(folder / "t.csv"), "--annotators", "rater_*", "--truth-key", "truth"]
    words += ["--method", "ce", "--epochs", "8", "--out", str(folder / "run")]
    told = CliRunner().invoke(app, words)
    assert told.exit_code == 0, told.output
    assert "3 annotators gave" in told.output
    assert "rater_cy" in told.output
    assert "it is the column consensus of votes.csv" in told.output
    return folder / "run"


def test_consensus_and_suspects_are_told_apart(run: Path) -> None:
    found = json.loads((run / "summary.json").read_text())["annotators"]
    votes, labels = _rows(run / "votes.csv"), _rows(run / "labels.csv")
    consensus = {row["index"]: row["consensus"] for row in votes}
    _, _, table = _made()
    counts = {str(i): Counter(filter(None, row)) for i, row in enumerate(table.to_numpy().tolist())}
    most = {i: max(one.values()) for i, one in counts.items()}  # a tied class is not outvoted
    assert found["changed"] == sum(counts[i][consensus[i]] < n for i, n in most.items()) > 0
    given = {row["index"]: row["given"] for row in labels}
    assert found["given_differs"] == sum(counts[i][given[i]] < n for i, n in most.items())
    page = (run / "report.html").read_text()
    assert f"differs from the majority vote for {found['changed']:,} example" in page
    assert "Review the labels that look wrong. These are counted apart" in page
    assert '<th scope="col" class="text">Said</th>' in page or not found["confused"]


def test_exported_labels_are_the_consensus_where_nobody_decided(run: Path, tmp_path: Path) -> None:
    consensus = {int(row["index"]): row["consensus"] for row in _rows(run / "votes.csv")}
    given = {int(row["index"]): row["given"] for row in _rows(run / "labels.csv")}
    differ = next(index for index, name in given.items() if name != consensus[index])
    folder = Path(shutil.copytree(run, tmp_path / "run"))
    other = next(index for index in given if index != differ)
    wished = next(name for name in CLASSES if name != consensus[other])
    review = open_review(folder, write=True)
    review.decisions.decide([{"index": other, "decision": "change", "label": wished}])
    review.decisions.close()
    for name in ("out.csv", "out.npy"):
        told = CliRunner().invoke(app, ["review", str(folder), "--export", str(tmp_path / name)])
        assert told.exit_code == 0, told.output
    labels = np.load(tmp_path / "out.npy").tolist()
    assert labels == [row["label"] for row in _rows(tmp_path / "out.csv")]
    assert labels == [wished if i == other else consensus[i] for i in range(SIZE)]


def _rows(path: Path) -> list[dict[str, str]]:
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


def test_annotators_are_ranked_with_intervals(run: Path) -> None:
    people = _rows(run / "annotators.csv")
    assert [row["annotator"] for row in people] == ["rater_cy", "rater_bob", "rater_ann"]
    for row in people:
        assert float(row["low"]) < float(row["quality"]) < float(row["high"])
    _, truth, votes = _made()
    for row in people:
        said = votes[row["annotator"]].to_numpy()
        real = (said == truth)[said != ""].mean()
        assert float(row["low"]) < real < float(row["high"])


def test_every_vote_is_judged(run: Path) -> None:
    votes = _rows(run / "votes.csv")
    _, truth, table = _made()
    assert len(votes) == int((table != "").to_numpy().sum())
    right = np.array([truth[int(row["index"])] == row["label"] for row in votes])
    sure = np.array([float(row["p_right"]) for row in votes])
    assert (np.diff(sure) >= 0).all()  # the least likely first
    assert sure[right].mean() > 0.85
    assert sure[~right].mean() < 0.25


def test_summary_and_labels(run: Path) -> None:
    found = json.loads((run / "summary.json").read_text())["annotators"]
    assert found["accuracy_consensus"] > found["accuracy_majority"]
    assert 0 < found["alpha_interval"][0] < found["alpha"] < found["alpha_interval"][1]
    assert found["worst"][0]["annotator"] == "rater_cy"
    header = (run / "labels.csv").read_text().splitlines()[0]
    assert header == "index,id,given,suggested,p_clean,p_suggested,margin,suspect"
    labels = {row["index"]: row["suggested"] for row in _rows(run / "labels.csv")}
    agree = [labels[row["index"]] == row["consensus"] for row in _rows(run / "votes.csv")]
    assert np.mean(agree) > 0.97  # a label doubted by half may keep the likeliest class
    assert "consensus" in json.loads((run / "run.json").read_text())["votes"]


def test_the_review_page_shows_the_classes_of_the_consensus(run: Path) -> None:
    beside = json.loads((run / "review.json").read_text())
    likeliest = dict(zip(beside["index"], beside["likeliest"], strict=True))
    votes = _rows(run / "votes.csv")
    for row in votes:
        code, sure = likeliest[int(row["index"])][0]
        assert CLASSES[code] == row["consensus"]
        assert sure == pytest.approx(float(row["p_consensus"]), abs=1e-3)
    assert votes


def test_the_report_has_the_annotators(run: Path) -> None:
    page = (run / "report.html").read_text()
    assert "rater_cy" in page
    assert "Krippendorff" in page


def test_noise_on_purpose_is_refused(run: Path) -> None:
    words = ["fit", "--from", str(run / "run.json"), "--noise", "symmetric:0.2"]
    told = CliRunner().invoke(app, [*words, "--out", str(run.parent / "no")])
    assert isinstance(told.exception, BadInput)
    assert "several annotators" in str(told.exception)


def test_estimator_takes_votes() -> None:
    x, truth, votes = _made()
    model = NoisyLabelClassifier("ce", epochs=8).fit(x, votes)
    assert (model.consensus_labels_ == truth).mean() > 0.95
    assert model.vote_quality_.shape == (SIZE, 3)
    assert list(model.annotators_["annotator"]) == list(RIGHT)
    matrices = np.stack(list(model.annotators_["confusion"]))
    assert matrices.shape == (3, 3, 3)
    assert np.allclose(matrices.sum(2), 1)
    right = matrices.diagonal(axis1=1, axis2=2).mean(1)
    assert np.abs(right - model.annotators_["quality"]).max() < 0.1
    assert 0.2 < model.agreement_ < 1
    assert model.predict(x[:3]).tolist() == truth[:3].tolist()
    codes = np.select([votes == name for name in CLASSES], [0, 1, 2], -1)
    numbers = NoisyLabelClassifier("ce", epochs=1, calibrate=False).fit(x, codes)
    assert numbers.classes_.tolist() == [0, 1, 2]
    assert not np.isnan(model.annotators_["low"].to_numpy()).any()
    assert np.isnan(numbers.annotators_["low"].to_numpy()).all()  # nothing was judged


def test_how_good_annotators_are_is_found_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls = []

    def counted(*_: object) -> float:
        calls.append(1)
        return 0.1

    monkeypatch.setattr("labelproof.judging.agreement.doubt", counted)
    x, _, votes = _made()
    table = pd.concat([pd.DataFrame(x, columns=list("abcd")), votes], axis=1)
    table.to_csv(tmp_path / "t.csv", index=False)
    words = ["fit", str(tmp_path / "t.csv"), "--annotators", "rater_*", "--method", "ce"]
    told = CliRunner().invoke(app, [*words, "--epochs", "1", "--out", str(tmp_path / "run")])
    assert told.exit_code == 0, told.output
    assert len(calls) == 1
    NoisyLabelClassifier("ce", epochs=1).fit(x, votes)
    assert len(calls) == 2


def test_next_labels_and_whom_to_ask(run: Path) -> None:
    told = CliRunner().invoke(app, ["review", str(run), "--next", "--count", "200"])
    assert told.exit_code == 0, told.output
    header, *lines = told.stdout.splitlines()
    assert header.split("\t") == ["index", "id", "given", "suggested", "gain", "ask", "why"]
    gains = [float(line.split("\t")[4]) for line in lines]
    assert gains[0] == max(gains)
    asked = {line.split("\t")[5] for line in lines}
    first = {line.split("\t")[5] for line in lines if "before" not in line}
    assert first == {"rater_bob"}  # the other two have labelled everything
    reason = r"(said \w+ before; )?right on \d+% of \w+ and \d+% of \w+"
    assert all(re.fullmatch(reason, line.split("\t")[6]) for line in lines)
    assert asked <= set(RIGHT)


def test_next_labels_come_as_a_table_for_people_and_with_their_texts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    words = ("the cat sat on\ta mat", "a dog ran in the park")
    texts = [f"{words[i % 2]} {i} times" for i in range(60)]
    pd.DataFrame({"text": texts, "label": ["a", "b"] * 30}).to_csv(tmp_path / "t.csv", index=False)
    words = ["fit", str(tmp_path / "t.csv"), "--text-column", "text", "--method", "ce"]
    run = str(tmp_path / "run")
    more = ["--epochs", "1", "--encoder", "tf-idf", "--calibrate", "quick", "--out", run]
    assert CliRunner().invoke(app, [*words, *more]).exit_code == 0
    told = CliRunner().invoke(app, ["review", run, "--next", "--count", "3"])
    header, *lines = told.stdout.splitlines()
    assert header.split("\t") == ["index", "id", "given", "suggested", "gain", "text"]
    for line in lines:
        cells = line.split("\t")
        assert cells[5] == " ".join(texts[int(cells[0])].split())
    monkeypatch.setenv("FORCE_COLOR", "1")
    told = CliRunner().invoke(app, ["review", run, "--next", "--count", "3"])
    assert "\t" not in told.stdout
    assert "gain: the probability that" in told.stdout


def test_where_labels_cannot_be_judged_nobody_gets_an_interval(tmp_path: Path) -> None:
    """Inputs that say nothing, and two votes at random on each example."""
    rng = np.random.default_rng(0)
    table = pd.DataFrame(rng.normal(size=(SIZE, 3)), columns=list("abc"))
    for who in ("rater_x", "rater_y"):
        table[who] = np.array(CLASSES)[rng.integers(0, 3, SIZE)]
    table.to_csv(tmp_path / "t.csv", index=False)
    words = ["fit", str(tmp_path / "t.csv"), "--annotators", "rater_*", "--method", "ce"]
    told = CliRunner().invoke(app, [*words, "--epochs", "2", "--out", str(tmp_path / "run")])
    assert told.exit_code == 0, told.output
    sentence = "How often annotators are right is not stated"
    assert sentence in " ".join(told.output.split())
    assert "95% interval" not in told.output
    people = _rows(tmp_path / "run" / "annotators.csv")
    assert {(row["low"], row["high"]) for row in people} == {("", "")}
    found = json.loads((tmp_path / "run" / "summary.json").read_text())["annotators"]
    assert {(one["low"], one["high"]) for one in found["worst"]} == {(None, None)}
    page = (tmp_path / "run" / "report.html").read_text()
    assert sentence in page
    assert "How often each annotator is right" not in page
