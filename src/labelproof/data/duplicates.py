"""Examples that are the same to the last bit, and those of them whose labels disagree.

Pictures on disk are compared by the bytes of their files, everything in memory by its values,
texts by their letters. Two equal inputs with different labels cannot both be right: they are
label errors by definition.
"""

from __future__ import annotations

import hashlib
from collections import defaultdict
from dataclasses import dataclass

import numpy as np
import torch

from labelproof.data.encoders.texts import AnyTexts
from labelproof.data.examples import Examples
from labelproof.data.readers.streamed import CachedImages, StreamedImages

CHUNK = 1024


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
    rows: dict[bytes, list[int]] = defaultdict(list)
    for row, key in enumerate(_keys(examples)):
        rows[key].append(row)
    groups = tuple(tuple(group) for group in rows.values() if len(group) > 1)
    labels = examples.labels
    if labels is None:
        return Duplicates(groups=groups, conflicting=())
    disagree = tuple(group for group in groups if len(np.unique(labels[list(group)])) > 1)
    return Duplicates(groups=groups, conflicting=disagree)


def _keys(examples: Examples) -> list[bytes]:
    """Sixteen bytes per row that are the same for the same input."""
    if isinstance(examples.x, StreamedImages | CachedImages):
        return [row.tobytes() for row in examples.x.hashes]
    if isinstance(examples.encoder, AnyTexts) and examples.captions:
        return [_hash(text.encode("utf-8", "surrogatepass")) for text in examples.captions]
    keys: list[bytes] = []
    for start in range(0, len(examples), CHUNK):
        index = torch.arange(start, min(start + CHUNK, len(examples)))
        keys.extend(_hash(row.tobytes()) for row in examples.x.take(index).numpy())
    return keys


def _hash(data: bytes) -> bytes:
    return hashlib.blake2b(data, digest_size=16).digest()
