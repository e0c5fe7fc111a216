"""Makers of small files for the tests of sources."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from PIL import Image

from labelproof.errors import BadInput


def picture(seed: int, size: tuple[int, int] = (16, 16)) -> Image.Image:
    """A smooth random picture, so that JPEG keeps it nearly as it is; size is (width, height)."""
    small = np.random.default_rng(seed).integers(0, 256, (4, 4, 3), dtype=np.uint8)
    return Image.fromarray(small).resize(size, Image.Resampling.BILINEAR)


def only_bad_input(read: Callable[[], Any]) -> Any:
    """The answer of a reader, or None where it refused in one sentence; nothing else may happen."""
    sentence = ""
    try:
        return read()
    except BadInput as error:
        sentence = str(error)
    assert sentence
    assert "\n" not in sentence
    return None
