"""Arrays, tensors and frames in memory: which are images, which vectors, and what is neither."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from labelproof.data.examples import Examples, Inputs, in_memory
from labelproof.data.readers.frames import (
    are_texts,
    from_features,
    from_texts,
    needs_encoding,
    without_own,
)
from labelproof.data.readers.on_disk import OnDisk
from labelproof.data.readers.reading_options import EncodedRows, Reading, SourceOptions, Told
from labelproof.data.readers.vote_remarks import refuse_multilabel
from labelproof.data.readers.vote_table import annotator_names, encode_votes, is_votes, voted
from labelproof.errors import BadInput

NAMED = "save them under the name votes, or name their arrays or columns with --annotators"
CHUNK = 8192  # rows checked or converted at a time, so that no second copy of the data is needed


def from_arrays(
    x: Any,
    y: Any,
    *,
    truth: Any = None,
    ids: Sequence[str] | None = None,
    classes: Sequence[str] | None = None,
    x_test: Any = None,
    y_test: Any = None,
    like: Examples | None = None,
    name: str | None = None,
    about: dict[str, Any] | None = None,
    annotators: Sequence[str] | None = None,
    merge: bool = False,
    skip: bool = False,
) -> Examples:
    """Examples from arrays, tensors, lists or pandas columns.

    Args:
        x: Images, uint8 (N, H, W, 3), (N, H, W) grey or (N, 3, H, W), or floats in [0, 1] of such
            a shape; vectors (N, D) of any number type; or a frame of pandas, which is encoded like
            a table where it has words or gaps; or a list of texts.
        y: Given labels (N,), numbers or names; votes (N, A) of A annotators, blank, NaN or -1
            where one gave none; None for data to predict on, together with `like`.
        truth: True labels (N,), which only the audit sees.
        ids: A name per example.
        classes: Names of classes 0..C-1.
        x_test: Test inputs, as x.
        y_test: Test labels.
        like: The training data, when these arrays are to be tested or predicted on.
        name: How sentences call the data.
        about: What to record of the source.
        annotators: Names of the annotators, where y holds votes.
        merge: Whether class names that differ in capitals or blanks alone are one class.
        skip: Whether a blank label becomes -1 instead of a refusal; `labelled_only` drops these.

    Raises:
        BadInput: If an array cannot be used; the sentence says which and why.
    """
    name = name or _called(x, like)
    if y is None and like is None:
        advice = "give a label for each example"
        raise BadInput(f"expected labels with {name}, but there are none; {advice}")
    several = None
    if like is None and is_votes(y):
        people, what = annotators or annotator_names(y), f"the votes of {name}"
        several = encode_votes(
            y, people, truth=truth, names=classes, what=what, merge=merge, skip=skip
        )
        if annotators is None:
            refuse_multilabel(several.votes, several.classes, f"the labels of {name}", NAMED)
        y, classes = several.names(), several.classes
    names = [str(value) for value in ids] if ids is not None else None
    told = Told(given=y, truth=truth, names=classes, ids=names, what=f"the labels of {name}")
    options = SourceOptions(merge_labels=merge, skip_unlabelled=skip)
    train = _examples(x, told, Reading(options=options, like=like), name, about or {})
    if x_test is not None:
        test = from_arrays(x_test, y_test, like=train, name=f"the test part of {name}", merge=merge)
        train = replace(train, test=test)
    return voted(train, several) if several else train


def _called(x: Any, like: Examples | None) -> str:
    """How sentences call data that has no name."""
    if are_texts(x, like):
        return "the texts given"
    return "the frame given" if needs_encoding(x, like) else "the arrays given"


def _examples(x: Any, told: Told, how: Reading, name: str, about: Mapping[str, Any]) -> Examples:
    x, notes = without_own(x)
    if are_texts(x, how.like):
        rows, about = from_texts(x, how.like, name), {"source": "texts"}
    elif needs_encoding(x, how.like):
        rows, about = from_features(x, how.like, name), {"source": "frame"}
    else:
        rows = EncodedRows(inputs=as_inputs(x, what=f"'x' of {name}"))
        about = {"source": "arrays", **about}
        check_like(rows.inputs, how.like, name)
    size = len(rows.inputs)
    if told.ids is not None and len(told.ids) != size:
        raise BadInput(f"expected an id for each of {size} examples, but got {len(told.ids)}")
    coded = told.coded(size, how)
    warnings = [*(notes if how.like is None else ()), *coded.warnings]
    return told.examples(rows, coded, {**about, "warnings": warnings})


def as_inputs(x: Any, *, what: str) -> Inputs:
    """Images as uint8 (N, H, W, 3) or vectors (N, D), checked, in one tensor or left on disk."""
    if isinstance(x, OnDisk):
        check_blocks(x.blocks(), what)
        return x
    array = as_numpy(x, what)
    if array.ndim < 2 or 0 in array.shape[1:]:
        raise BadInput(
            f"expected one row or image per example in {what}, but its shape is {array.shape}; "
            "give vectors (N, D) or images (N, H, W, 3)"
        )
    if not len(array):
        raise BadInput(f"expected examples in {what}, but it is empty; give at least one row")
    data = as_vectors(array, what) if array.ndim == 2 else as_images(array, what)
    return in_memory(data)


def as_numpy(x: Any, what: str) -> npt.NDArray[Any]:
    """Numbers as a NumPy array; anything else is refused."""
    if isinstance(x, Tensor):
        x = x.detach().cpu()
        x = x.float() if x.dtype == torch.bfloat16 else x
        return np.asarray(x)
    try:
        array = np.asarray(x)
        if array.dtype == object:  # a frame of mixed number types comes as objects
            array = array.astype(np.float64)
    except (ValueError, TypeError) as error:
        raise BadInput(
            f"expected numbers of one shape per example in {what}, but {error}; "
            "encode words as numbers, or give a table (CSV or Parquet) instead"
        ) from None
    if array.dtype.kind not in "biuf":
        raise BadInput(
            f"expected numbers in {what}, but its type is {array.dtype}; "
            "encode words as numbers, or give a table (CSV or Parquet) instead"
        )
    return array


def as_vectors(array: npt.NDArray[Any], what: str) -> npt.NDArray[Any]:
    """Finite vectors; float16 and float32 stay as they are, everything else becomes float32."""
    if array.dtype not in (np.float16, np.float32):
        check_finite(array, what)  # before rounding, so that the sentence tells nan from overflow
        with np.errstate(over="ignore"):
            array = array.astype(np.float32)
    check_finite(array, what)
    return array


def check_finite(array: npt.NDArray[Any], what: str) -> None:
    """Refuse nan and infinity, saying how many and where first."""
    if array.dtype.kind != "f":
        return
    starts = range(0, len(array), CHUNK)
    check_blocks(((start, array[start : start + CHUNK]) for start in starts), what)


def check_blocks(blocks: Iterable[tuple[int, npt.NDArray[Any]]], what: str) -> None:
    """Refuse nan and infinity in blocks of rows, each with the number of its first row."""
    count, first = 0, None
    for start, block in blocks:
        bad = ~np.isfinite(block)
        if bad.any():
            count += int(bad.sum())
            first = first if first is not None else start + int(np.argmax(bad.any(axis=1)))
    if first is not None:
        raise BadInput(
            f"expected finite numbers in {what}, but {count} are missing or infinite, the first in "
            f"row {first} (counting from 0); fill them in or remove these rows"
        )


def as_images(array: npt.NDArray[Any], what: str) -> npt.NDArray[np.uint8]:
    """uint8 (N, H, W, 3) from grey, channel-first or float images."""
    array = _channels_last(array, what)
    pixels = array if array.dtype == np.uint8 else _to_bytes(array, what)
    return np.repeat(pixels, 3, axis=3) if pixels.shape[3] == 1 else pixels


def _channels_last(array: npt.NDArray[Any], what: str) -> npt.NDArray[Any]:
    if array.ndim == 3:
        return array[..., None]
    if array.ndim == 4 and array.shape[3] in (1, 3):
        return array
    if array.ndim == 4 and array.shape[1] in (1, 3):
        return np.moveaxis(array, 1, 3)
    raise BadInput(
        f"expected images (N, H, W, 3), (N, 3, H, W) or (N, H, W), or vectors (N, D), but {what} "
        f"has shape {array.shape}; convert it to one of these shapes"
    )


def _to_bytes(array: npt.NDArray[Any], what: str) -> npt.NDArray[np.uint8]:
    """Bytes from floats in [0, 1] or integers in 0..255, a chunk at a time."""
    floats = array.dtype.kind == "f"
    top = 1 if floats or array.dtype.kind == "b" else 255
    pixels = np.empty(array.shape, np.uint8)
    for start in range(0, len(array), CHUNK):
        part = array[start : start + CHUNK]
        if not ((part >= 0) & (part <= top)).all():  # nan fails too
            raise BadInput(
                f"expected images as bytes 0..255 or floats in [0, 1], but {what} is "
                f"{array.dtype} with values from {array.min():g} to {array.max():g}; "
                "give the images before normalising, or flatten other data to vectors (N, D)"
            )
        pixels[start : start + CHUNK] = np.rint(part * np.float32(255)) if top == 1 else part
    return pixels


def check_like(x: Inputs, like: Examples | None, name: str) -> None:
    """Refuse data of another shape than the training data's."""
    if like is not None and x.shape != like.x.shape:
        raise BadInput(
            f"expected examples of shape {like.x.shape} as in the training data, but {name} holds "
            f"shape {x.shape}; prepare both in the same way"
        )
