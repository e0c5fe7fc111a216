"""Several labels an example: a run for each column and one report, or a sentence."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

from labelproof import NoisyLabelClassifier
from labelproof.cli.app import app
from labelproof.data.readers.vote_table import encode_votes
from labelproof.errors import BadInput
from labelproof.report.several import write_joint


def frame() -> pd.DataFrame:
    rng = np.random.default_rng(0)
    x = rng.normal(size=(80, 2))
    tags = {"tag_red": (x[:, 0] > 0).astype(int), "tag big/": np.where(x[:, 1] > 0, "yes", "no")}
    return pd.DataFrame({"a": x[:, 0], "b": x[:, 1], **tags})


def test_every_column_is_fitted_and_one_report_links_all(tmp_path: Path) -> None:
    frame().to_csv(tmp_path / "t.csv", index=False)
    words = ["fit", str(tmp_path / "t.csv"), "--multilabel", "tag*", "--method", "ce"]
    told = CliRunner().invoke(app, [*words, "--epochs", "2", "--out", str(tmp_path / "run")])
    assert told.exit_code == 0, told.output
    folders = ["tag_red", "2-tag-big-"]
    for name in folders:
        assert (tmp_path / "run" / name / "report.html").is_file()
        header = (tmp_path / "run" / name / "run.json").read_text()
        assert '"label_column": "' in header
    page = (tmp_path / "run" / "report.html").read_text()
    assert all(f'href="{name}/report.html"' in page for name in folders)
    assert " wrong. 0 examples are listed in two columns or more." in page
    with (tmp_path / "run" / "labels.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == 160
    assert {row["column"] for row in rows} == {"tag_red", "tag big/"}
    clean = [float(row["p_clean"]) for row in rows]
    assert clean == sorted(clean)
    said = CliRunner().invoke(app, ["review", str(tmp_path / "run"), "--next"])
    assert isinstance(said.exception, BadInput)
    first = tmp_path / "run" / "2-tag-big-"
    assert f"several columns (--multilabel); name the folder of one column, such as {first}" in str(
        said.exception
    )


def test_labels_that_only_fill_a_budget_are_not_said_to_look_wrong(tmp_path: Path) -> None:
    frame().to_csv(tmp_path / "t.csv", index=False)
    words = ["fit", str(tmp_path / "t.csv"), "--multilabel", "tag*", "--method", "ce"]
    more = ["--epochs", "2", "--review-budget", "60", "--out", str(tmp_path / "run")]
    told = CliRunner().invoke(app, [*words, *more])
    assert told.exit_code == 0, told.output
    runs = {name: tmp_path / "run" / name for name in ("tag_red", "2-tag-big-")}
    for run in runs.values():
        summary = json.loads((run / "summary.json").read_text())
        trust = {**summary["trust"], "level": "good"}
        filled = {**summary, "trust": trust, "suspects_filled": 58}
        (run / "summary.json").write_text(json.dumps(filled))
    page = write_joint(tmp_path / "run", runs, "t.csv").read_text()
    assert "4 labels look wrong, and 116 more are listed for review, as you asked." in page


def test_columns_that_leave_out_other_examples_are_counted_by_id(tmp_path: Path) -> None:
    table = frame()
    table.insert(0, "id", [f"e{row}" for row in range(80)])
    table = table.astype({"tag_red": object})
    table.loc[:19, "tag_red"] = None
    table.to_csv(tmp_path / "t.csv", index=False)
    words = ["fit", str(tmp_path / "t.csv"), "--multilabel", "tag*", "--method", "ce"]
    more = ["--skip-unlabelled", "--id-column", "id", "--epochs", "2", "--out"]
    told = CliRunner().invoke(app, [*words, *more, str(tmp_path / "run")])
    assert told.exit_code == 0, told.output
    runs = {name: tmp_path / "run" / name for name in ("tag_red", "2-tag-big-")}
    for run, wanted in zip(runs.values(), ({"e20", "e30"}, {"e0", "e20"}), strict=True):
        with (run / "labels.csv").open(newline="") as file:
            rows = list(csv.DictReader(file))
        with (run / "labels.csv").open("w", newline="") as file:
            writer = csv.DictWriter(file, rows[0])
            writer.writeheader()
            writer.writerows({**row, "suspect": int(row["id"] in wanted)} for row in rows)
    page = write_joint(tmp_path / "run", runs, "t.csv").read_text()
    assert " wrong. 1 example is listed in two columns or more." in page
    with (tmp_path / "run" / "labels.csv").open(newline="") as file:
        pairs = {(row["index"], row["id"]) for row in csv.DictReader(file)}
    assert len(pairs) == len({index for index, _ in pairs}) == 80  # one index, one example


@pytest.mark.parametrize(
    ("data", "more", "said"),
    [
        ("t.csv", ["--multilabel", "nothing"], "expected a column 'nothing'"),
        ("t.csv", ["--multilabel", "tag_red"], "only 'tag_red' matches"),
        ("t.csv", ["--multilabel", "tag*", "--label-column", "a"], "the labels in one place"),
        ("digits", ["--multilabel", "tag*"], "fit one label at a time"),
    ],
)
def test_what_cannot_be_is_refused(tmp_path: Path, data: str, more: list[str], said: str) -> None:
    frame().to_csv(tmp_path / "t.csv", index=False)
    where = str(tmp_path / data) if data.endswith("csv") else data
    told = CliRunner().invoke(app, ["fit", where, *more, "--out", str(tmp_path / "run")])
    assert isinstance(told.exception, BadInput)
    assert said in str(told.exception)
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    ("values", "said"),
    [
        (np.ones(80), "at least two classes in the label column 'tag_last' of t."),
        (np.arange(80) % 2 * 0.3, "fractions such as 0.3 (row"),
    ],
)
@pytest.mark.parametrize("kind", ["csv", "parquet", "jsonl"])
def test_every_column_is_checked_before_the_first_is_trained(
    tmp_path: Path, values: np.ndarray, said: str, kind: str
) -> None:
    table, data = frame().assign(tag_last=values), tmp_path / f"t.{kind}"
    if kind == "jsonl":
        table.to_json(data, orient="records", lines=True)
    else:
        table.to_csv(data, index=False) if kind == "csv" else table.to_parquet(data)
    words = ["fit", str(data), "--multilabel", "tag*", "--method", "ce", "--epochs", "1"]
    told = CliRunner().invoke(app, [*words, "--out", str(tmp_path / "run")])
    assert isinstance(told.exception, BadInput)
    assert said in str(told.exception)
    assert not (tmp_path / "run").exists()


def test_columns_of_zeros_and_ones_are_noted() -> None:
    cells = np.random.default_rng(0).integers(0, 2, (30, 4))
    notes = encode_votes(cells, tuple("abcd")).votes.notes
    assert any("--multilabel" in note for note in notes)
    blank = np.where(np.random.default_rng(1).random(cells.shape) < 0.1, -1, cells)
    assert not any("--multilabel" in n for n in encode_votes(blank, tuple("abcd")).votes.notes)


@pytest.mark.parametrize(
    "y", [[["a", "b"], ["c"]] * 10, [{"a"}, {"a", "b"}] * 10], ids=["lists", "sets"]
)
def test_collections_of_labels_are_refused_with_advice(y: list[object]) -> None:
    x = np.random.default_rng(0).normal(size=(20, 3))
    kind = "a set of labels each" if isinstance(y[0], set) else "lists of labels of different"
    with pytest.raises(BadInput, match=rf"{kind}.*multi-label.*fit one column at a time"):
        NoisyLabelClassifier(method="ce", epochs=1).fit(x, y)
    whole = np.empty(20, dtype=object)
    whole[:] = y
    with pytest.raises(BadInput, match="multi-label"):
        NoisyLabelClassifier(method="ce", epochs=1).fit(x, whole)


@pytest.mark.parametrize("classes", [2, 3])
def test_one_hot_rows_are_refused_with_advice(classes: int) -> None:
    x, y = np.random.default_rng(0).normal(size=(20, 3)), np.arange(20) % classes
    with pytest.raises(BadInput, match=r"one-hot rows.*argmax"):
        NoisyLabelClassifier(method="ce", epochs=1).fit(x, np.eye(classes)[y])
    votes = np.stack([y, y], 1) % 2
    votes[0] = 1 - votes[0, 0], votes[0, 0]
    encode_votes(votes, ("a", "b"))  # two people who differ once are two people


def test_soft_targets_are_refused_with_advice() -> None:
    x = np.random.default_rng(0).normal(size=(20, 3))
    soft = np.random.default_rng(0).dirichlet([1, 1, 1], 20)
    with pytest.raises(BadInput, match=r"soft targets.*argmax"):
        NoisyLabelClassifier(method="ce", epochs=1).fit(x, soft)
