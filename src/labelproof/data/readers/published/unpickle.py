"""Published files that are pickles, read without running anything in them.

Only dicts, lists, numbers, strings and plain NumPy arrays come out. The few functions a pickled
array refers to are allowed by name; any other is refused before the file is read.
"""

from __future__ import annotations

import pickle
import pickletools
import zipfile
from io import BytesIO
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import torch

from labelproof.errors import BadInput

MULTIARRAY = ("numpy.core.multiarray", "numpy._core.multiarray")
NUMERIC = ("numpy.core.numeric", "numpy._core.numeric")
LARGEST = 2**31  # bytes of a published pickle or label file


def _latin(text: str, encoding: str) -> bytes:
    """Bytes as pickles of protocol 2 hold them: text in Latin-1."""
    if encoding not in ("latin1", "latin-1"):
        raise pickle.UnpicklingError(f"encoding {encoding}")
    return text.encode("latin-1")


def _from_buffer(
    data: bytes | bytearray, dtype: np.dtype[Any], shape: tuple[int, ...], order: str
) -> Any:
    """An array as pickles of protocol 5 hold it."""
    if order not in ("C", "F"):
        raise pickle.UnpicklingError(f"order {order}")
    return np.frombuffer(data, dtype).reshape(shape, order="C" if order == "C" else "F")


def _allowed() -> dict[tuple[str, str], Any]:
    rebuild = np.zeros(1).__reduce__()[0]
    scalar = np.float64(0).__reduce__()[0]
    table: dict[tuple[str, str], Any] = {
        ("numpy", "ndarray"): np.ndarray,
        ("numpy", "dtype"): np.dtype,
        ("_codecs", "encode"): _latin,
        ("collections", "OrderedDict"): dict,
        ("__builtin__", "set"): set,
        ("builtins", "set"): set,
    }
    for module in MULTIARRAY:
        table[module, "_reconstruct"] = rebuild
        table[module, "scalar"] = scalar
    for module in NUMERIC:
        table[module, "_frombuffer"] = _from_buffer
    return table


class _Plain(pickle.Unpickler):
    def __init__(self, file: BinaryIO) -> None:
        super().__init__(file, encoding="bytes")
        self._table = _allowed()

    def find_class(self, module: str, name: str) -> Any:
        if (module, name) not in self._table:
            raise pickle.UnpicklingError(f"it calls {module}.{name}")
        return self._table[module, name]

    def persistent_load(self, pid: Any) -> Any:
        raise pickle.UnpicklingError("it refers to data outside the pickle")


def plain(data: bytes, name: str, count: int = 1) -> Any:
    """The last of `count` pickled objects, made of plain data only.

    Raises:
        BadInput: If the data is damaged or would run code.
    """
    try:
        file = BytesIO(data)
        value = None
        for _ in range(count):
            _check_memo(file)
            value = _Plain(file).load()
        return value
    except Exception as error:  # a damaged pickle may fail in any way
        raise BadInput(
            f"expected plain arrays and lists in {name}, but it is damaged or would run code when "
            f"loaded, so it was refused ({' '.join(str(error).split())[:120] or repr(error)}); "
            "fetch the published file again"
        ) from None


def plain_file(path: Path) -> Any:
    """Plain data of a pickle file."""
    return plain(read_bytes(path), path.name)


def plain_torch(path: Path) -> Any:
    """Plain data or tensors of a file written by `torch.save`, in its present or its old form."""
    data = read_bytes(path)
    try:
        return torch.load(BytesIO(data), map_location="cpu", weights_only=True)
    except Exception:  # arrays of NumPy, or damage: the second reading tells
        pass
    if zipfile.is_zipfile(BytesIO(data)):
        return plain(_member(data, path.name), path.name)
    return plain(data, path.name, count=4)  # magic number, protocol, system, object


def plain_npy(path: Path) -> Any:
    """An .npy file: a plain array, or the plain object that was saved in its stead."""
    data = read_bytes(path)
    file = BytesIO(data)
    try:
        version = np.lib.format.read_magic(file)
        header = np.lib.format.read_array_header_1_0 if version[0] == 1 else (
            np.lib.format.read_array_header_2_0
        )  # fmt: skip
        dtype = header(file)[2]
        if not dtype.hasobject:
            return np.load(BytesIO(data), allow_pickle=False)
    except (ValueError, EOFError, OSError) as error:
        raise BadInput(
            f"expected an .npy file, but {path.name} could not be read ({error}); fetch it again"
        ) from None
    array = plain(file.read(), path.name)
    return array.item() if isinstance(array, np.ndarray) and array.shape == () else array


def read_bytes(path: Path) -> bytes:
    """All bytes of a published file."""
    try:
        if path.stat().st_size > LARGEST:
            raise BadInput(
                f"expected a published file of less than 2 GB, but {path.name} is larger"
            )
        return path.read_bytes()
    except OSError as error:
        raise BadInput(
            f"expected to read {path}, but {error.strerror or error}; check the file"
        ) from None


def _member(data: bytes, name: str) -> bytes:
    try:
        with zipfile.ZipFile(BytesIO(data)) as archive:
            member = next(n for n in archive.namelist() if n.endswith("data.pkl"))
            if archive.getinfo(member).file_size > LARGEST:
                raise ValueError("too large")
            return archive.read(member)
    except Exception as error:  # a damaged archive may fail in any way
        raise BadInput(
            f"expected a file written by torch.save, but {name} is none ({error!r}); fetch it again"
        ) from None


def _check_memo(file: BinaryIO) -> None:
    """Refuse places in the memo that would make the reader reserve huge tables."""
    start = file.tell()
    for number, (opcode, argument, _) in enumerate(pickletools.genops(file)):
        if opcode.name in ("PUT", "BINPUT", "LONG_BINPUT") and int(argument or 0) > number:
            raise pickle.UnpicklingError("impossible reference")
    file.seek(start)
