"""Examples that are the same to the last bit, and those of them whose labels disagree.

Pictures on disk are compared by the bytes of their files, everything in memory by its values,
texts by their letters. Two equal inputs with different labels cannot both be right: they are
label errors by definition.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch

from labelproof.data.encoders.texts import AnyTexts
from labelproof.data.examples import Examples
from labelproof.data.readers.streamed import CachedImages, StreamedImages

CHUNK = 1024
MOST_SHARED = 0.05  # share of test examples that may equal one of training, without a word
Keys = npt.NDArray[np.uint64]


@dataclass(frozen=True, kw_only=True)
class Duplicates:
    """Groups of rows with the same input, in order of their first row."""

    groups: tuple[tuple[int, ...], ...]  # two or more rows each
    conflicting: tuple[tuple[int, ...], ...]  # those groups with more than one given label

    @property
    def extra(self) -> int:
        """How many rows repeat an earlier one."""
        return sum(len(group) - 1 for group in self.groups)


def find_duplicates(examples: Examples) -> Duplicates:
    """Group the rows of `examples` by their input; at most a chunk of inputs is in memory."""
    groups = _groups(_keys(examples))
    labels = examples.labels
    if labels is None:
        return Duplicates(groups=groups, conflicting=())
    disagree = tuple(group for group in groups if len(np.unique(labels[list(group)])) > 1)
    return Duplicates(groups=groups, conflicting=disagree)


def trained_on(train: Examples, test: Examples) -> tuple[str, ...]:
    """A sentence on test examples that equal training examples, if these are many.

    Rows of a table with few values repeat without any mistake. So the share must be more than
    twice that of training examples which repeat another.
    """
    pixels = _on_disk(train) != _on_disk(test)  # files and pixels cannot be compared
    known, asked = (_keys(part, pixels)[:, 0] for part in (train, test))  # 8 bytes say enough
    count = int(np.isin(asked, known).sum())
    by_chance = 1 - len(np.unique(known)) / len(train)
    if count <= max(MOST_SHARED, 2 * by_chance) * len(test):
        return ()
    return (
        f"{count} of {len(test)} test examples are also in the training data, so the test "
        "accuracy is too high; give test data that is not trained on",
    )


def _groups(keys: Keys) -> tuple[tuple[int, ...], ...]:
    """Rows with the same key, two or more each, in order of their first row."""
    order = np.lexsort((keys[:, 1], keys[:, 0]))  # stable: rows stay in order within a key
    same = np.zeros(len(order) + 1, dtype=bool)  # as the row before, in this order
    same[1:-1] = (keys[order[1:]] == keys[order[:-1]]).all(axis=1)
    starts = np.flatnonzero(~same[:-1] & same[1:])
    ends = np.flatnonzero(same[:-1] & ~same[1:]) + 1
    found = [tuple(order[a:b].tolist()) for a, b in zip(starts, ends, strict=True)]
    return tuple(sorted(found))


def _on_disk(examples: Examples) -> bool:
    return isinstance(examples.x, StreamedImages | CachedImages)


def _keys(examples: Examples, pixels: bool = False) -> Keys:
    """Sixteen bytes per row that are the same for the same input, as two numbers, (N, 2).

    With `pixels`, pictures on disk are compared by these, like those in memory.
    """
    if isinstance(examples.x, StreamedImages | CachedImages) and not pixels:
        return _numbers([row.tobytes() for row in examples.x.hashes])
    if isinstance(examples.encoder, AnyTexts) and examples.captions:
        return _numbers(
            [_hash(text.encode("utf-8", "surrogatepass")) for text in examples.captions]
        )
    keys = np.empty((len(examples), 2), np.uint64)
    for start in range(0, len(examples), CHUNK):
        index = torch.arange(start, min(start + CHUNK, len(examples)))
        rows = examples.x.take(index).numpy()
        keys[start : start + len(rows)] = _numbers([_hash(row.tobytes()) for row in rows])
    return keys


def _numbers(hashes: list[bytes]) -> Keys:
    return np.frombuffer(b"".join(hashes), np.uint64).reshape(-1, 2)


def _hash(data: bytes) -> bytes:
    return hashlib.blake2b(data, digest_size=16).digest()
