"""Makers of small files for the tests of sources."""

from __future__ import annotations

import numpy as np
from PIL import Image


def picture(seed: int, size: tuple[int, int] = (16, 16)) -> Image.Image:
    """A smooth random picture, so that JPEG keeps it nearly as it is; size is (width, height)."""
    small = np.random.default_rng(seed).integers(0, 256, (4, 4, 3), dtype=np.uint8)
    return Image.fromarray(small).resize(size, Image.Resampling.BILINEAR)
