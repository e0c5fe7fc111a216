"""Reading votes: wide, long and as arrays; what is refused and what is noted."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
import torch

from labelproof.data.readers.vote_table import (
    encode_votes,
    is_votes,
    pick_annotators,
    widen,
)
from labelproof.errors import BadInput

PEOPLE = ("ann", "bob", "cy")


def test_words_with_blanks_become_codes() -> None:
    cells = np.array([["cat", "dog", None], ["dog", "", "dog"], [np.nan, "cat", "cat"]], object)
    found = encode_votes(cells, PEOPLE, truth=["cat", "dog", "dog"])
    assert found.classes == ("cat", "dog")
    assert found.votes.table.tolist() == [[0, 1, -1], [1, -1, 1], [-1, 0, 0]]
    assert found.labels.tolist() == [0, 1, 0]
    assert found.truth is not None
    assert found.truth.tolist() == [0, 1, 1]
    assert any("no clear majority" in note for note in found.votes.notes)


def test_numbers_with_minus_one_or_nan_for_blanks() -> None:
    whole = np.array([[0, 1, -1], [2, 2, 2], [1, 1, 0]])
    floats = np.where(whole < 0, np.nan, whole.astype(float))
    for cells in (whole, floats, torch.tensor(whole), pd.DataFrame(floats)):
        found = encode_votes(cells, PEOPLE)
        assert found.votes.table.tolist() == whole.tolist()
        assert found.classes == ("0", "1", "2")
    mixed = encode_votes(pd.DataFrame({"a": ["1", ""], "b": ["0", "1.0"]}), ("a", "b"))
    assert mixed.votes.table.tolist() == [[1, 0], [-1, 1]]


def test_soft_and_one_hot_targets_are_refused_with_advice() -> None:
    with pytest.raises(BadInput, match=r"soft targets.*argmax"):
        encode_votes(np.array([[0.2, 0.8], [0.5, 0.5]]), ("a", "b"))
    with pytest.raises(BadInput, match=r"one-hot rows.*argmax"):
        encode_votes(np.eye(3, dtype=int), PEOPLE)


def test_examples_and_annotators_without_votes_are_refused() -> None:
    with pytest.raises(BadInput, match=r"1 has none \(row 3, counting the header as row 1\)"):
        encode_votes(np.array([[0, 1], [-1, -1]]), ("a", "b"), first_row=2)
    with pytest.raises(BadInput, match="'b' gave none"):
        encode_votes(np.array([[0, -1], [1, -1]]), ("a", "b"))
    with pytest.raises(BadInput, match="at least two classes"):
        encode_votes(np.array([[1, 1], [1, 1]]), ("a", "b"))


def test_two_annotators_of_one_name_are_refused() -> None:
    with pytest.raises(BadInput, match="'a' comes twice; rename one"):
        encode_votes(np.array([[0, 1, 1], [1, 0, 0]]), ("a", "b", "a"))


@pytest.mark.parametrize("kind", [np.int64, np.float64, object])
def test_numbers_below_zero_other_than_the_blank_are_refused(kind: type) -> None:
    cells = np.array([[0, 1], [-1, 1], [1, -5], [0, 0]]).astype(kind)
    with pytest.raises(BadInput, match=r"others such as -5 \(row 4, .*write -1 or a blank"):
        encode_votes(cells, ("a", "b"), first_row=2)
    cells[2, 1] = 0
    assert encode_votes(cells, ("a", "b")).votes.table.tolist() == [[0, 1], [-1, 1], [1, 0], [0, 0]]


@pytest.mark.parametrize("kind", [np.float64, object])
def test_what_is_no_class_number_is_named_by_its_own_row(kind: type) -> None:
    cells = np.array([[0, 1], [np.nan, 1], [-1, 0], [1, np.inf], [0, 0]]).astype(kind)
    with pytest.raises(BadInput, match=r"others such as inf \(row 5, counting the header as row 1"):
        encode_votes(cells, ("a", "b"), first_row=2)


def test_numbered_columns_do_not_hide_the_others() -> None:
    header = [*(f"v{number}" for number in range(64)), "rater_a", "rater_b", "x1", "x2"]
    with pytest.raises(BadInput, match=r"has v0 to v63, rater_a, rater_b, x1, x2; correct"):
        pick_annotators(header, ["judge_*"], "t.csv")


def test_oddities_are_noted() -> None:
    cells = np.array(
        [["x", "x", ""], ["y", "y", ""], ["x", "X", "z"], ["y", "y", ""]], dtype=object
    )
    notes = " | ".join(encode_votes(cells, ("Ann", "ann", "cy")).votes.notes)
    assert "annotators with a single label" in notes
    assert "annotators differ only by case and count as different people: 'Ann', 'ann'" in notes
    assert "classes that only one annotator uses (2): 'X', 'z'" in notes


def test_long_becomes_wide_and_the_last_answer_counts() -> None:
    ids = np.array(["p1", "p1", "p2", "p2", "p2", "p1"], object)
    who = np.array(["ann", "bob", "ann", "ann", "bob", "bob"], object)
    label = np.array(["cat", "cat", "cat", "dog", "dog", "cat"], object)
    wide = widen(ids, who, label, what="votes.csv")
    assert wide.keys == ("p1", "p2")
    assert wide.annotators == ("ann", "bob")
    assert wide.cells.tolist() == [["cat", "cat"], ["dog", "dog"]]
    assert wide.first.tolist() == [0, 2]
    assert "votes that were given twice; they count once (1): 'bob on p1'" in wide.notes[0]
    assert "two different answers" in wide.notes[1]
    assert "'ann on p2'" in wide.notes[1]
    with pytest.raises(BadInput, match=r"an annotator in every row of votes.csv, but row 3"):
        widen(ids, np.array(["a", None, *who[2:]], object), label, what="votes.csv", first_row=2)


def test_three_answers_of_one_person_are_listed_once() -> None:
    label = np.array(["cat", "dog", "cat", "dog"], object)
    wide = widen(
        np.array(["p1"] * 4, object), np.array(["ann"] * 3 + ["bob"], object), label, what="votes"
    )
    assert len(wide.notes) == 1
    assert wide.notes[0].endswith("the last one counts (1): 'ann on p1'")
    assert wide.cells.tolist() == [["cat", "dog"]]


def test_annotators_by_name_and_pattern() -> None:
    header = ("id", "rater_2", "rater_1", "text")
    assert pick_annotators(header, ("rater_*",), "t.csv") == ("rater_2", "rater_1")
    assert pick_annotators(header, ("rater_1", "text"), "t.csv") == ("rater_1", "text")
    with pytest.raises(BadInput, match="expected a column 'who'"):
        pick_annotators(header, ("who",), "t.csv")
    with pytest.raises(BadInput, match="--label-column for a single column"):
        pick_annotators(header, ("rater_1",), "t.csv")


def test_two_dimensions_are_votes_one_column_is_not() -> None:
    assert is_votes(np.zeros((4, 2)))
    assert not is_votes(np.zeros((4, 1)))
    assert not is_votes([0, 1, 2])


def test_findings_are_no_annotators() -> None:
    header = ["id", "ann", "bob", "labelproof_given"]
    assert pick_annotators(header, ["*"], "votes.csv", ["id"]) == ("ann", "bob")
    named = ["ann", "labelproof_given"]
    assert pick_annotators(header, named, "votes.csv") == ("ann", "labelproof_given")
