"""Makers of small files for the tests of sources; every picture and table is written by its library."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

MakeFolder = Callable[..., Path]


def picture(seed: int, size: tuple[int, int] = (16, 16)) -> Image.Image:
    """A smooth random picture, so that JPEG keeps it nearly as it is; size is (width, height)."""
    small = np.random.default_rng(seed).integers(0, 256, (4, 4, 3), dtype=np.uint8)
    return Image.fromarray(small).resize(size, Image.Resampling.BILINEAR)


@pytest.fixture
def class_folder(tmp_path: Path) -> MakeFolder:
    """Make a folder with `per_class` pictures in a folder for each class."""

    def make(
        classes: tuple[str, ...] = ("cat", "dog"),
        per_class: int = 4,
        size: tuple[int, int] = (16, 16),
        name: str = "images",
        suffix: str = ".png",
    ) -> Path:
        root = tmp_path / name
        for place, label in enumerate(classes):
            (root / label).mkdir(parents=True)
            for number in range(per_class):
                picture(100 * place + number, size).save(root / label / f"{number}{suffix}")
        return root

    return make
