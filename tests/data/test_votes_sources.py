"""The same votes from every kind of source give the same codes."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from PIL import Image

from labelproof.data.examples import Examples
from labelproof.data.readers import SourceOptions, from_arrays, load
from labelproof.errors import BadInput

ROWS = [["cat", "dog", ""], ["dog", "dog", "dog"], ["cat", "", "cat"], ["dog", "cat", "cat"]]
PEOPLE = ["rater_ann", "rater_bob", "rater_cy"]
CODES = [[0, 1, -1], [1, 1, 1], [0, -1, 0], [1, 0, 0]]


def _check(examples: Examples, people: list[str] | None = None) -> None:
    assert examples.votes is not None
    assert examples.votes.table.tolist() == CODES
    assert list(examples.votes.annotators) == (people or PEOPLE)
    assert examples.classes == ("cat", "dog")
    assert examples.labels is not None
    assert examples.labels.tolist() == [0, 1, 0, 0]


def _wide() -> pd.DataFrame:
    numbers = {"size": [1.0, 2.0, 3.0, 4.0], "weight": [0.1, 0.5, 0.2, 0.9]}
    votes = dict(zip(PEOPLE, zip(*ROWS, strict=True), strict=True))
    return pd.DataFrame({"id": list("abcd"), **numbers, **votes})


def _long() -> pd.DataFrame:
    long = _wide().melt(["id", "size", "weight"], PEOPLE, "who", "label")
    return long[long["label"] != ""]


def test_wide_tables(tmp_path: Path) -> None:
    _wide().assign(label=["cat"] * 4).to_csv(tmp_path / "w.csv", index=False)
    found = load(tmp_path / "w.csv", SourceOptions(annotators=("rater_*",)))
    _check(found)
    assert found.x.shape == (2,)  # the annotators and the label beside them are no features
    assert any("'label' is left out" in note for note in found.about["warnings"])
    _wide().to_parquet(tmp_path / "w.parquet")
    _check(load(tmp_path / "w.parquet", SourceOptions(annotators=tuple(PEOPLE))))


def test_long_tables(tmp_path: Path) -> None:
    _long().to_csv(tmp_path / "l.csv", index=False)
    options = SourceOptions(annotator_column="who", id_column="id")
    found = load(tmp_path / "l.csv", options)
    _check(found)
    assert found.ids == list("abcd")
    assert found.x.shape == (2,)
    _check(load(tmp_path / "l.csv", SourceOptions(annotator_column="who")))  # its name is usual
    _long().rename(columns={"id": "number"}).to_csv(tmp_path / "n.csv", index=False)
    with pytest.raises(BadInput, match="--id-column"):
        load(tmp_path / "n.csv", SourceOptions(annotator_column="who"))
    changed = _long().reset_index(drop=True)
    changed.loc[0, "weight"] = 7.0
    changed.to_csv(tmp_path / "l.csv", index=False)
    with pytest.raises(BadInput, match="'a' has different ones in column 'weight'"):
        load(tmp_path / "l.csv", options)


def test_a_column_of_people_that_no_option_names_is_pointed_out(tmp_path: Path) -> None:
    pairs = [number for number in range(20) for _ in range(2)]
    votes = {"Worker": ["ann", "bob"] * 20, "label": [0, 0, 1, 1] * 10}
    sizes = np.random.default_rng(0).normal(size=20).repeat(2)
    table = pd.DataFrame({"a": pairs, "size": sizes, **votes})
    table.to_csv(tmp_path / "t.csv", index=False)
    notes = load(tmp_path / "t.csv").about["warnings"]
    assert any("add --annotator-column Worker" in note for note in notes)
    named = SourceOptions(annotator_column="Worker", id_column="a")
    notes = load(tmp_path / "t.csv", named).about["warnings"]
    assert not any("--annotator-column" in note for note in notes)


def test_npz(tmp_path: Path) -> None:
    x = np.random.default_rng(0).normal(size=(4, 3))
    codes, classes = np.array(CODES), np.array(["cat", "dog"])
    np.savez(tmp_path / "v.npz", x=x, votes=codes, annotators=np.array(PEOPLE), classes=classes)
    _check(load(tmp_path / "v.npz"))
    columns = {name: codes[:, place] for place, name in enumerate(PEOPLE)}
    np.savez(tmp_path / "c.npz", x=x, classes=classes, **columns)
    _check(load(tmp_path / "c.npz", SourceOptions(annotators=("rater_*",))))


def test_arrays_and_frames() -> None:
    x = np.random.default_rng(0).normal(size=(4, 3))
    words = np.array(ROWS, dtype=object)
    _check(from_arrays(x, words), ["annotator 1", "annotator 2", "annotator 3"])
    _check(from_arrays(x, pd.DataFrame(words, columns=PEOPLE)))
    _check(from_arrays(["a b", "c d", "e f", "g h"], pd.DataFrame(words, columns=PEOPLE)))


def test_pictures_with_a_csv_of_votes_keep_the_rows_that_can_be_read(tmp_path: Path) -> None:
    for place, name in enumerate("abcd"):
        Image.new("RGB", (8, 8), (place * 60, 0, 0)).save(tmp_path / f"{name}.png")
    Image.new("RGB", (8, 8)).save(tmp_path / "e.png")
    (tmp_path / "e.png").write_bytes(b"no picture")
    files = [f"{name}.png" for name in "aebcd"]
    rows = [ROWS[0], ["cat", "cat", "cat"], *ROWS[1:]]
    wide = pd.DataFrame({"file": files, **dict(zip(PEOPLE, zip(*rows, strict=True), strict=True))})
    wide.to_csv(tmp_path / "votes.csv", index=False)
    options = SourceOptions(labels=tmp_path / "votes.csv", annotators=("rater_*",), max_bad=0.5)
    _check(load(tmp_path, options))
    long = wide.melt("file", PEOPLE, "who", "label")
    long[long["label"] != ""].to_csv(tmp_path / "votes.csv", index=False)
    options = SourceOptions(labels=tmp_path / "votes.csv", annotator_column="who", max_bad=0.5)
    found = load(tmp_path, options)
    assert found.votes is not None
    assert sorted(found.votes.table.tolist()) == sorted(CODES)


def test_a_matrix_of_labels_is_no_table_of_annotators(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    x, tags, path = rng.normal(size=(60, 3)), rng.integers(0, 2, (60, 3)), tmp_path / "d.npz"
    np.savez(path, x=x, y=tags)
    with pytest.raises(BadInput, match=r"chance \(Krippendorff's alpha -?0\.\d\d\).*--multilabel"):
        load(path)
    with pytest.raises(BadInput, match="save them under the name votes"):
        from_arrays(x, tags)
    np.savez(path, x=x, votes=tags)
    assert load(path).votes is not None
    np.savez(path, x=x, y=tags, annotators=np.array(PEOPLE))
    assert load(path).votes is not None
    right = np.where(rng.random((60, 3)) < 0.2, 1 - tags[:, :1], tags[:, :1])
    np.savez(path, x=x, y=right)
    assert load(path).votes is not None


def test_an_annotator_without_votes_can_be_left_out(tmp_path: Path) -> None:
    _wide().assign(rater_d="").to_csv(tmp_path / "w.csv", index=False)
    with pytest.raises(BadInput, match=r"'rater_d' gave none; leave them out .*--drop-column"):
        load(tmp_path / "w.csv", SourceOptions(annotators=("rater_*",)))
    options = SourceOptions(annotators=("rater_*",), drop_columns=("rater_d",))
    _check(load(tmp_path / "w.csv", options))


def test_two_ways_to_say_labels_are_refused(tmp_path: Path) -> None:
    _wide().to_csv(tmp_path / "w.csv", index=False)
    with pytest.raises(BadInput, match="both --annotators and --label-column were given"):
        load(tmp_path / "w.csv", SourceOptions(annotators=("rater_*",), label_column="size"))


def _crowd() -> pd.DataFrame:
    rng = np.random.default_rng(0)
    names = np.array(["cat", "dog", "fox"])
    truth = rng.integers(0, 3, 60)
    said = {
        name: names[np.where(rng.random(60) < right, truth, rng.integers(0, 3, 60))]
        for name, right in (("rater_ann", 0.9), ("rater_bob", 0.9), ("Rater_cy", 0.8))
    }
    noise = {"size": rng.normal(size=60), "rater_dud": names[rng.integers(0, 3, 60)]}
    return pd.DataFrame({**noise, **said})


def test_patterns_mean_columns_whatever_their_capitals(tmp_path: Path) -> None:
    _crowd().to_csv(tmp_path / "w.csv", index=False)
    found = load(tmp_path / "w.csv", SourceOptions(annotators=("RATER_*",)))
    assert found.votes is not None
    assert found.votes.annotators == ("rater_dud", "rater_ann", "rater_bob", "Rater_cy")
    assert found.x.shape == (1,)
    both = pd.DataFrame({"x": [1, 2], "a": ["u", "v"], "A": ["u", "u"], "b": ["v", "v"]})
    both.to_csv(tmp_path / "b.csv", index=False)
    spelled = load(tmp_path / "b.csv", SourceOptions(annotators=("a", "b")))
    assert spelled.votes is not None
    assert spelled.votes.annotators == ("a", "b")


def test_votes_that_no_option_names_are_pointed_out(tmp_path: Path) -> None:
    _crowd().to_csv(tmp_path / "w.csv", index=False)
    found = load(tmp_path / "w.csv", SourceOptions(annotators=("rater_ann", "rater_bob")))
    told = found.about["warnings"]
    assert any(
        "column 'rater_dud' holds class names and is used as a feature; if these are labels of "
        "annotators, name all of them with --annotators" in note
        for note in told
    )
    assert found.about["left_out"] == {"Rater_cy": "nearly repeats the label"}
    assert any("labels of an annotator, add --annotators Rater_cy" in note for note in told)
    alone = load(tmp_path / "w.csv", SourceOptions(label_column="rater_ann"))
    assert any("'rater_dud' holds class names" in note for note in alone.about["warnings"])
    quiet = load(tmp_path / "w.csv", SourceOptions(annotators=("rater_*",)))
    assert not any("holds class names" in note for note in quiet.about["warnings"])


@pytest.mark.parametrize("where", ["table", "npz", "folder"])
def test_a_table_of_votes_without_rows_is_refused(tmp_path: Path, where: str) -> None:
    data = tmp_path / "data.csv"
    if where == "npz":
        data = tmp_path / "data.npz"
        np.savez(data, x=np.ones((4, 2)))
    elif where == "folder":
        data = tmp_path / "pictures"
        data.mkdir()
        Image.new("RGB", (8, 8)).save(data / "1.png")
    else:
        _wide().drop(columns=PEOPLE).to_csv(data, index=False)
    key = "file" if where == "folder" else "id"
    (tmp_path / "votes.csv").write_text(f"{key},annotator,label\n")
    options = SourceOptions(labels=tmp_path / "votes.csv", annotator_column="annotator")
    with pytest.raises(BadInput, match=r"expected votes in votes\.csv, but there is only a header"):
        load(data, options)


@pytest.mark.parametrize("option", ["group", "truth_key", "id_column", "text_column"])
def test_a_column_of_votes_has_no_other_part(tmp_path: Path, option: str) -> None:
    _wide().to_csv(tmp_path / "w.csv", index=False)
    wide = SourceOptions(annotators=("rater_*",), **{option: "rater_ann"})
    with pytest.raises(BadInput, match="but 'rater_ann' holds what annotators say; name another"):
        load(tmp_path / "w.csv", wide)
    _long().to_csv(tmp_path / "l.csv", index=False)
    for name in ("who", "label"):
        long = SourceOptions(annotator_column="who", **{option: name})
        with pytest.raises(BadInput, match=f"but '{name}' holds what annotators say"):
            load(tmp_path / "l.csv", long)


def test_labels_beside_the_votes_of_an_npz_are_noted(tmp_path: Path) -> None:
    arrays = {"x": np.ones((4, 2)), "votes": np.array(CODES), "y": np.array([0, 1, 0, 1])}
    np.savez(tmp_path / "v.npz", **arrays)
    found = load(tmp_path / "v.npz", SourceOptions())
    assert found.votes is not None
    assert any("'y' is not used" in note for note in found.about["warnings"])
    measured = load(tmp_path / "v.npz", SourceOptions(truth_key="y"))
    assert not any("'y' is not used" in note for note in measured.about["warnings"])
    np.savez(tmp_path / "two.npz", **arrays, annotators=np.array(["a", "a", "b"]))
    with pytest.raises(BadInput, match="'a' comes twice"):
        load(tmp_path / "two.npz", SourceOptions())


@pytest.mark.parametrize("kind", ["csv", "npz"])
def test_labels_of_people_that_no_option_names_are_refused_with_advice(
    tmp_path: Path, kind: str
) -> None:
    _wide().drop(columns=PEOPLE).to_csv(tmp_path / "d.csv", index=False)
    np.savez(tmp_path / "d.npz", x=np.ones((4, 2)))
    long = _long()[["id", "who", "label"]].rename(columns={"who": "annotator"})
    long.to_csv(tmp_path / "votes.csv", index=False)
    with pytest.raises(BadInput, match=r"who gave a label, .*; add --annotator-column annotator"):
        load(tmp_path / f"d.{kind}", SourceOptions(labels=tmp_path / "votes.csv"))
