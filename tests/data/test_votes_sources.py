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


def test_two_ways_to_say_labels_are_refused(tmp_path: Path) -> None:
    _wide().to_csv(tmp_path / "w.csv", index=False)
    with pytest.raises(BadInput, match="both --annotators and --label-column were given"):
        load(tmp_path / "w.csv", SourceOptions(annotators=("rater_*",), label_column="size"))
