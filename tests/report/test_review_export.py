"""Corrected labels come out in the form they went in, and nothing else changes."""

from __future__ import annotations

import csv
import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from made_runs import made_run, picture_folder, table, trained

from labelproof.data.readers import SourceOptions, load
from labelproof.errors import BadInput
from labelproof.report.example_view import FromExamples
from labelproof.review.corrected import export, in_words
from labelproof.runs.reviewed import Reviewed, open_review

pandas = pytest.importorskip("pandas")


def reviewed(run: Path, changes: dict[int, str]) -> Reviewed:
    """The run with these labels changed by a person."""
    review = open_review(run, write=True)
    wishes = [{"index": i, "decision": "change", "label": name} for i, name in changes.items()]
    review.decisions.decide(wishes)
    review.decisions.close()
    return open_review(run)


def read_table(path: Path, delimiter: str = ",") -> list[list[str]]:
    with path.open(encoding="utf-8-sig", newline="") as file:
        return list(csv.reader(file, delimiter=delimiter))


ODD = '''length;kind;note\r
1,5;cat;"two; words"\r
2,5;dog;"a ""quote"""\r
\r
3,5;cat;"line
break"\r
4,5;dog;\r
"5,5";cat;é\r
6,5;dog;x\r
'''


def test_a_table_comes_back_with_nothing_but_labels_changed(tmp_path: Path) -> None:
    data = tmp_path / "odd.csv"
    data.write_bytes(b"\xef\xbb\xbf" + ODD.encode())
    run = trained(data, tmp_path / "run", label_column="kind")
    out = tmp_path / "corrected.csv"
    export(reviewed(run, {2: "dog"}), out)
    old = [row for row in read_table(data, ";") if row]
    new = read_table(out, ";")
    assert new[0] == old[0]
    assert new[3] == [old[3][0], "dog", old[3][2]]
    assert new[:3] + new[4:] == old[:3] + old[4:]


def test_a_class_is_spelled_as_the_file_spells_it(tmp_path: Path) -> None:
    data = tmp_path / "numbers.csv"
    cells = ["1.0", "2.0", "1.0", "2.0", "1.0", "2.0"]
    data.write_text("x,label\n" + "".join(f"{i % 4},{cell}\n" for i, cell in enumerate(cells)))
    run = trained(data, tmp_path / "run")
    assert table(run)[0]["given"] in ("1", "2")
    export(reviewed(run, {0: "2"}), tmp_path / "new.csv")
    assert [row[1] for row in read_table(tmp_path / "new.csv")[1:]] == ["2.0", *cells[1:]]


def test_a_parquet_table_keeps_its_columns_and_types(tmp_path: Path) -> None:
    pytest.importorskip("pyarrow")
    frame = pandas.DataFrame(
        {"x": np.arange(8, dtype="float32"), "label": list("abababab"), "when": range(8)}
    )
    frame.to_parquet(tmp_path / "data.parquet")
    run = trained(tmp_path / "data.parquet", tmp_path / "run")
    review = reviewed(run, {5: "a"})
    export(review, tmp_path / "new.parquet")
    after = pandas.read_parquet(tmp_path / "new.parquet")
    frame.loc[5, "label"] = "a"
    pandas.testing.assert_frame_equal(after, frame)
    export(review, tmp_path / "new.csv")
    assert pandas.read_csv(tmp_path / "new.csv")["label"].tolist() == frame["label"].tolist()


def test_formulas_of_a_parquet_table_are_escaped_in_csv(tmp_path: Path) -> None:
    pytest.importorskip("pyarrow")
    words = pandas.Series(["=1+1", "plain", None, "@SUM(A1)"] * 2)
    frame = pandas.DataFrame({"x": np.arange(8.0), "=name": words, "label": list("abababab")})
    frame["kind"] = words.astype("category")
    frame.to_parquet(tmp_path / "data.parquet")
    run = trained(tmp_path / "data.parquet", tmp_path / "run")
    export(reviewed(run, {5: "a"}), tmp_path / "new.csv")
    header, first, second, third, *_ = read_table(tmp_path / "new.csv")
    assert header == ["x", "'=name", "label", "kind"]
    assert first[1] == first[3] == "'=1+1"
    assert (second[1], third[1]) == ("plain", "")
    assert read_table(tmp_path / "new.csv")[4][3] == "'@SUM(A1)"


@pytest.mark.parametrize(
    ("labels", "change", "expected"),
    [
        (np.array([0, 1, 2, 1, 2, 0], dtype=np.int16), "2", 2),
        (np.array(["cat", "dog", "owl", "dog", "owl", "cat"]), "owl", "owl"),
        (np.array([10, 20, 31, 20, 31, 10]), "31", 31),
        (np.array([0.0, 1.0, 2.0, 1.0, 2.0, 0.0]), "2", 2.0),
    ],
    ids=["small integers", "words", "sparse numbers", "floats"],
)
def test_labels_of_an_npz_come_back_as_an_array_like_it(
    tmp_path: Path, labels: Any, change: str, expected: Any
) -> None:
    x = np.random.default_rng(0).normal(size=(6, 3)).astype(np.float32)
    np.savez(tmp_path / "data.npz", x=x, worst=labels)
    run = trained(tmp_path / "data.npz", tmp_path / "run", label_key="worst")
    export(reviewed(run, {1: change}), tmp_path / "new.npy")
    new = np.load(tmp_path / "new.npy")
    wanted = labels.copy()
    wanted[1] = expected
    assert new.dtype.kind == labels.dtype.kind
    assert new.tolist() == wanted.tolist()


def test_noise_put_in_on_purpose_is_exported_as_the_run_saw_it(tmp_path: Path) -> None:
    x = np.random.default_rng(0).normal(size=(40, 3)).astype(np.float32)
    np.savez(tmp_path / "data.npz", x=x, y=np.arange(40) % 4)
    run = trained(tmp_path / "data.npz", tmp_path / "run", noise="symmetric:0.5")
    given = {int(row["index"]): int(row["given"]) for row in table(run)}
    assert any(given[i] != i % 4 for i in given)
    export(reviewed(run, {3: "1"}), tmp_path / "new.npy")
    wanted = {**given, 3: 1}
    assert np.load(tmp_path / "new.npy").tolist() == [wanted[i] for i in range(40)]


def test_a_folder_gives_files_and_labels_that_can_be_fitted_again(tmp_path: Path) -> None:
    root = picture_folder(tmp_path / "pictures")
    run = trained(root, tmp_path / "run", max_bad=0.2)
    ids = list(open_review(run).ids())
    twin = ids.index("red/twin.png")
    out = tmp_path / "corrected.csv"
    export(reviewed(run, {twin: "blue"}), out)
    rows = read_table(out)
    assert rows[0] == ["file", "label"]
    assert ["red/twin.png", "blue"] in rows
    assert len(rows) - 1 == len(ids)
    again = load(root, SourceOptions(labels=out))
    assert again.classes is not None
    assert again.labels is not None
    assert list(again.ids or ()) == ids
    assert again.classes[again.labels[twin]] == "blue"


def test_the_csv_that_labelled_a_folder_comes_back_whole(tmp_path: Path) -> None:
    root = picture_folder(tmp_path / "pictures")
    names = sorted(str(path.relative_to(root)) for path in root.rglob("*.png"))
    labels = tmp_path / "labels.csv"
    lines = [f"{name},{i},{'xy'[i % 2]}" for i, name in enumerate(names)]
    labels.write_text("file,note,label\n" + "\n".join(lines) + "\n")
    run = trained(root, tmp_path / "run", labels=labels, max_bad=0.2)
    bad = names.index("red/broken.png")
    export(reviewed(run, {bad: "x"}), tmp_path / "new.csv")  # the example after the broken one
    old, new = read_table(labels), read_table(tmp_path / "new.csv")
    old[1 + bad + 1][2] = "x"
    assert new == old


def test_lines_for_hugging_face_hold_every_label(tmp_path: Path) -> None:
    run = made_run(tmp_path / "run")
    export(reviewed(run, {7: "owl"}), tmp_path / "new.jsonl")
    lines = [json.loads(line) for line in (tmp_path / "new.jsonl").read_text().splitlines()]
    assert len(lines) == 60
    assert lines[7] == {
        "id": "row 7", "label": "owl", "label_id": 2, "given": "dog", "reviewed": True,
    }  # fmt: skip
    assert [line["reviewed"] for line in lines].count(True) == 1


def test_hugging_face_reads_them(tmp_path: Path) -> None:
    datasets = pytest.importorskip("datasets")
    run = made_run(tmp_path / "run")
    export(reviewed(run, {7: "owl"}), tmp_path / "new.jsonl")
    found = datasets.Dataset.from_json(
        str(tmp_path / "new.jsonl"), cache_dir=str(tmp_path / "cache")
    )
    assert found[7]["label"] == "owl"
    assert len(found) == 60


def test_label_studio_gets_suspects_with_predictions_and_decisions(tmp_path: Path) -> None:
    data = tmp_path / "things.csv"
    data.write_text("length,label\n" + "".join(f"{i * i % 7},{'ab'[i % 2]}\n" for i in range(20)))
    run = trained(data, tmp_path / "run")
    rows = table(run)
    calm = next(int(row["index"]) for row in rows if row["suspect"] == "0")
    review = reviewed(run, {calm: "ab"[(calm + 1) % 2]})
    export(review, tmp_path / "tasks.json", FromExamples(load(data)))
    tasks = json.loads((tmp_path / "tasks.json").read_text())
    wanted = {row["id"] for row in rows if row["suspect"] == "1"} | {str(calm)}
    assert {task["data"]["id"] for task in tasks} == wanted
    decided = [task for task in tasks if "annotations" in task]
    assert len(decided) == 1
    result = decided[0]["annotations"][0]["result"][0]
    assert result["value"] == {"choices": ["ab"[(calm + 1) % 2]]}
    assert result["type"] == "choices"
    assert result["to_name"] in decided[0]["data"]
    for task in tasks:
        row = next(row for row in rows if row["id"] == task["data"]["id"])
        guess = task["predictions"][0]
        assert guess["result"][0]["value"]["choices"] == [row["suggested"]]
        assert guess["score"] == pytest.approx(float(row["p_suggested"]), abs=1e-5)


@pytest.mark.parametrize("name", ["new.exe", "new", "missing/new.csv", "new.parquet"])
def test_a_form_that_cannot_be_is_refused(tmp_path: Path, name: str) -> None:
    run = made_run(tmp_path / "run")
    with pytest.raises(BadInput):
        export(reviewed(run, {0: "dog"}), tmp_path / name)
    assert not (tmp_path / name).exists()


def test_the_data_itself_is_never_written_over(tmp_path: Path) -> None:
    data = tmp_path / "things.csv"
    data.write_text("length,label\n" + "".join(f"{i + i % 2},{'ab'[i % 2]}\n" for i in range(8)))
    run = trained(data, tmp_path / "run")
    before = data.read_bytes()
    (tmp_path / "link.csv").symlink_to(data)
    for path in (data, tmp_path / "link.csv"):
        with pytest.raises(BadInput, match="the data itself"):
            export(reviewed(run, {0: "b"}), path)
    assert data.read_bytes() == before


@pytest.mark.parametrize("change", ["gone", "longer", "relabelled"])
def test_a_table_that_is_no_longer_the_same_is_refused(tmp_path: Path, change: str) -> None:
    data = tmp_path / "things.csv"
    data.write_text("length,label\n" + "".join(f"{i + i % 2},{'ab'[i % 2]}\n" for i in range(8)))
    run = trained(data, tmp_path / "run")
    review = reviewed(run, {0: "b"})
    if change == "gone":
        data.unlink()
    elif change == "longer":
        data.write_text(data.read_text() + "9,a\n")
    else:
        data.write_text(data.read_text().replace("6,b", "6,a"))
    with pytest.raises(BadInput) as refusal:
        export(review, tmp_path / "new.csv")
    assert "\n" not in str(refusal.value)
    assert not (tmp_path / "new.csv").exists()
    export(review, tmp_path / "new.jsonl")
    assert len((tmp_path / "new.jsonl").read_text().splitlines()) == 8


def test_what_was_done_is_said_in_words(tmp_path: Path) -> None:
    run = made_run(tmp_path / "run")
    given = {int(row["index"]): row["given"] for row in table(run)}
    review = open_review(run, write=True)
    review.decisions.decide(
        [
            {"index": 0, "decision": "keep", "label": given[0]},
            {"index": 1, "decision": "change", "label": "owl"},
            {"index": 2, "decision": "skip"},
        ]
    )
    assert in_words(review) == "2 labels reviewed, 1 of them changed"
    review.decisions.decide([{"index": 0, "decision": "skip"}, {"index": 3, "decision": "remove"}])
    assert in_words(review) == "1 label reviewed, 1 of them changed, 1 example removed"
    shutil.rmtree(run)


def test_rows_without_a_label_stay_as_they_are(tmp_path: Path) -> None:
    data = tmp_path / "gaps.csv"
    data.write_text("length,kind\n1,cat\n2,\n3,dog\n4,cat\n5,\n6,dog\n7,cat\n8,dog\n")
    run = trained(data, tmp_path / "run", label_column="kind", skip_unlabelled=True)
    rows = {row["index"]: row["id"] for row in table(run)}
    assert rows == {"0": "0", "1": "2", "2": "3", "3": "5", "4": "6", "5": "7"}
    export(reviewed(run, {1: "cat"}), tmp_path / "new.csv")
    kinds = [row[1] for row in read_table(tmp_path / "new.csv")[1:]]
    assert kinds == ["cat", "", "cat", "cat", "", "dog", "cat", "dog"]
    x, y = np.arange(16.0).reshape(8, 2), np.array([0, np.nan, 1, 0, np.nan, 1, 0, 1])
    np.savez(tmp_path / "gaps.npz", x=x, y=y)
    run = trained(tmp_path / "gaps.npz", tmp_path / "arrays", skip_unlabelled=True)
    export(reviewed(run, {1: "0"}), tmp_path / "new.npy")
    y[2] = 0
    np.testing.assert_array_equal(np.load(tmp_path / "new.npy"), y)
