"""Frames of pandas and lists of texts given from Python: encoded like the rows of a table."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import torch

from labelproof.data.encoders.columns import TableEncoder, fit_table
from labelproof.data.encoders.texts import AnyTexts, fit_texts
from labelproof.data.examples import Examples, Resident
from labelproof.data.labels import encode_labels
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
    values = x.tolist() if hasattr(x, "tolist") else x
    return (
        isinstance(values, (list, tuple))
        and len(values) > 0
        and all(isinstance(value, str) or value is None for value in values)
        and any(isinstance(value, str) for value in values)
    )


def from_texts(
    x: Any,
    y: Any,
    *,
    truth: Any = None,
    ids: Sequence[str] | None = None,
    classes: Sequence[str] | None = None,
    x_test: Any = None,
    y_test: Any = None,
    like: Examples | None = None,
    name: str = "the texts given",
    merge: bool = False,
) -> Examples:
    """Examples of texts and labels beside them; arguments as in `from_arrays`."""
    texts = ["" if value is None else str(value) for value in x]
    encoder = like.encoder if like is not None else fit_texts(texts, "text", name)
    if not isinstance(encoder, AnyTexts):
        raise BadInput(
            f"expected data like the training data's, but {name} are texts; give the same kind"
        )
    coded = encode_labels(
        y,
        size=len(texts),
        truth=truth,
        names=classes,
        known=like.classes if like is not None else None,
        what=f"the labels of {name}",
        merge=merge,
    )
    train = Examples(
        x=Resident(torch.from_numpy(np.ascontiguousarray(encoder.transform(texts)))),
        labels=coded.labels,
        truth=coded.truth,
        ids=[str(value) for value in ids] if ids is not None else None,
        classes=coded.classes,
        captions=texts,
        encoder=encoder,
        about={"source": "texts", "encoding": encoder.describe(), "warnings": [*coded.warnings]},
    )
    if x_test is None:
        return train
    return replace(
        train, test=from_texts(x_test, y_test, like=train, name="the test texts", merge=merge)
    )


def from_features(
    x: Any,
    y: Any,
    *,
    truth: Any = None,
    ids: Sequence[str] | None = None,
    classes: Sequence[str] | None = None,
    x_test: Any = None,
    y_test: Any = None,
    like: Examples | None = None,
    name: str = "the frame given",
    merge: bool = False,
) -> Examples:
    """Examples of a frame of features and labels beside it; arguments as in `from_arrays`."""
    if not len(x):
        raise BadInput(f"expected rows in {name}, but it is empty; give at least one")
    encoder = like.encoder if like is not None else fit_table(x, name)
    if not isinstance(encoder, TableEncoder):
        raise BadInput(
            f"expected numbers like those of the training data, but {name} has words or gaps; "
            "prepare both in the same way"
        )
    coded = encode_labels(
        y,
        size=len(x),
        truth=truth,
        names=classes,
        known=like.classes if like is not None else None,
        what=f"the labels of {name}",
        merge=merge,
    )
    train = Examples(
        x=Resident(torch.from_numpy(np.ascontiguousarray(encoder.transform(x, name)))),
        labels=coded.labels,
        truth=coded.truth,
        ids=[str(value) for value in ids] if ids is not None else None,
        classes=coded.classes,
        encoder=encoder,
        about={
            "source": "frame",
            "encoding": encoder.describe(),
            "warnings": list(coded.warnings),
        },
    )
    if x_test is None:
        return train
    return replace(
        train, test=from_features(x_test, y_test, like=train, name="the test frame", merge=merge)
    )
