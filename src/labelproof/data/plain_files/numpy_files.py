"""NumPy's own .npy and .npz files: the header is checked before any memory is taken."""

from __future__ import annotations

import io
import math
import warnings
import zipfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]
HEADER = 10_000  # letters of a header
LARGEST = 2**36  # bytes of one array
MOST_PACKED = 1100  # times that zip can shrink data
LARGE = 2**30  # bytes of an array from which on it must not be packed tighter than real data is
TIGHT = 100  # times
LAST_LETTER, SURROGATES = 0x10FFFF, 0xD800 >> 11  # of Unicode; the latter are no letters
PLAIN = "biufcUSmM"  # kinds of types that hold no objects and no records


class Refused(ValueError):
    """The file is damaged, or holds something other than plain data."""


@dataclass(frozen=True, kw_only=True)
class Shape:
    """What a header says."""

    dtype: np.dtype[Any]
    shape: tuple[int, ...]
    fortran: bool

    @property
    def bytes(self) -> int:
        """Bytes that the numbers need."""
        return math.prod(self.shape) * self.dtype.itemsize


def read_npy(data: bytes) -> Array:
    """The array of an .npy file."""
    file = io.BytesIO(data)
    return _array(file, read_shape(file), len(data))


def read_npz(
    path: Path, wanted: Callable[[str], bool]
) -> tuple[dict[str, Array], dict[str, Shape]]:
    """The wanted arrays of an .npz, and what the header of every array says.

    Raises:
        Refused: If it is damaged, or a wanted array holds objects.
    """
    try:
        with zipfile.ZipFile(path) as archive:
            names = [n for n in archive.namelist() if n.endswith(".npy")]
            if len(set(names)) != len(names):
                raise Refused("two arrays have one name")
            arrays, shapes = {}, {}
            for name in names:
                key = name.removesuffix(".npy")
                with archive.open(name) as member:
                    shapes[key] = read_shape(member)
                    if wanted(key):
                        arrays[key] = _array(member, shapes[key], _room(archive, name))
            return arrays, shapes
    except Refused:
        raise
    except Exception as error:  # zip, zlib and encrypted members fail in a dozen ways
        raise Refused(_line(error)) from None


def read_shape(file: IO[bytes]) -> Shape:
    """The header of an .npy file."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            version = np.lib.format.read_magic(file)
            read = {
                1: np.lib.format.read_array_header_1_0,
                2: np.lib.format.read_array_header_2_0,
            }
            shape, fortran, dtype = read.get(version[0], read[2])(file, max_header_size=HEADER)
    except Exception as error:  # the header is Python text, which can fail to parse in any way
        raise Refused(_line(error)) from None
    if any(edge < 0 for edge in shape):
        raise Refused("a shape is negative")
    return Shape(dtype=dtype, shape=shape, fortran=fortran)


def _array(file: IO[bytes], found: Shape, room: int) -> Array:
    if found.dtype.hasobject:
        raise Refused("it holds pickled objects, which could run code when loaded")
    if found.dtype.kind not in PLAIN or (not found.dtype.isnative and found.dtype.kind in "mM"):
        raise Refused(f"it holds {found.dtype}, not plain numbers or strings")
    empty = 0 if found.dtype.itemsize else math.prod(found.shape)  # texts of no letter
    if max(found.bytes, empty) > min(room, LARGEST):
        raise Refused("its header asks for more than the file holds")
    data = file.read(found.bytes)
    if len(data) != found.bytes:
        raise Refused("it is cut short")
    if not found.dtype.itemsize:
        return np.zeros(found.shape, found.dtype)
    array = np.frombuffer(bytearray(data), found.dtype)
    if found.dtype.kind == "U":
        letters = np.frombuffer(data, np.dtype(np.uint32).newbyteorder(found.dtype.byteorder))
        if ((letters > LAST_LETTER) | ((letters >> 11) == SURROGATES)).any():
            raise Refused("its texts hold what is no Unicode")
    return array.reshape(found.shape, order="F" if found.fortran else "C")


def _room(archive: zipfile.ZipFile, name: str) -> int:
    """Bytes that a member can hold: what it says, but no more than its packed bytes allow.

    A small file can ask for all memory by packing zeros; no data worth reading does.
    """
    member = archive.getinfo(name)
    packed = member.compress_size + 64
    return min(member.file_size, packed * MOST_PACKED, max(LARGE, packed * TIGHT))


def _line(error: Exception) -> str:
    return " ".join(str(error).split())[:120] or type(error).__name__
