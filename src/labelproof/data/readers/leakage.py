"""Columns of a table that should not be features: copies of the label, and texts left lying."""

from __future__ import annotations

from shlex import quote
from typing import Any

import numpy as np
import numpy.typing as npt

from labelproof.data.encoders.columns import Frame, as_words, kind_of
from labelproof.data.readers.column_roles import holds_texts

LABEL_LIKE = ("label", "class", "target", "clean", "true", "truth", "gold", "correct", "given")
LEAST_ROWS = 20  # of fewer, agreement says little
NEARLY = 0.95  # share of equal rows from which a column of two values is a copy
HALF = 0.5  # the same for three classes and more, or for a column with a telling name


def copies(features: Frame, given: npt.NDArray[Any] | None) -> dict[str, str]:
    """Columns that nearly repeat the label, as a column of true labels does, each with a note.

    They are left out of the features: the labels would be judged by a copy of themselves.
    """
    if given is None or len(given) < LEAST_ROWS:
        return {}
    labels = _folded(given)
    classes = set(labels)
    found: dict[str, str] = {}
    for name in features.columns:
        share = _agreement(features[name], labels, classes)
        if share >= (HALF if len(classes) > 2 or _telling(str(name)) else NEARLY):
            found[name] = (
                f"the column {str(name)!r} equals the label in {share:.0%} of the rows and is left "
                f"out; if it holds true labels, add --truth-key {quote(str(name))} "
                "to measure against them"
            )
    return found


def unused_texts(features: Frame) -> dict[str, str]:
    """Columns of free text, which a table of features does not use, each with a note."""
    return {
        str(name): f"the column {str(name)!r} looks like text and is not used: to learn from it, "
        f"add --text-column {quote(str(name))}"
        for name in features.columns
        if kind_of(features[name]) == "category" and holds_texts(features[name])
    }


def _agreement(series: Any, labels: npt.NDArray[Any], classes: set[str]) -> float:
    """Share of rows in which a column says what the label says, if it speaks of classes at all."""
    if series.nunique() > len(classes) + 1:  # one more may stand for a gap
        return 0.0
    words = _folded(as_words(series))
    known = np.array([word in classes for word in words])
    if known.mean() < HALF or len(set(words[known])) < 2:
        return 0.0
    return float((words == labels)[known].mean())


def _folded(values: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Words in small letters; a whole number loses the point that a gap in its column gave it."""
    words = [str(value).strip().casefold() for value in values]
    return np.array([word.removesuffix(".0") for word in words], dtype=object)


def _telling(name: str) -> bool:
    return any(part in name.casefold() for part in LABEL_LIKE)
