"""Votes as they come: each oddity is a note that is listed, or a sentence that refuses."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from labelproof.data.examples import Examples
from labelproof.data.readers import SourceOptions, load
from labelproof.errors import BadInput

SIZE = 8


def features() -> pd.DataFrame:
    rng = np.random.default_rng(0)
    names = [f"p{row}" for row in range(SIZE)]
    return pd.DataFrame({"id": names, "a": rng.normal(size=SIZE), "b": rng.normal(size=SIZE)})


def long(votes: list[tuple[str, str, str]]) -> pd.DataFrame:
    return pd.DataFrame(votes, columns=["id", "annotator", "label"])


def usual() -> list[tuple[str, str, str]]:
    """Ann, Bob and Cy on every example: cat and dog in turn."""
    names = ("cat", "dog")
    return [(f"p{i}", who, names[i % 2]) for i in range(SIZE) for who in ("ann", "bob", "cy")]


def read(folder: Path, votes: pd.DataFrame, data: pd.DataFrame | None = None, **more) -> Examples:
    (features() if data is None else data).to_csv(folder / "data.csv", index=False)
    votes.to_csv(folder / "votes.csv", index=False)
    options = {"annotator_column": "annotator", **more}
    return load(folder / "data.csv", SourceOptions(labels=folder / "votes.csv", **options))


def notes(found: Examples) -> str:
    return " | ".join(found.about["warnings"])


def test_votes_of_their_own_table_are_matched_by_id(tmp_path: Path) -> None:
    shuffled = long(usual()).sample(frac=1, random_state=0)
    found = read(tmp_path, shuffled)
    assert found.votes is not None
    assert found.votes.annotators == ("ann", "bob", "cy")
    assert found.votes.table.tolist() == [[i % 2] * 3 for i in range(SIZE)]
    assert found.classes == ("cat", "dog")
    assert found.x.shape == (2,)
    assert found.ids == [f"p{row}" for row in range(SIZE)]
    wide = long(usual()).pivot(index="id", columns="annotator", values="label").reset_index()
    again = read(tmp_path, wide, annotator_column=None, annotators=("ann", "bob", "cy"))
    assert again.votes is not None
    assert again.votes.table.equal(found.votes.table)


def test_votes_beside_an_npz_are_matched_by_id_or_number(tmp_path: Path) -> None:
    x = np.random.default_rng(0).normal(size=(SIZE, 3))
    for ids in ([f"p{row}" for row in range(SIZE)], None):
        arrays = {"x": x} if ids is None else {"x": x, "id": np.array(ids)}
        np.savez(tmp_path / "d.npz", **arrays)
        votes = [(name if ids else name[1:], who, label) for name, who, label in usual()]
        long(votes).to_csv(tmp_path / "v.csv", index=False)
        options = SourceOptions(labels=tmp_path / "v.csv", annotator_column="annotator")
        found = load(tmp_path / "d.npz", options)
        assert found.votes is not None
        assert found.votes.table.tolist() == [[i % 2] * 3 for i in range(SIZE)]


def test_an_annotator_with_one_label_is_noted(tmp_path: Path) -> None:
    found = read(tmp_path, long([*usual(), ("p0", "dora", "cat")]))
    assert "annotators with a single label, too few to tell how good they are (1): 'dora'" in notes(
        found
    )


def test_an_example_without_a_vote_is_refused(tmp_path: Path) -> None:
    few = long([vote for vote in usual() if vote[0] != "p3"])
    with pytest.raises(BadInput, match=r"at least one vote for every example.*1 has none.*row"):
        read(tmp_path, few)


def test_two_answers_of_one_person_are_noted_and_the_last_counts(tmp_path: Path) -> None:
    found = read(tmp_path, long([*usual(), ("p0", "ann", "dog")]))
    assert "for one example; the last one counts (1): 'ann on p0'" in notes(found)
    assert found.votes is not None
    assert found.votes.table[0].tolist() == [1, 0, 0]


def test_names_that_differ_by_case_are_noted(tmp_path: Path) -> None:
    extra = [("p0", "Ann", "cat"), ("p1", "Ann", "Dog"), ("p3", "Ann", "Dog")]
    found = notes(read(tmp_path, long([*usual(), *extra])))
    assert "annotators differ only by case and count as different people: 'Ann', 'ann'" in found
    assert found.count("'Dog' and 'dog'") == 1
    assert "some classes differ only in capitals or blanks" in found


def test_a_label_that_one_annotator_alone_uses_is_noted(tmp_path: Path) -> None:
    votes = [("p0", "cy", "owl") if vote[:2] == ("p0", "cy") else vote for vote in usual()]
    assert "classes that only one annotator uses (1): 'owl'" in notes(read(tmp_path, long(votes)))


def test_long_and_wide_tables_are_joined_or_refused_where_they_contradict(tmp_path: Path) -> None:
    labels = ["cat", "dog"] * (SIZE // 2)
    wide = features().assign(ann=labels, eve=labels)
    found = read(tmp_path, long(usual()), wide, annotators=("ann", "eve"))
    assert found.votes is not None
    assert found.votes.annotators == ("ann", "eve", "bob", "cy")
    wide.loc[2, "ann"] = "dog"
    with pytest.raises(
        BadInput, match=r"differ for annotator 'ann' on 1 of \d+ examples.*'p2': dog"
    ):
        read(tmp_path, long(usual()), wide, annotators=("ann", "eve"))


def test_votes_on_nothing_are_noted_or_refused(tmp_path: Path) -> None:
    found = read(tmp_path, long([*usual(), ("q1", "ann", "cat")]))
    assert "votes on 1 example that the data does not have: 'q1'" in notes(found)
    strange = long([(f"q{name}", who, label) for name, who, label in usual()])
    with pytest.raises(BadInput, match="none of its ids"):
        read(tmp_path, strange)
    with pytest.raises(BadInput, match="expected a column of ids"):
        read(tmp_path, strange.rename(columns={"id": "thing"}))
    with pytest.raises(BadInput, match="expected a column of labels"):
        read(tmp_path, long(usual()).rename(columns={"label": "said"}))
