"""A cache of decoded, resized pictures: one file of pixels, with hashes and exclusions.

An entry is a folder named by what went into it (pictures, their lengths and times, the size),
written aside and then renamed, so that a reader finds a whole entry or none.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

import numpy as np
import numpy.typing as npt

from labelproof.data.readers.picture_bytes import Blobs
from labelproof.data.readers.pixels import Size, Unreadable, decode
from labelproof.data.readers.reading_options import Progress
from labelproof.data.readers.streamed import Hashes, fingerprint, in_chunks, read
from labelproof.errors import BadInput

VERSION = 1  # to be raised whenever decoding or the layout changes


@dataclass(frozen=True, kw_only=True)
class Entry:
    """One cached set of pictures."""

    pixels: Path
    hashes: Hashes  # (N, 16), of bad ones too
    bad: dict[int, str]


def build(folder: Path, blobs: Blobs, size: Size, progress: Progress | None) -> Entry:
    """The entry of these pictures at this size, made now if there is none yet."""
    key = f"{VERSION}/{size}/{blobs.fingerprint()}"
    place = folder / hashlib.sha256(key.encode()).hexdigest()[:24]
    if not (place / "entry.json").is_file():
        try:
            _write(place, blobs, size, progress)
        except OSError as error:
            raise BadInput(
                f"expected to write decoded images below {folder}, but {error.strerror or error}; "
                "give another --cache folder, or none"
            ) from None
    return _read(place)


def _read(place: Path) -> Entry:
    facts = json.loads((place / "entry.json").read_text(encoding="utf-8"))
    bad = {int(row): why for row, why in facts["bad"].items()}
    return Entry(pixels=place / "pixels.bin", hashes=np.load(place / "hashes.npy"), bad=bad)


def _write(place: Path, blobs: Blobs, size: Size, progress: Progress | None) -> None:
    place.parent.mkdir(parents=True, exist_ok=True)
    aside = Path(tempfile.mkdtemp(prefix="making-", dir=place.parent))
    try:
        with open(aside / "pixels.bin", "wb") as file:
            hashes, bad = _decode_into(file, blobs, size, progress)
        np.save(aside / "hashes.npy", hashes)
        (aside / "entry.json").write_text(json.dumps({"bad": bad}), encoding="utf-8")
        if not place.exists():  # another run may have made the same entry meanwhile
            os.replace(aside, place)
    finally:
        shutil.rmtree(aside, ignore_errors=True)


def _decode_into(
    file: BinaryIO, blobs: Blobs, size: Size, progress: Progress | None
) -> tuple[Hashes, dict[int, str]]:
    """Write a row of pixels per picture, zeros for the bad ones."""
    hashes = np.zeros((len(blobs), 16), np.uint8)
    bad: dict[int, str] = {}

    def work(row: int) -> npt.NDArray[np.uint8] | str:
        try:
            data = read(blobs, row)
            hashes[row] = fingerprint(data)
            return decode(data, size)
        except Unreadable as error:
            return str(error)

    def store(start: int, results: Sequence[npt.NDArray[np.uint8] | str]) -> None:
        for row, result in enumerate(results, start):
            if isinstance(result, str):
                bad[row] = result
                result = np.zeros((*size, 3), np.uint8)
            file.write(result.tobytes())
        if progress is not None:
            progress(start + len(results), len(blobs))

    in_chunks(work, len(blobs), store)
    return hashes, bad
