"""From encoded pictures to inputs: choose a size, read every picture once, set the bad ones aside.

Every picture is decoded once before training, because a cut-off JPEG shows only then. If a folder
is given for it, their pixels go into a cache file, which later runs read. Pictures that fit into
memory stay there; others are read from that file, or decoded again whenever they are taken.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from PIL import Image

from labelproof.data.examples import Inputs, Resident
from labelproof.data.readers import pixel_cache as cache
from labelproof.data.readers.file_names import Blobs
from labelproof.data.readers.pixels import Size, Unreadable, check, choose_size, decode, measure
from labelproof.data.readers.reading_options import Progress, Reading
from labelproof.data.readers.streamed import (
    CachedImages,
    StreamedImages,
    each_picture,
    in_chunks,
)
from labelproof.errors import BadInput


@dataclass(frozen=True, kw_only=True)
class Pictures:
    """Readable pictures as inputs, which of all they are, and the list of those left out."""

    x: Inputs
    rows: npt.NDArray[np.int64]  # (N,) numbers of the readable ones among all
    sizes: npt.NDArray[np.int64] | None = None  # (N, 2) heights and widths before they are resized
    about: dict[str, Any] = field(default_factory=dict)


def prepare(blobs: Blobs, how: Reading, what: str = "the images") -> Pictures:
    """Read all pictures once and make inputs of them; `what` is how sentences call them."""
    options = how.options
    if not len(blobs):
        raise BadInput(f"expected images in {what}, but there are none; check the path")
    with warnings.catch_warnings():
        # Pillow warns of every large picture; those beyond the limit are listed instead
        warnings.simplefilter("ignore", Image.DecompressionBombWarning)
        sizes = _sizes(blobs) if how.like is None else None
        size = _size(sizes, how, what)
        x, rows, bad = _read_all(blobs, size, how)
    _check_share(bad, blobs, options.max_bad, what)
    about: dict[str, Any] = {
        "image_size": list(size),
        "storage": _storage(x),
        "unreadable": [{"path": blobs.name(row), "reason": why} for row, why in bad.items()],
    }
    return Pictures(x=x, rows=rows, sizes=None if sizes is None else sizes[rows], about=about)


def _size(sizes: npt.NDArray[np.int64] | None, how: Reading, what: str) -> Size:
    options, like = how.options, how.like
    if like is not None:
        if like.kind != "images":
            raise BadInput(
                f"expected vectors of shape {like.x.shape} as in the training data, but {what} are "
                "pictures; give data of the same kind"
            )
        return like.x.shape[0], like.x.shape[1]
    if options.image_size is not None:
        if not 1 <= options.image_size <= 4096:
            raise BadInput(f"expected an image size of 1 to 4096, but got {options.image_size}")
        return options.image_size, options.image_size
    assert sizes is not None
    known = sizes[sizes[:, 0] > 0]
    return choose_size(known) if len(known) else (1, 1)


def _sizes(blobs: Blobs) -> npt.NDArray[np.int64]:
    """Heights and widths (N, 2) of all pictures; 0 where one cannot be read."""
    sizes: list[Size] = []

    def keep(_start: int, found: Sequence[Size | None]) -> None:
        sizes.extend(size or (0, 0) for size in found)

    in_chunks(lambda row: _measure(blobs, row), len(blobs), keep)
    return np.array(sizes, dtype=np.int64)


def _measure(blobs: Blobs, row: int) -> Size | None:
    try:
        with blobs.open(row) as file:
            return measure(file)
    except (Unreadable, OSError):
        return None  # found again, with its reason, when it is decoded


def _read_all(
    blobs: Blobs, size: Size, how: Reading
) -> tuple[Inputs, npt.NDArray[np.int64], dict[int, str]]:
    """Inputs, the rows that are readable, and the reasons of those that are not."""
    options, progress = how.options, how.progress
    fits = len(blobs) * size[0] * size[1] * 3 <= options.memory_gb * 1e9
    if options.cache is not None:
        entry = cache.build(options.cache, blobs, size, progress)
        rows, hashes = _kept(len(blobs), entry.bad), entry.hashes
        cached = CachedImages(entry.pixels, rows, size, hashes[rows], entry.sums)
        x: Inputs = Resident(cached.take(torch.arange(len(rows)))) if fits else cached
        return x, rows, entry.bad
    if fits:
        return _into_memory(blobs, size, progress)
    hashes, bad = each_picture(blobs, lambda _, data: check(data), progress)
    rows = _kept(len(blobs), bad)
    return StreamedImages(blobs, rows, size, hashes[rows]), rows, bad


def _into_memory(
    blobs: Blobs, size: Size, progress: Progress | None
) -> tuple[Inputs, npt.NDArray[np.int64], dict[int, str]]:
    pixels = np.empty((len(blobs), *size, 3), np.uint8)

    def fill(row: int, data: bytes) -> None:
        pixels[row] = decode(data, size)

    _, bad = each_picture(blobs, fill, progress)
    rows = _kept(len(blobs), bad)
    return Resident(torch.from_numpy(pixels[rows] if bad else pixels)), rows, bad


def _kept(count: int, bad: dict[int, str]) -> npt.NDArray[np.int64]:
    return np.setdiff1d(np.arange(count), np.array(sorted(bad), dtype=np.int64))


def _check_share(bad: dict[int, str], blobs: Blobs, most: float, what: str) -> None:
    if len(bad) > most * len(blobs) or len(bad) == len(blobs):
        shown = "; ".join(f"{blobs.name(row)}: {why}" for row, why in list(bad.items())[:3])
        raise BadInput(
            f"expected at most {most:.1%} of the {len(blobs)} files of {what} to be unreadable, "
            f"but {len(bad)} are ({shown}); repair or remove them, or raise --max-bad"
        )


def _storage(x: Inputs) -> str:
    if x.resident:
        return "in memory"
    return "cached on disk" if isinstance(x, CachedImages) else "decoded when needed"
