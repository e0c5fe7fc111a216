"""A cache of decoded, resized pictures: one file of pixels, with hashes and exclusions.

An entry is a folder named by what went into it (pictures, their lengths and times, the size),
written aside and then renamed, so that a reader finds a whole entry or none. Each row of pixels has
a checksum, which is verified whenever the row is read; an entry that is damaged is made again.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from labelproof.data.plain_files import read_npy
from labelproof.data.readers.file_names import Blobs
from labelproof.data.readers.pixels import Size, decode
from labelproof.data.readers.reading_options import Progress
from labelproof.data.readers.streamed import Hashes, Sums, checksum, each_picture
from labelproof.errors import BadInput
from labelproof.files import sync_folder, write_json

VERSION = 2  # to be raised whenever decoding or the layout changes


@dataclass(frozen=True, kw_only=True)
class Entry:
    """One cached set of pictures."""

    pixels: Path
    hashes: Hashes  # (N, 16), of bad ones too
    sums: Sums  # (N,), of each row of pixels
    bad: dict[int, str]


def build(folder: Path, blobs: Blobs, size: Size, progress: Progress | None) -> Entry:
    """The entry of these pictures at this size, made now if there is none yet."""
    key = f"{VERSION}/{size}/{blobs.fingerprint()}"
    place = folder / hashlib.sha256(key.encode()).hexdigest()[:24]
    entry = _read(place, len(blobs), size)
    if entry is not None:
        return entry
    try:
        shutil.rmtree(place, ignore_errors=True)
        _write(place, blobs, size, progress)
        entry = _read(place, len(blobs), size)
    except OSError as error:
        raise BadInput(
            f"expected to write decoded images below {folder}, but {error.strerror or error}; "
            "give another --cache folder, or none"
        ) from None
    if entry is None:
        raise BadInput(f"expected to read back {place}, but it is damaged; give another --cache")
    return entry


def _read(place: Path, count: int, size: Size) -> Entry | None:
    """The entry, or None where there is no whole one."""
    try:
        facts = json.loads((place / "entry.json").read_text(encoding="utf-8"))
        saved = (place / "hashes.npy").read_bytes()
        whole = (place / "pixels.bin").stat().st_size == count * size[0] * size[1] * 3
        if not whole or facts["sha256"] != hashlib.sha256(saved).hexdigest():
            return None
        table = read_npy(saved)
        hashes, sums = table[:, :16], np.ascontiguousarray(table[:, 16:]).view("<u4")[:, 0]
        bad = {int(row): str(why) for row, why in facts["bad"].items()}
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return None
    return Entry(pixels=place / "pixels.bin", hashes=hashes, sums=sums, bad=bad)


def _write(place: Path, blobs: Blobs, size: Size, progress: Progress | None) -> None:
    place.parent.mkdir(parents=True, exist_ok=True)
    aside = Path(tempfile.mkdtemp(prefix="making-", dir=place.parent))
    try:
        with open(aside / "pixels.bin", "wb") as file:
            hashes, sums, bad = _decode_into(file, blobs, size, progress)
            file.flush()
            os.fsync(file.fileno())
        table = np.concatenate([hashes, sums.astype("<u4")[:, None].view(np.uint8)], axis=1)
        np.save(aside / "hashes.npy", table)
        saved = (aside / "hashes.npy").read_bytes()
        facts = {"bad": bad, "sha256": hashlib.sha256(saved).hexdigest()}
        write_json(aside / "entry.json", facts)
        if not place.exists():  # another run may have made the same entry meanwhile
            os.replace(aside, place)
            sync_folder(place.parent)
    finally:
        shutil.rmtree(aside, ignore_errors=True)


def _decode_into(
    file: BinaryIO, blobs: Blobs, size: Size, progress: Progress | None
) -> tuple[Hashes, Sums, dict[int, str]]:
    """Write a row of pixels per picture, zeros for the bad ones."""
    sums: list[int] = []

    def store(results: list[Any]) -> None:
        for result in results:
            pixels = np.zeros((*size, 3), np.uint8) if result is None else result
            sums.append(checksum(pixels))
            file.write(pixels.tobytes())

    hashes, bad = each_picture(blobs, lambda _, data: decode(data, size), progress, store)
    return hashes, np.array(sums, np.uint32), bad
