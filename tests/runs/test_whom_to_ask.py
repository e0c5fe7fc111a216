"""Whom to ask about a label."""

from __future__ import annotations

import numpy as np
import pytest

from labelproof.judging.label_table import LabelRows, Names
from labelproof.runs.whom_to_ask import Advisers, expected_right

CLASSES = ("bat", "cat", "dog")


def knows(*right: float) -> np.ndarray:
    """Rows that name their own class as often as given, and the others equally often."""
    rest = (1 - np.array(right))[:, None] / 2
    matrix = np.repeat(rest, 3, axis=1)
    np.fill_diagonal(matrix, right)
    return matrix


def rows_of(*rows: tuple[int, int, float, float]) -> LabelRows:
    """Given and suggested class of each row, with their probabilities."""
    given, suggested, clean, sure = map(np.array, zip(*rows, strict=True))
    order = np.arange(len(rows))
    return LabelRows(
        index=order,
        ids=Names(None, order),
        given=given,
        suggested=suggested,
        p_clean=clean,
        p_suggested=sure,
        margin=np.zeros(len(rows)),
        suspect=np.ones(len(rows), dtype=bool),
    )


def people(said: dict[int, list[tuple[str, str, float]]], **matrices: np.ndarray) -> Advisers:
    return Advisers(
        names=list(matrices),
        confusion=np.stack(list(matrices.values())),
        classes=CLASSES,
        said=said,
    )


def test_after_an_answer_the_best_guess_is_right_as_often_as_by_hand() -> None:
    likely = np.array([0.5, 0.4, 0.1])
    perfect, blind = np.eye(3), np.full((3, 3), 1 / 3)
    always = np.tile([1.0, 0.0, 0.0], (3, 1))
    found = expected_right(likely, np.stack([perfect, blind, always]))
    assert found == pytest.approx([1.0, 0.5, 0.5])


def test_who_always_names_the_likely_class_is_not_asked() -> None:
    """Knowing the likely class best is not enough: it must be told from the other."""
    always = np.tile([0.98, 0.01, 0.01], (3, 1))
    found = people({}, eager=always, able=knows(0.8, 0.8, 0.8)).about(rows_of((0, 1, 0.5, 0.4)), 0)
    assert found.who == "able"
    assert found.why == "right on 80% of bat and 80% of cat"


def test_each_is_asked_about_what_they_know() -> None:
    one = people({}, ann=knows(0.9, 0.9, 0.4), bob=knows(0.4, 0.9, 0.9))
    rows = rows_of((0, 1, 0.5, 0.5), (2, 1, 0.5, 0.5))
    assert [one.about(rows, place).who for place in (0, 1)] == ["ann", "bob"]


def test_people_who_know_as_much_share_the_work() -> None:
    same = people({}, ann=knows(0.9, 0.9, 0.9), bob=knows(0.9, 0.9, 0.9), cy=knows(0.5, 0.5, 0.5))
    rows = rows_of(*[(0, 1, 0.5, 0.5)] * 6)
    asked = [same.take(rows, place).who for place in range(6)]
    assert sorted(asked) == ["ann"] * 3 + ["bob"] * 3


def test_who_has_labelled_it_comes_last_and_then_who_dissents() -> None:
    good, weak = knows(0.9, 0.9, 0.9), knows(0.6, 0.6, 0.6)
    rows = rows_of((0, 0, 0.7, 0.7))
    told = {0: [("ann", "bat", 0.7)]}
    assert people(told, ann=good, bob=weak).about(rows, 0).who == "bob"
    told[0].append(("bob", "cat", 0.2))
    found = people(told, ann=good, bob=weak).about(rows, 0)
    assert (found.who, found.why[:17]) == ("bob", "said cat before; ")
    told[0][1] = ("bob", "bat", 0.7)
    assert people(told, ann=good, bob=weak).about(rows, 0).who == "ann"
