"""Folders of pictures for the tests of sources."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from source_files import picture

MakeFolder = Callable[..., Path]


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
