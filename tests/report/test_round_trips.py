"""Labels go out to other tools and come back: Label Studio, FiftyOne, Hugging Face, pandas."""

from __future__ import annotations

import importlib.util
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from made_runs import made_run, picture_folder, table, trained
from typer.testing import CliRunner

import labelproof
from labelproof.cli.app import app
from labelproof.errors import BadInput
from labelproof.review.answers import import_answers, in_words, read_answers
from labelproof.runs.reviewed import open_review

pandas = pytest.importorskip("pandas")
PROGRAM = Path(__file__).with_name("label_studio_program.py")


def call(*words: Any) -> str:
    told = CliRunner().invoke(app, [str(word) for word in words])
    if told.exception is not None and not isinstance(told.exception, SystemExit):
        raise told.exception
    assert told.exit_code == 0, told.output
    return told.stdout


def write(path: Path, text: str) -> Path:
    path.write_text(text, encoding="utf-8")
    return path


def tool_python(module: str, variable: str) -> str:
    """An interpreter that has the module: this one, or the one that the variable names.

    Label Studio's library wants an older numpy and FiftyOne's a database, so they usually live in
    an environment of their own.
    """
    if importlib.util.find_spec(module):
        return sys.executable
    if not os.environ.get(variable):
        pytest.skip(f"{module} is not installed; set {variable} to a Python that has it")
    return os.environ[variable]


@pytest.fixture(scope="module")
def things(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run on a small table, in `run` beside `things.csv`."""
    folder = tmp_path_factory.mktemp("things")
    data = folder / "things.csv"
    lines = [f'{i * i % 7},"no, {i}",{"ab"[i % 2]}' for i in range(20)]
    data.write_text("length,label text,label\n" + "\n".join(lines) + "\n")
    trained(data, folder / "run", label_column="label", drop_columns=("label text",))
    return folder


@pytest.fixture
def run(things: Path, tmp_path: Path) -> Path:
    """A copy of it without decisions."""
    return Path(shutil.copytree(things / "run", tmp_path / "run"))


def answers_of(run: Path) -> dict[int, str | None]:
    """Answers about the suspects: kept, accepted, skipped, accepted."""
    suspects = [row for row in table(run) if row["suspect"] == "1"]
    first, second, third, fourth = suspects[:4]
    return {
        int(first["index"]): first["given"],
        int(second["index"]): second["suggested"],
        int(third["index"]): None,
        int(fourth["index"]): fourth["suggested"],
    }


def decisions(run: Path) -> dict[int, str | None]:
    return {index: one.label for index, one in open_review(run).decisions.latest.items()}


def test_label_studio_takes_our_tasks_and_its_answers_become_decisions(run: Path) -> None:
    python = tool_python("label_studio_sdk", "LABEL_STUDIO_PYTHON")
    tasks = run.parent / "tasks.json"
    call("export", run, "--format", "label-studio", "--out", tasks)
    wanted = answers_of(run)
    chosen, out = run.parent / "chosen.json", run.parent / "studio"
    chosen.write_text(json.dumps(wanted))
    words = [python, PROGRAM, tasks, tasks.with_suffix(".xml"), chosen, out]
    subprocess.run([str(word) for word in words], check=True, capture_output=True, text=True)
    without = {index: label for index, label in wanted.items() if label is not None}
    for name, told in (("json.json", wanted), ("min.json", without), ("answers.csv", without)):
        copy = Path(shutil.copytree(run, run.parent / f"copy-{name}"))
        said = call("review", copy, "--import", out / name)
        assert f"{len(told)} new decisions" in said
        assert decisions(copy) == told


def task(index: int, given: str, *said: dict[str, Any]) -> dict[str, Any]:
    return {"id": 5, "data": {"id": "x", "index": index, "given": given}, "annotations": [*said]}


def said(label: str | None, who: int = 1, when: str = "2025", **more: Any) -> dict[str, Any]:
    region = {"from_name": "label", "type": "choices", "value": {"choices": [label]}}
    result = [region] if label else []
    return {"completed_by": who, "updated_at": when, "result": result, **more}


def test_answers_of_several_people_are_counted(tmp_path: Path) -> None:
    run = made_run(tmp_path / "run")  # example i is given cat, dog or owl in turn
    content = [
        task(0, "cat", said("dog"), said("owl", 2), said("owl", 3)),
        task(1, "dog", said("cat"), said("owl", 2)),
        task(2, "owl", said("cat", when="2024"), said("dog", when="2025")),
        task(3, "cat", said(None, was_cancelled=True)),
        task(4, "dog"),
        task(5, "owl", said("wolf")),
        task(6, "dog", said("cat")),
        task(999, "dog", said("cat")),
    ]
    (tmp_path / "a.json").write_text(json.dumps(content))
    review = open_review(run, write=True)
    found = import_answers(review, tmp_path / "a.json")
    review.decisions.close()
    assert decisions(run) == {0: "owl", 2: "dog", 3: None}
    assert [note.split(":")[0] for note in found.notes] == [
        "not a class of this run",
        "not an example of this run",  # 6 was given cat, so this is an answer about another run
        "not an example of this run",
        "left open, because the answers differ",
    ]
    assert in_words(found).startswith("3 new decisions")


def test_importing_twice_changes_nothing_and_undo_takes_all_back(run: Path) -> None:
    lines = [{"id": name, "label": label} for name, label in [("3", "a"), ("4", "b")]]
    path = run.parent / "a.jsonl"
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    assert "2 new decisions" in call("review", run, "--import", path)
    assert "0 new decisions, 2 already decided that way" in call("review", run, "--import", path)
    review = open_review(run, write=True)
    assert sorted(review.decisions.undo()) == [3, 4]
    review.decisions.close()
    assert decisions(run) == {}


def test_our_own_lines_bring_back_only_what_was_reviewed(run: Path) -> None:
    review = open_review(run, write=True)
    review.decisions.decide([{"index": 3, "decision": "change", "label": "a"}])
    review.decisions.close()
    call("review", run, "--export", run.parent / "out.jsonl")
    (run / "decisions.jsonl").unlink()
    call("review", run, "--import", run.parent / "out.jsonl")
    assert decisions(run) == {3: "a"}


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("a.json", "[1"),
        ("a.json", '{"x": 1}'),
        ("a.json", "[3]"),
        ("a.json", "[]"),
        ("a.jsonl", "[1]"),
        ("a.csv", "id,label\nnobody,a\n"),
        ("a.xml", "<a/>"),
        ("none.json", None),
    ],
)
def test_a_file_without_answers_is_refused(run: Path, name: str, content: str | None) -> None:
    if content is not None:
        (run.parent / name).write_text(content)
    with pytest.raises(BadInput) as refusal:
        read_answers(open_review(run), run.parent / name)
    assert "\n" not in str(refusal.value)
    assert decisions(run) == {}


def test_fiftyone_reads_our_samples_and_changed_labels_come_back(tmp_path: Path) -> None:
    root = picture_folder(tmp_path / "pictures")
    run = trained(root, tmp_path / "run", max_bad=0.2)
    out = tmp_path / "fiftyone.json"
    call("export", run, "--format", "fiftyone", "--out", out)
    content = json.loads(out.read_text())
    suspects = [sample for sample in content["samples"] if "suspect" in sample["tags"]]
    assert len(suspects) == 4
    assert all(Path(sample["filepath"]).is_file() for sample in content["samples"])
    changed, kept = suspects[:2]
    changed["label"]["label"] = changed["suggested"]["label"]
    kept["tags"].append("reviewed")
    out.write_text(json.dumps(content))
    assert "2 new decisions" in call("review", run, "--import", out)
    assert decisions(run) == {
        changed["index"]: changed["suggested"]["label"],
        kept["index"]: kept["given"]["label"],
    }


def test_fiftyone_itself_takes_the_samples(tmp_path: Path) -> None:
    python = tool_python("fiftyone", "FIFTYONE_PYTHON")
    root = picture_folder(tmp_path / "pictures")
    run = trained(root, tmp_path / "run", max_bad=0.2)
    out = tmp_path / "fiftyone.json"
    call("export", run, "--format", "fiftyone", "--out", out)
    program = (
        "import fiftyone as fo, json, sys; content = json.load(open(sys.argv[1]))\n"
        "samples = [fo.Sample.from_dict(one) for one in content['samples']]\n"
        "first = samples[0]\n"
        "assert isinstance(first.suggested, fo.Classification), first\n"
        "content['samples'] = [one.to_dict() for one in samples]\n"
        "content['samples'][0]['label']['label'] = first.suggested.label\n"
        "json.dump(content, open(sys.argv[1], 'w'))\n"
    )
    subprocess.run([python, "-c", program, str(out)], check=True, capture_output=True, text=True)
    call("review", run, "--import", out)
    first = table(run)[0]
    assert decisions(run) == {int(first["index"]): first["suggested"]}


def test_fiftyone_needs_picture_files(run: Path) -> None:
    with pytest.raises(BadInput, match="picture files"):
        call("export", run, "--format", "fiftyone")


def test_a_table_keeps_its_cells_and_gets_new_columns(things: Path, run: Path) -> None:
    call("export", run, "--format", "table", "--out", run.parent / "more.csv")
    before = pandas.read_csv(things / "things.csv", dtype=str)
    after = pandas.read_csv(run.parent / "more.csv", dtype=str)
    pandas.testing.assert_frame_equal(after[list(before)], before)
    assert list(after)[: len(before.columns)] == list(before)
    assert after["labelproof_given"].tolist() == before["label"].tolist()
    suspects = {int(row["index"]) for row in table(run) if row["suspect"] == "1"}
    assert set(np.flatnonzero(after["labelproof_suspect"] == "True")) == suspects
    call("export", run, "--format", "table", "--out", run.parent / "more.parquet")
    typed = pandas.read_parquet(run.parent / "more.parquet")
    assert typed["length"].dtype.kind == "i"
    assert typed["labelproof_suspect"].dtype == bool


def test_a_parquet_table_keeps_its_types(tmp_path: Path) -> None:
    frame = pandas.DataFrame(
        {"x": np.arange(8, dtype="float32"), "label": list("abababab"), "when": range(8)}
    )
    frame.to_parquet(tmp_path / "data.parquet")
    run = trained(tmp_path / "data.parquet", tmp_path / "run")
    call("export", run, "--format", "table", "--out", tmp_path / "new.parquet")
    after = pandas.read_parquet(tmp_path / "new.parquet")
    pandas.testing.assert_frame_equal(after[list(frame)], frame)


def test_a_table_that_changed_is_refused(tmp_path: Path) -> None:
    data = tmp_path / "t.csv"
    data.write_text("x,label\n" + "".join(f"{i},{'ab'[i % 2]}\n" for i in range(8)))
    run = trained(data, tmp_path / "run")
    data.write_text(data.read_text() + "9,a\n")
    with pytest.raises(BadInput, match="has 9 rows, but the run was trained on 8"):
        call("export", run, "--format", "table")


def test_a_hugging_face_data_set_comes_back_with_new_columns(tmp_path: Path) -> None:
    datasets = pytest.importorskip("datasets")
    kinds = datasets.ClassLabel(names=["cat", "dog"])
    values = {"length": [i * i % 7 for i in range(12)], "kind": [i % 2 for i in range(12)]}
    made = datasets.Dataset.from_dict(values).cast_column("kind", kinds)
    parts = datasets.DatasetDict({"train": made, "validation": made.select(range(4))})
    parts.save_to_disk(str(tmp_path / "data"))
    run = trained(tmp_path / "data", tmp_path / "run", label_column="kind")
    call("export", run, "--format", "huggingface", "--out", tmp_path / "new")
    after = datasets.load_from_disk(str(tmp_path / "new"))
    assert after["train"].column_names[:2] == ["length", "kind"]
    assert after["train"].features["kind"] == kinds
    assert after["train"]["labelproof_given"][:2] == ["cat", "dog"]
    assert after["train"]["labelproof_suspect"][:].count(True) == 4
    assert after["validation"].column_names == ["length", "kind"]
    call("review", run, "--import", write(tmp_path / "a.csv", "index,label\n0,dog\n"))
    call("export", run, "--format", "huggingface", "--out", tmp_path / "newer")
    again = datasets.load_from_disk(str(tmp_path / "newer"))["train"]
    assert again["labelproof_label"][:2] == ["dog", "dog"]
    assert again["labelproof_decision"][0] in ("accept", "change")


def test_pictures_become_a_hugging_face_data_set(tmp_path: Path) -> None:
    datasets = pytest.importorskip("datasets")
    run = trained(picture_folder(tmp_path / "pictures"), tmp_path / "run", max_bad=0.2)
    call("export", run, "--format", "huggingface", "--out", tmp_path / "new")
    after = datasets.load_from_disk(str(tmp_path / "new"))
    assert isinstance(after.features["image"], datasets.Image)
    assert after[0]["image"].size == (16, 12)
    assert set(after["labelproof_given"]) == {"blue", "red"}


def test_frames_and_data_sets_get_columns_from_python(things: Path, run: Path) -> None:
    datasets = pytest.importorskip("datasets")
    frame = pandas.read_csv(things / "things.csv").set_index("length", drop=False)
    after = labelproof.add_findings(frame, run)
    pandas.testing.assert_frame_equal(after[list(frame)], frame)
    assert after["labelproof_given"].tolist() == frame["label"].tolist()
    twice = labelproof.add_findings(after, run)
    assert list(twice) == list(after)
    rows = labelproof.add_findings(datasets.Dataset.from_dict({"x": list(range(20))}), run)
    assert rows.column_names[0] == "x"
    assert rows["labelproof_p_clean"][:] == after["labelproof_p_clean"].tolist()
    with pytest.raises(BadInput, match="expected the 20 rows"):
        labelproof.add_findings(frame[:5], run)
    with pytest.raises(BadInput, match="expected a pandas DataFrame"):
        labelproof.add_findings([1], run)


def test_a_classifier_gives_columns_too() -> None:
    rng = np.random.default_rng(0)
    frame = pandas.DataFrame(rng.normal(size=(40, 3)), columns=list("xyz"))
    labels = np.where(frame["x"] > 0, "up", "down")
    fitted = labelproof.NoisyLabelClassifier(method="ce", epochs=1).fit(frame, labels)
    after = labelproof.add_findings(frame, fitted)
    assert after["labelproof_given"].tolist() == labels.tolist()
    assert list(after)[:3] == list("xyz")
