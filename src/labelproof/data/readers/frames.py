"""What Python hands over beside arrays: frames of pandas, lists of texts, lists of pictures.

Frames and texts are encoded like the rows of a table. Columns that labelproof wrote beside a user's
own are never features: a model that learnt from them would judge the labels by what was found
before.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable
from typing import Any

import numpy as np
from PIL import Image
from torch import Tensor

from labelproof.csv_files import OWN_COLUMNS
from labelproof.data.encoders.columns import TableEncoder, fit_table
from labelproof.data.encoders.texts import AnyTexts, as_text, fit_texts
from labelproof.data.examples import Examples, in_memory
from labelproof.data.labels import is_missing
from labelproof.data.readers.pixels import Size, Unreadable, choose_size, fit
from labelproof.data.readers.reading_options import EncodedRows
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


def from_texts(x: Any, like: Examples | None, name: str) -> EncodedRows:
    """Texts as vectors."""
    if isinstance(x, (str, bytes)) or getattr(x, "ndim", 1) != 1:
        kind = "one text" if isinstance(x, (str, bytes)) else "a table"
        raise BadInput(
            f"expected a list or a column of texts as in the training data, but this is {kind}; "
            "give a list with a text for each example."
        )
    texts = ["" if is_missing(value) else as_text(value) for value in x]
    encoder: AnyTexts
    if like is None:
        encoder, vectors = fit_texts(texts, "text", name)
    elif isinstance(like.encoder, AnyTexts):
        encoder, vectors = like.encoder, like.encoder.transform(texts)
    else:
        raise BadInput(
            f"expected data like the training data's, but {name} are texts; give the same kind"
        )
    return EncodedRows(inputs=in_memory(vectors), captions=texts, encoder=encoder)


def from_features(x: Any, like: Examples | None, name: str) -> EncodedRows:
    """The rows of a frame of features as vectors."""
    if not len(x):
        raise BadInput(f"expected rows in {name}, but it is empty; give at least one")
    encoder = like.encoder if like is not None else fit_table(x, name)
    if not isinstance(encoder, TableEncoder):
        raise BadInput(
            f"expected numbers like those of the training data, but {name} has words or gaps; "
            "prepare both in the same way"
        )
    return EncodedRows(inputs=in_memory(encoder.transform(x, name)), encoder=encoder)


WRITTEN = "written by labelproof"


def own_columns(names: Iterable[Any]) -> list[Any]:
    """The names that labelproof gives to its columns."""
    return [name for name in names if isinstance(name, str) and name.startswith(OWN_COLUMNS)]


def own_note(names: Iterable[Any]) -> tuple[str, ...]:
    """What to say of columns that are not used; nothing where there are none."""
    shown = ", ".join(map(str, names))
    return (f"not used, because labelproof wrote these columns: {shown}",) if shown else ()


def without_own(x: Any) -> tuple[Any, tuple[str, ...]]:
    """Inputs without such columns, where x is a frame of pandas; and what to say of them."""
    pandas = sys.modules.get("pandas")
    if pandas is None or not isinstance(x, pandas.DataFrame):
        return x, ()
    found = own_columns(x.columns)
    return (x.drop(columns=found), own_note(found)) if found else (x, ())


def are_pictures(x: Any) -> bool:
    """Whether this is a list of pictures: of PIL, or of arrays (H, W) or (H, W, 3)."""
    return isinstance(x, list | tuple) and bool(x) and _is_picture(x[0])


def stacked(x: Any, size: Size | None = None) -> Any:
    """One array of pictures; of different sizes, they become squares as those of a folder do.

    `size` is that of the training data, where these are to be predicted on.
    """
    other = next((row for row, one in enumerate(x) if not _is_picture(one)), None)
    if other is not None:
        raise BadInput(
            f"expected only pictures in X, but example {other} is a {type(x[other]).__name__}; "
            "give pictures of PIL or arrays (H, W, 3)"
        )
    x = [one if isinstance(one, Image.Image) else _colours_last(one) for one in x]
    arrays = not any(isinstance(one, Image.Image) for one in x)
    shapes = {one.shape for one in x} if arrays else set()
    if len(shapes) == 1 and size in (None, x[0].shape[:2]):
        return np.stack(x)
    pictures = [_opened(one, row) for row, one in enumerate(x)]
    size = size or choose_size(np.array([p.size[::-1] for p in pictures]))
    try:
        return np.stack([fit(picture, size) for picture in pictures])
    except Unreadable as error:
        raise BadInput(f"expected pictures in X, but one cannot be used: {error}") from None


def _is_picture(one: Any) -> bool:
    if isinstance(one, Image.Image):
        return True
    return isinstance(one, np.ndarray | Tensor) and one.ndim in (2, 3)


def _colours_last(one: Any) -> Any:
    """The array as (H, W) or (H, W, channels), where channels came first or there is but one."""
    found = np.asarray(one)
    if found.ndim == 3 and found.shape[0] in (1, 3, 4) and found.shape[2] not in (1, 3, 4):
        found = found.transpose(1, 2, 0)
    return found[:, :, 0] if found.ndim == 3 and found.shape[2] == 1 else found


def _opened(one: Any, row: int) -> Image.Image:
    if isinstance(one, Image.Image):
        return one
    try:
        if 0 in one.shape:
            raise ValueError("it has no pixels")
        whole = str(one.dtype).removeprefix("torch.") == "uint8"
        return Image.fromarray(np.asarray(one, dtype=np.uint8 if whole else None))
    except (TypeError, ValueError) as error:
        raise BadInput(
            f"expected pictures of bytes (H, W, 3) in X, but example {row} has shape "
            f"{tuple(one.shape)} ({error}); convert it first"
        ) from None
