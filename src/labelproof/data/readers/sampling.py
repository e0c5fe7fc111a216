"""Reading only a few examples of a large set: for `plan`, which answers in seconds.

The few are spread evenly over the set. `Repeated` lets them stand for all.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, BinaryIO

import numpy as np
import numpy.typing as npt

from labelproof.data.examples import Examples, Repeated
from labelproof.data.readers.file_names import Blobs
from labelproof.data.readers.pixels import Unreadable

Rows = npt.NDArray[np.int64]
PICTURES = 64  # pictures that stand for a large set
QUICK = 512  # pictures that are read in full, if they are small
SMALL = 50e6  # bytes of pictures that are read in full
SAMPLE = "sample"  # in `about`: how many were read of how many


@dataclass(frozen=True)
class PickedBlobs:
    """Some of the encoded pictures."""

    blobs: Blobs
    rows: Sequence[int]

    def __len__(self) -> int:
        return len(self.rows)

    def open(self, index: int) -> BinaryIO:
        """The picture as a file."""
        return self.blobs.open(self.rows[index])

    def name(self, index: int) -> str:
        """How the picture is called."""
        return self.blobs.name(self.rows[index])

    def fingerprint(self) -> str:
        """A hash of all, and of which were picked."""
        return f"{self.blobs.fingerprint()}{list(self.rows)}"


def spread(count: int, most: int) -> Rows:
    """At most so many rows, evenly over all."""
    return np.unique(np.linspace(0, count - 1, min(count, most)).astype(np.int64))


def few_pictures(blobs: Blobs) -> PickedBlobs | None:
    """A few pictures in place of all; None where all are read quickly."""
    rows = spread(len(blobs), PICTURES).tolist()
    room = sum(_length(blobs, row) for row in rows) / max(1, len(rows)) * len(blobs)
    if len(blobs) <= PICTURES or (len(blobs) <= QUICK and room <= SMALL):
        return None
    return PickedBlobs(blobs, rows)


def _length(blobs: Blobs, row: int) -> int:
    try:
        with blobs.open(row) as file:
            return file.seek(0, 2)
    except (Unreadable, OSError):
        return 0


def seen(read: int, count: int) -> dict[str, Any]:
    """What `about` says of a part that was read."""
    return {SAMPLE: {"read": read, "of": count}}


def standing_for_all(examples: Examples) -> Examples:
    """Examples of a part, repeated until they are as many as the whole set has."""
    told = examples.about.get(SAMPLE)
    if told is None or len(examples) >= told["of"]:
        return examples
    rows = np.arange(told["of"]) * len(examples) // told["of"]
    given, truth = (
        None if labels is None else np.asarray(labels)[rows]
        for labels in (examples.labels, examples.truth)
    )
    return replace(
        examples,
        x=Repeated(examples.x, told["of"]),
        labels=given,
        truth=truth,
        ids=None,
        captions=None,
        votes=None,
    )
