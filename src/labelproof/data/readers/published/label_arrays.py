"""Published files of arrays and lists, read as plain data: nothing in them is ever run."""

from __future__ import annotations

import io
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from labelproof.data.plain_files import Refused, read_npy, read_plain, read_saved
from labelproof.data.plain_files.numpy_files import read_shape
from labelproof.errors import BadInput
from labelproof.files import read_regular

LARGEST = 2**31  # bytes of a published file


def plain(data: bytes, name: str) -> Any:
    """The dict, list or array that a pickle describes.

    Raises:
        BadInput: If it is damaged, or holds anything but plain data.
    """
    return _understood(read_plain, data, name)


def plain_file(path: Path) -> Any:
    """Plain data of a pickle file."""
    return plain(read_bytes(path), path.name)


def plain_torch(path: Path) -> Any:
    """Plain data, arrays or tensors of a file written by `torch.save`."""
    return _understood(read_saved, read_bytes(path), path.name)


def plain_npy(path: Path) -> Any:
    """An .npy file: a plain array, or the plain object that was saved in its stead."""
    data = read_bytes(path)
    file = io.BytesIO(data)
    try:
        if read_shape(file).dtype != np.dtype(object):
            return read_npy(data)
    except Refused as error:
        raise BadInput(
            f"expected an .npy file, but {path.name} could not be read ({error}); fetch it again"
        ) from None
    return plain(file.read(), path.name)


def read_bytes(path: Path) -> bytes:
    """All bytes of a published file."""
    return read_regular(path, LARGEST)


def _understood(read: Callable[[bytes], Any], data: bytes, name: str) -> Any:
    try:
        return read(data)
    except Refused as error:
        raise BadInput(
            f"expected plain arrays and lists in {name}, but it is damaged or would run code when "
            f"loaded, so it was refused ({' '.join(str(error).split())[:120]}); "
            "fetch the published file again"
        ) from None
