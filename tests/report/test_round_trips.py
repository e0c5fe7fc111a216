"""Labels go out to other tools and come back: Label Studio, FiftyOne, Hugging Face, pandas."""

from __future__ import annotations

import importlib.util
import json
import os
import pickle
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from made_runs import made_run, picture_folder, table, trained
from typer.testing import CliRunner

import labelproof
from labelproof.cli.app import app
from labelproof.data.readers import SourceOptions, load
from labelproof.data.readers.arrays import from_arrays as load_arrays
from labelproof.errors import BadInput, Note
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
    one = replace(found, wishes=found.wishes[:1])
    assert in_words(one).startswith("1 new decision (")


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


def test_tasks_name_pictures_below_the_fitted_folder(tmp_path: Path) -> None:
    root = tmp_path / "pictures"
    picture_folder(root / "train")
    shutil.copytree(root / "train", root / "test")
    run = trained(root, tmp_path / "run", max_bad=0.2)
    out = tmp_path / "tasks.json"
    call("export", run, "--format", "label-studio", "--out", out)
    tasks = json.loads(out.read_text())
    images = [one["data"]["image"] for one in tasks]
    assert len(images) == 4
    for image in images:
        address, _, name = image.partition("?d=")
        assert address == "/data/local-files/"
        assert (root / name).is_file()
        assert name.startswith("train/")
    lines = "".join(f"{image},red\n" for image in images)
    call("review", run, "--import", write(tmp_path / "a.csv", f"image,label\n{lines}"))
    assert set(decisions(run)) == {one["data"]["index"] for one in tasks}


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


def edited(run: Path, changes: dict[int, dict[str, str]], drop: tuple[str, ...] = ()) -> Path:
    """The table of a run as a person gives it back: sorted otherwise, with these cells changed."""
    path = run.parent / "edited.csv"
    call("export", run, "--format", "table", "--out", path)
    frame = pandas.read_csv(path, dtype=str, keep_default_na=False)
    for row, cells in changes.items():
        for name, cell in cells.items():
            frame.loc[row, f"labelproof_{name}"] = cell
    frame[::-1].drop(columns=list(drop)).to_csv(path, index=False)
    return path


def test_an_edited_table_brings_back_its_decisions_and_nothing_else(run: Path) -> None:
    suggested = {int(row["index"]): row["suggested"] for row in table(run)}
    given = {int(row["index"]): row["given"] for row in table(run)}
    wrong = {i: ("a" if given[i] == "b" else "b") for i in given}
    changes = {
        0: {"label": wrong[0]},
        1: {"label": wrong[1], "decision": "accept"},
        2: {"decision": "keep"},
        3: {"decision": "skip"},
        4: {"decision": "remove"},
        5: {"decision": "Accept"},
        6: {"decision": "keep", "label": wrong[6]},
        7: {"decision": "change"},
        8: {"decision": "perhaps"},
    }
    path = edited(run, changes)
    said = call("review", run, "--import", path)
    assert said.count("left open, because") == 2
    assert "not a decision: 'perhaps' of 8" in said
    standing = open_review(run).decisions.standing()
    labels = {0: wrong[0], 1: wrong[1], 2: given[2], 3: None, 4: None, 5: suggested[5]}
    assert {index: one.label for index, one in standing.items()} == labels
    assert (standing[3].decision, standing[4].decision) == ("skip", "remove")
    assert "0 new decisions, 6 already decided that way" in call("review", run, "--import", path)
    again = edited(run, {})  # with the decisions in it
    assert "0 new decisions, 6 already decided that way" in call("review", run, "--import", again)


def test_an_untouched_table_decides_nothing(run: Path) -> None:
    with pytest.raises(BadInput, match="no row has a labelproof_decision or another"):
        call("review", run, "--import", edited(run, {}))
    assert decisions(run) == {}


def test_a_table_of_votes_comes_back_by_its_own_ids(tmp_path: Path) -> None:
    rows = [f"{i},n{i},{i * i % 7},{'ab'[i % 2]},{'ab'[i % 2]}" for i in range(20)]
    text = "index,name,x,ann,bob\n" + "\n".join(rows[::-1]) + "\n"
    data = write(tmp_path / "votes.csv", text)
    columns = {"drop_columns": ("index",), "id_column": "name"}
    run = trained(data, tmp_path / "run", annotators=("ann", "bob"), **columns)
    path = edited(run, {0: {"label": "a"}, 1: {"decision": "keep"}}, ("labelproof_index",))
    call("review", run, "--import", path)
    ids = open_review(run).ids()
    assert {ids[index]: what for index, what in decisions(run).items()} == {"n19": "a", "n18": "a"}


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


def test_reordered_frames_get_their_own_findings(tmp_path: Path) -> None:
    lines = [f"name{i},{i * i % 7},{'ab'[i * 7 % 5 % 2]}" for i in range(20)]
    data = write(tmp_path / "things.csv", "\n".join(["id,length,label", *lines, ""]))
    run = trained(data, tmp_path / "run")
    frame = pandas.read_csv(data)
    known = labelproof.add_findings(frame, run).set_index("id")
    mixed = frame.sample(frac=1, random_state=0)
    for rows in (mixed, mixed.reset_index(drop=True), mixed[:5]):
        after = labelproof.add_findings(rows, run)
        assert list(after.index) == list(rows.index)
        found = after.set_index("id")
        pandas.testing.assert_frame_equal(found, known.loc[found.index])
    with pytest.raises(BadInput, match="1 of 20 are not among them"):
        labelproof.add_findings(frame.replace({"id": {"name3": "else"}}), run)


def test_a_reordered_frame_without_ids_is_refused(things: Path, run: Path) -> None:
    datasets = pytest.importorskip("datasets")
    frame = pandas.read_csv(things / "things.csv")
    mixed = frame.sample(frac=1, random_state=0)
    for rows in (mixed, mixed.drop(columns="label")):
        with pytest.raises(BadInput, match="index says that they were reordered"):
            labelproof.add_findings(rows, run)
    anew = mixed.reset_index(drop=True)
    for same in (anew, datasets.Dataset.from_pandas(anew)):
        with pytest.raises(BadInput, match="in the column 'label', where the training data had"):
            labelproof.add_findings(same, run)


def test_votes_tell_that_a_frame_was_reordered(tmp_path: Path) -> None:
    lines = [f"{i * i % 7},{'ab'[i % 2]},{'ab'[i % 3 % 2]}," for i in range(30)]
    data = write(tmp_path / "votes.csv", "\n".join(["length,by_a,by_b,by_c", *lines, "2,a,b,b\n"]))
    run = trained(data, tmp_path / "run", annotators=("by_*",))
    frame = pandas.read_csv(data)
    assert len(labelproof.add_findings(frame, run)) == 31
    with pytest.raises(BadInput, match="where the training data had"):
        labelproof.add_findings(frame[::-1].reset_index(drop=True), run)


def test_a_classifier_matches_rows_by_the_index_of_its_frame() -> None:
    rng = np.random.default_rng(0)
    frame = pandas.DataFrame(rng.normal(size=(40, 3)), columns=list("xyz"))
    frame = frame.sample(frac=1, random_state=0)
    labels = np.where(frame["x"] > 0, "up", "down")
    fitted = labelproof.NoisyLabelClassifier(method="ce", epochs=1).fit(frame, labels)
    after = labelproof.add_findings(frame, fitted)
    assert after["labelproof_given"].tolist() == labels.tolist()
    pandas.testing.assert_frame_equal(
        labelproof.add_findings(frame.sort_index(), fitted), after.sort_index()
    )
    again = labelproof.add_findings(frame.reset_index(drop=True), fitted)  # numbered anew
    assert again["labelproof_given"].tolist() == labels.tolist()
    mixed = frame.reset_index(drop=True).sample(frac=1, random_state=1).reset_index(drop=True)
    with pytest.raises(BadInput, match="contents of some differ"):
        labelproof.add_findings(mixed, fitted)
    kept = pickle.loads(pickle.dumps(fitted))
    pandas.testing.assert_frame_equal(labelproof.add_findings(frame, kept), after)


def fitted_frame() -> tuple[pandas.DataFrame, np.ndarray, labelproof.NoisyLabelClassifier]:
    """A frame, its labels, and a classifier that was fitted on them."""
    rng = np.random.default_rng(0)
    frame = pandas.DataFrame(rng.normal(size=(40, 3)), columns=list("xyz"))
    labels = np.where(frame["x"] > 0, "up", "down")
    return frame, labels, labelproof.NoisyLabelClassifier(method="ce", epochs=1).fit(frame, labels)


@pytest.mark.parametrize("classes", [("01", "02"), ("None", "some")])
def test_labels_that_pandas_reads_as_numbers_or_gaps_are_those_of_the_run(
    tmp_path: Path, classes: tuple[str, str]
) -> None:
    rng = np.random.default_rng(0)
    sizes = rng.normal(size=40)
    rows = [f"{size},{classes[int(size > 0)]}" for size in sizes]
    (tmp_path / "t.csv").write_text("\n".join(["size,label", *rows]) + "\n")
    call("fit", tmp_path / "t.csv", "--method", "ce", "--epochs", 1, "--out", tmp_path / "run")
    after = labelproof.add_findings(pandas.read_csv(tmp_path / "t.csv"), tmp_path / "run")
    assert after["labelproof_given"].tolist() == [classes[int(size > 0)] for size in sizes]


def test_a_classifier_gives_columns_too() -> None:
    frame, labels, fitted = fitted_frame()
    after = labelproof.add_findings(frame, fitted)
    assert after["labelproof_given"].tolist() == labels.tolist()
    assert list(after)[:3] == list("xyz")


@pytest.mark.parametrize("form", ["csv", "parquet", "huggingface"])
def test_findings_are_no_features_of_the_next_fit(
    things: Path, run: Path, tmp_path: Path, form: str
) -> None:
    pytest.importorskip("datasets")
    kind = "huggingface" if form == "huggingface" else "table"
    out = tmp_path / ("new" if form == "huggingface" else f"new.{form}")
    call("export", run, "--format", kind, "--out", out)
    again = load(str(out), SourceOptions(label_column="labelproof_label"))
    used = [column["name"] for column in again.about["encoding"]["columns"]]
    assert used == ["length"]
    notes = [note for note in again.about["warnings"] if "labelproof" in note]
    assert len(notes) == 1
    assert "labelproof_p_clean, labelproof_p_suggested, labelproof_suspect" in notes[0]
    assert "truth-key labelproof" not in " ".join(again.about["warnings"])


def test_findings_in_a_frame_are_no_features() -> None:
    frame, labels, fitted = fitted_frame()
    after = labelproof.add_findings(frame, fitted)
    numbers = after.drop(columns=[name for name in after if after[name].dtype == object])
    assert "labelproof_p_clean" in numbers
    for rows in (after, numbers):
        with pytest.warns(Note, match="labelproof wrote these columns: .*labelproof_p_clean"):
            again = labelproof.NoisyLabelClassifier(method="ce", epochs=1).fit(rows, labels)
        assert list(again.feature_names_in_) == list("xyz")
        assert (again.predict(rows) == again.predict(frame)).all()
        read = load_arrays(rows, labels)
        assert read.x.shape == (3,)
        assert "labelproof_p_clean" in read.about["warnings"][0]
