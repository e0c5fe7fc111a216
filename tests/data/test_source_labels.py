"""Labels: what is refused, in which words, and how integers and names become codes."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from labelproof.data.labels import encode_labels
from labelproof.data.readers import check_labels, from_arrays
from labelproof.errors import BadInput


def encoded(values, **options):
    return encode_labels(values, size=len(values), **options)


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ([0, 1, -1], ["negative", "-1", "row 2"]),
        ([0, 1], ["3 examples", "hold 2"]),
        (["a", " ", "b"], ["1 is blank", "row 1"]),
        ([0.0, 1.0, float("nan")], ["1 is blank", "row 2"]),
        (["a", None, "b"], ["1 is blank", "row 1"]),
        ([0, 0.5, 1], ["fractions", "0.5", "row 1"]),
        ([1, 1, 1], ["at least two classes", "'1'"]),
        ([[0, 1], [1, 0], [1, 0]], ["shape is (3, 2)", "one-hot"]),
        ([1j, 2j, 3j], ["integers or strings"]),
    ],
)
def test_bad_labels_are_named_in_one_sentence(values, words):
    with pytest.raises(BadInput) as caught:
        encode_labels(values, size=3)
    for word in words:
        assert word in str(caught.value)
    assert "\n" not in str(caught.value)


def test_rows_are_counted_as_the_user_counts():
    with pytest.raises(BadInput, match="rows 3, 4, 5 and 1 more, counting the header as row 1"):
        check_labels(["a", "", "", "", ""], size=5, first_row=2)


@pytest.mark.parametrize(
    ("values", "classes", "codes"),
    [
        ([0, 1, 3], ("0", "1", "2", "3"), [0, 1, 3]),  # half of the range or more: codes stay
        ([3, 900, 20], ("3", "20", "900"), [0, 2, 1]),  # identifiers: numeric order
        (["10", "9", "10"], ("9", "10"), [1, 0, 1]),  # numbers written as text
        (["007", "010", "007"], ("007", "010"), [0, 1, 0]),  # but not those with leading zeros
        (["dog", "cat ", "dog"], ("cat", "dog"), [1, 0, 1]),
        ([1.0, 0.0, 1.0], ("0", "1"), [1, 0, 1]),
        ([True, False, True], ("False", "True"), [1, 0, 1]),
        ([b"x", b"y", b"x"], ("x", "y"), [0, 1, 0]),
        (["NA", "null", "nan"], ("NA", "nan", "null"), [0, 2, 1]),  # words, not gaps
    ],
)
def test_codes_and_names(values, classes, codes):
    result = encoded(values)
    assert result.classes == classes
    assert result.labels.tolist() == codes
    assert result.labels.dtype == np.int64


def test_tensors_columns_and_names():
    result = encoded(torch.tensor([[1], [0]]), names=["cat", "dog"])
    assert (result.classes, result.labels.tolist()) == (("cat", "dog"), [1, 0])


def test_truth_shares_the_classes_of_both():
    result = encoded(["a", "b", "a"], truth=["a", "c", "a"])
    assert result.classes == ("a", "b", "c")
    assert result.truth.tolist() == [0, 2, 0]


def test_truth_in_words_beside_numbers_is_refused():
    with pytest.raises(BadInput, match="numbers \\('0'\\) and the other words \\('cat'\\)"):
        encoded([0, 1], truth=["cat", "dog"])


def test_unknown_classes_of_a_test_set_are_named():
    with pytest.raises(BadInput, match="'bird' occurs too \\(row 1"):
        encoded(["cat", "bird"], known=("cat", "dog"))
    assert encoded(["dog"], known=("cat", "dog")).labels.tolist() == [1]
    assert encoded([1], known=("cat", "dog")).labels.tolist() == [
        1
    ]  # numbers where names are words
    assert encoded([7], known=("3", "7")).labels.tolist() == [
        1
    ]  # names first where they are numbers


def test_more_labels_than_names():
    with pytest.raises(BadInput, match="2 known classes"):
        encoded([0, 1, 2], names=["cat", "dog"])


def test_ids_mistaken_for_labels():
    with pytest.raises(BadInput, match="occurs only once"):
        encoded([f"img{k}" for k in range(20)])


def test_rare_classes_are_a_warning():
    examples = from_arrays(np.zeros((5, 2)), ["a", "a", "b", "b", "c"])
    assert examples.about["warnings"] == ["1 class has only one example: 'c'"]
    gap = from_arrays(np.zeros((4, 2)), [0, 0, 2, 2])
    assert gap.about["warnings"] == ["1 class has no example: '1'"]


def test_numbers_from_one_on_are_as_many_classes():
    found = encoded([1, 4, 2, 3, 1])
    assert found.classes == ("1", "2", "3", "4")
    assert found.labels.tolist() == [0, 3, 1, 2, 0]


def test_names_that_differ_in_capitals_or_blanks_are_merged_on_request():
    words = ["OK", "ok", "ok ", "bad", "ok", "Bad", "bad"]
    assert encoded(words).classes == ("Bad", "OK", "bad", "ok")
    as_one = encoded(words, merge=True)
    assert as_one.classes == ("bad", "ok")
    assert as_one.labels.tolist() == [1, 1, 1, 0, 1, 0, 0]
    assert not as_one.warnings
    later = encoded(["BAD", "Ok"], merge=True, known=as_one.classes)
    assert later.labels.tolist() == [0, 1]


def test_named_class_numbers_are_merged_on_request():
    as_one = encoded([0, 1, 2, 2, 1, 0], names=["ok", "bad", "OK"], merge=True)
    assert as_one.classes == ("ok", "bad")
    assert as_one.labels.tolist() == [0, 1, 0, 0, 1, 0]
    apart = encoded([0, 1, 2, 2, 1, 0], names=["ok", "bad", "OK"])
    assert "--merge-labels" in apart.warnings[0]


@pytest.mark.parametrize(
    ("names", "noted"),
    [
        (["a", "a|b", "b|c|a", "a|b"], True),
        (["a", "a,b", "b, c", "c"], True),
        (["x|y", "a", "b", "c", "a", "b"], False),  # few cells have it
        (["bird|eagle", "bird|owl", "fish|cod", "fish|eel"], False),  # a hierarchy
        (["a/b", "a/c", "b/c", "a/b"], False),
    ],
)
def test_several_labels_in_one_cell_are_noted(names: list[str], noted: bool) -> None:
    found = encode_labels(names * 5, size=5 * len(names))
    assert any("multi-label" in note for note in found.warnings) == noted
