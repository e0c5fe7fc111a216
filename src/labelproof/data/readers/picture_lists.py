"""Lists of pictures in memory, of PIL or as arrays of any size, as one array."""

from __future__ import annotations

from typing import Any

import numpy as np
from PIL import Image
from torch import Tensor

from labelproof.data.readers.pixels import Size, Unreadable, choose_size, fit
from labelproof.errors import BadInput


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
