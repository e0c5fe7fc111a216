"""Frames of pandas and lists of texts given from Python: encoded like the rows of a table."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch

from labelproof.data.encoders.columns import TableEncoder, fit_table
from labelproof.data.encoders.texts import AnyTexts, as_text, fit_texts
from labelproof.data.examples import Examples, Inputs, Resident
from labelproof.data.labels import encode_labels, is_missing
from labelproof.errors import BadInput


def needs_encoding(x: Any, like: Examples | None = None) -> bool:
    """Whether x is a frame that is more than an array of numbers."""
    if not hasattr(x, "dtypes") or not hasattr(x, "columns"):
        return False
    if like is not None and isinstance(like.encoder, TableEncoder):
        return True
    return bool(any(kind.kind not in "biuf" for kind in x.dtypes) or x.isna().any(axis=None))


def are_texts(x: Any, like: Examples | None = None) -> bool:
    """Whether x is a list, array or column of texts."""
    if like is not None and isinstance(like.encoder, AnyTexts):
        return True
    if hasattr(x, "columns") or isinstance(x, (str, bytes)):
        return False
    if hasattr(x, "ndim") and x.ndim != 1:  # millions of numbers are not made a list to find out
        return False
    values = x.tolist() if hasattr(x, "tolist") else x
    return (
        isinstance(values, (list, tuple))
        and len(values) > 0
        and all(isinstance(value, str) or is_missing(value) for value in values)
        and any(isinstance(value, str) for value in values)
    )


@dataclass(frozen=True, kw_only=True)
class Handed:
    """Inputs and labels beside them, as Python hands them over; the fields are `from_arrays`'."""

    x: Any
    y: Any
    name: str  # how sentences call them
    truth: Any = None
    ids: Sequence[str] | None = None
    classes: Sequence[str] | None = None
    merge: bool = False
    skip: bool = False

    def labelled(self, x: Inputs, like: Examples | None, about: Mapping[str, Any]) -> Examples:
        """The inputs, once they are numbers, with their labels checked and coded."""
        if self.ids is not None and len(self.ids) != len(x):
            raise BadInput(f"expected an id for each of {len(x)} examples, but got {len(self.ids)}")
        coded = encode_labels(
            self.y,
            size=len(x),
            truth=self.truth,
            names=self.classes,
            known=like.classes if like is not None else None,
            what=f"the labels of {self.name}",
            merge=self.merge,
            skip=self.skip,
        )
        return Examples(
            x=x,
            labels=coded.labels,
            truth=coded.truth,
            ids=[str(value) for value in self.ids] if self.ids is not None else None,
            classes=coded.classes,
            about={**about, "warnings": list(coded.warnings)},
        )


def from_texts(given: Handed, like: Examples | None = None) -> Examples:
    """Examples of texts and labels beside them."""
    if isinstance(given.x, (str, bytes)) or getattr(given.x, "ndim", 1) != 1:
        kind = "one text" if isinstance(given.x, (str, bytes)) else "a table"
        raise BadInput(
            f"expected a list or a column of texts as in the training data, but this is {kind}; "
            "give a list with a text for each example."
        )
    texts = ["" if is_missing(value) else as_text(value) for value in given.x]
    encoder: AnyTexts
    if like is None:
        encoder, vectors = fit_texts(texts, "text", given.name)
    elif isinstance(like.encoder, AnyTexts):
        encoder, vectors = like.encoder, like.encoder.transform(texts)
    else:
        raise BadInput(
            f"expected data like the training data's, but {given.name} are texts; give the same "
            "kind"
        )
    x = Resident(torch.from_numpy(np.ascontiguousarray(vectors)))
    about = {"source": "texts", "encoding": encoder.describe()}
    return replace(given.labelled(x, like, about), captions=texts, encoder=encoder)


def from_features(given: Handed, like: Examples | None = None) -> Examples:
    """Examples of a frame of features and labels beside it."""
    if not len(given.x):
        raise BadInput(f"expected rows in {given.name}, but it is empty; give at least one")
    encoder = like.encoder if like is not None else fit_table(given.x, given.name)
    if not isinstance(encoder, TableEncoder):
        raise BadInput(
            f"expected numbers like those of the training data, but {given.name} has words or "
            "gaps; prepare both in the same way"
        )
    x = Resident(torch.from_numpy(np.ascontiguousarray(encoder.transform(given.x, given.name))))
    about = {"source": "frame", "encoding": encoder.describe()}
    return replace(given.labelled(x, like, about), encoder=encoder)
