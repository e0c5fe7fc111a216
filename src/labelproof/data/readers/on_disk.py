"""Vectors that stay in their file: rows are read when a batch needs them.

Rows are read, not mapped, so that a limit on memory holds for what is used and not for the file.
They keep their type on disk (float16 stays half as large) and become float32 in a batch.
"""

from __future__ import annotations

import hashlib
import os
import struct
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from labelproof.data.plain_files.numpy_files import Refused, Shape, read_shape

KEPT = {"float16": torch.float16, "float32": torch.float32}  # types that need no conversion
LOCAL_HEADER = struct.Struct("<4s22xHH")  # of a member: signature, length of name and of extras
BLOCK = 1 << 24  # bytes read at a time where all are read


@dataclass(frozen=True, kw_only=True)
class OnDisk:
    """Vectors (N, D) in a file, from a place on."""

    path: Path
    start: int  # bytes before the first row
    size: int  # N
    width: int  # D
    dtype: str  # float16 or float32
    resident: bool = False
    ndim: int = 2

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of one example."""
        return (self.width,)

    def __len__(self) -> int:
        return self.size

    def take(self, index: Tensor) -> Tensor:
        """Rows `index`, in that order, as float32."""
        return torch.from_numpy(self.rows(index.numpy())).float()

    def rows(self, index: npt.NDArray[np.int64]) -> npt.NDArray[Any]:
        """Rows as they are on disk; those that follow each other are read at once."""
        out = np.empty((len(index), self.width), self.dtype)
        ends = [*(np.flatnonzero(np.diff(index) != 1) + 1).tolist(), len(index)]
        begin, step = 0, self.width * out.itemsize
        handle = os.open(self.path, os.O_RDONLY)
        try:
            for end in ends if len(index) else ():
                _fill(handle, out[begin:end], self.start + int(index[begin]) * step)
                begin = end
        finally:
            os.close(handle)
        return out

    def blocks(self) -> Iterator[tuple[int, npt.NDArray[Any]]]:
        """All rows in order, some at a time, each with the number of its first row."""
        step = max(1, BLOCK // (self.width * np.dtype(self.dtype).itemsize))
        for begin in range(0, self.size, step):
            yield begin, self.rows(np.arange(begin, min(begin + step, self.size)))

    def digest(self) -> str:
        """The hash that these vectors have in memory too."""
        found = hashlib.sha256(f"{KEPT[self.dtype]}{(self.size, self.width)}".encode())
        for _, block in self.blocks():
            found.update(block.reshape(-1).data)
        return found.hexdigest()


def _fill(handle: int, rows: npt.NDArray[Any], place: int) -> None:
    """Read rows from a place of the file on."""
    target = rows.reshape(-1).view(np.uint8).data
    while len(target):
        count = os.preadv(handle, [target], place)
        if not count:
            raise OSError("the file of the vectors was cut short while it was read")
        target, place = target[count:], place + count


def left_on_disk(path: Path, key: str, most: float) -> OnDisk | None:
    """The vectors under a key of an .npz, if they take more bytes than `most` and can stay there.

    Compressed arrays, arrays of other types and arrays in another order have to be read whole.
    """
    try:
        with zipfile.ZipFile(path) as archive:
            member = archive.getinfo(f"{key}.npy")
            if member.compress_type != zipfile.ZIP_STORED or member.file_size <= most:
                return None
            with archive.open(member) as file:
                found = read_shape(file)
                before = file.tell()
    except (KeyError, OSError, Refused, zipfile.BadZipFile, NotImplementedError, RuntimeError):
        return None  # whoever reads it whole says what is wrong
    if not can_stay(found) or before + found.bytes != member.file_size:
        return None
    size, width = found.shape
    start = _data_start(path, member.header_offset) + before
    return OnDisk(path=path, start=start, size=size, width=width, dtype=found.dtype.name)


def can_stay(found: Shape) -> bool:
    """Whether rows of an array can be read from its file as they are."""
    plain = len(found.shape) == 2 and found.dtype.isnative and not found.fortran
    return plain and found.dtype.name in KEPT and 0 not in found.shape and "preadv" in dir(os)


def _data_start(path: Path, header: int) -> int:
    """Where a stored member's bytes begin: after its own header, name and extras."""
    with path.open("rb") as file:
        file.seek(header)
        _, name, extras = LOCAL_HEADER.unpack(file.read(LOCAL_HEADER.size))
    return header + LOCAL_HEADER.size + int(name) + int(extras)
