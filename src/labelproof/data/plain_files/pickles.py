"""Pickles and files of `torch.save` as plain data: nothing that a file names is looked up or run.

A pickle names functions to call. Here a name only ever stands for an entry of `NAMES`: our own
functions, which check the type, the shape and the bytes of an array before NumPy sees them. NumPy's
own would take objects or other memory for numbers. Any other name is refused.
"""

from __future__ import annotations

import io
import math
import pickle
import re
import warnings
import zipfile
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt
import torch

from labelproof.data.plain_files.numpy_files import Refused

DIMENSIONS = 8
LARGEST = 2**48  # numbers of an array
NUMBERS = {f"{kind}{size}" for kind, sizes in (("b", "1"), ("i", "1248"), ("u", "1248"),
           ("f", "248")) for size in sizes}  # fmt: skip
OBJECTS = ("O", "O8")  # of an array that wraps one plain object
ALLOWED = re.compile(r"GLOBAL (\S+)")  # what a refusal of PyTorch names
REASON = re.compile(r"WeightsUnpickler error: (.+?)( Check the documentation|$)")


class NumberType:
    """Stands for a type of NumPy, which a file spells as `u1` and the like."""

    __slots__ = ("code", "order")

    def __init__(self, code: Any, *flags: Any) -> None:
        self.code = code.decode("ascii") if isinstance(code, bytes) else code
        self.order = "|"
        if self.code not in (*NUMBERS, *OBJECTS) or list(flags) not in ([0, 1], []):
            raise Refused(f"an array holds {str(self.code)[:20]!r}, not plain numbers")

    def __setstate__(self, state: Any) -> None:
        version, order, *rest = state
        self.order = order.decode("ascii") if isinstance(order, bytes) else order
        if version != 3 or rest[:-1] != [None, None, None, -1, -1] or self.order not in "<>|=":
            raise Refused("the type of an array is damaged")

    def dtype(self, shape: Any, raw: Any) -> np.dtype[Any]:
        """The type itself, if an array of this shape fits its bytes."""
        if self.code in OBJECTS:
            if shape not in ((), (1,)) or not isinstance(raw, list) or len(raw) != 1:
                raise Refused("an array holds objects, not plain numbers")
            return np.dtype(object)
        found = np.dtype(f"{self.order}{self.code}")
        if not isinstance(raw, bytes) or not _is_shape(shape):
            raise Refused("the shape or the bytes of an array are damaged")
        if math.prod(shape) * found.itemsize != len(raw):
            raise Refused("the shape of an array does not fit its bytes")
        return found


def _is_shape(shape: Any) -> bool:
    return (
        isinstance(shape, tuple)
        and len(shape) <= DIMENSIONS
        and all(type(edge) is int and edge >= 0 for edge in shape)
        and math.prod(max(edge, 1) for edge in shape) < LARGEST  # even where one edge is 0
    )


class Array(np.ndarray[Any, Any]):
    """Stands for an array of NumPy, empty until its contents come."""

    def __new__(cls, *_: Any) -> Array:
        """Refuse a file that makes an array otherwise than by `reconstruct`."""
        raise Refused("an array is made in an unusual way")

    def __setstate__(self, state: Any) -> None:
        version, shape, kind, fortran, raw = state
        if version != 1 or not isinstance(kind, NumberType) or self.shape != (0,):
            raise Refused("an array is damaged")
        whole: Any = (1, shape, kind.dtype(shape, raw), bool(fortran), raw)
        super().__setstate__(whole)


def reconstruct(kind: Any, shape: Any, code: Any) -> Array:
    """Stands for `_reconstruct` of NumPy."""
    if kind is not Array or shape != (0,) or code not in (b"b", "b"):
        raise Refused("an array is made in an unusual way")
    empty: Array = np.ndarray.__new__(Array, (0,), np.uint8)
    return empty


def from_buffer(raw: Any, kind: Any, shape: Any, order: Any) -> npt.NDArray[Any]:
    """Stands for `_frombuffer` of NumPy."""
    dtype = kind.dtype(shape, bytes(raw))
    return np.frombuffer(raw, dtype).reshape(shape, order="F" if order == "F" else "C")


def scalar(kind: Any, raw: Any) -> Any:
    """Stands for `scalar` of NumPy."""
    return from_buffer(raw, kind, (), "C").item()


NAMES: dict[tuple[str, str], Any] = {
    ("numpy", "ndarray"): Array,
    ("numpy", "dtype"): NumberType,
    **{(f"numpy.{core}.multiarray", "_reconstruct"): reconstruct for core in ("core", "_core")},
    **{(f"numpy.{core}.multiarray", "scalar"): scalar for core in ("core", "_core")},
    **{(f"numpy.{core}.numeric", "_frombuffer"): from_buffer for core in ("core", "_core")},
}


class _Reader(pickle._Unpickler):
    """Python's own reader of pickles, with names of `NAMES` alone."""

    stack: list[Any]

    def __init__(self, data: bytes) -> None:
        super().__init__(io.BytesIO(data), encoding="bytes")  # texts of Python 2 stay bytes
        self._room = len(data)  # bytes that texts may still become: as many as the file has

    def find_class(self, module: str, name: str) -> Any:
        """What a name stands for."""
        if (module, name) == ("_codecs", "encode"):
            return self._encode
        if name == "bytes" and module in ("builtins", "__builtin__"):
            return bytes
        if (module, name) not in NAMES:
            raise Refused(f"it calls {module}.{name}")
        return NAMES[module, name]

    def get_extension(self, code: int) -> None:
        """Refuse numbers that stand for names."""
        raise Refused(f"it calls extension {code}")

    def _encode(self, text: str, _: Any) -> bytes:
        found = text.encode("latin-1")
        self._room -= len(found)
        if self._room < 0:
            raise Refused("it holds more than its bytes could")
        return found

    def load_build(self) -> None:
        """Give contents to what is made for them, and to nothing else."""
        state = self.stack.pop()
        if not isinstance(self.stack[-1], Array | NumberType):
            raise Refused("something is filled that is no array")
        self.stack[-1].__setstate__(state)

    dispatch: ClassVar[dict[int, Any]] = {
        **pickle._Unpickler.dispatch,
        pickle.BUILD[0]: load_build,
    }


def read_plain(data: bytes) -> Any:
    """The dict, list or array that a pickle describes; of an array of one object, that object.

    Raises:
        Refused: With the reason as half a sentence.
    """
    try:
        found = _Reader(data).load()
    except (Refused, MemoryError):
        raise
    except Exception as error:  # a damaged pickle fails in any way
        raise Refused(f"{type(error).__name__}: {error}") from None
    wraps = isinstance(found, np.ndarray) and found.dtype == object
    return found.item() if wraps else found


def read_saved(data: bytes) -> Any:
    """What `torch.save` wrote, on the CPU: tensors, arrays and plain values.

    Raises:
        Refused: If it is damaged (each member's checksum is verified) or holds anything else.
    """
    names: list[Any] = [(value, f"{module}.{name}") for (module, name), value in NAMES.items()]
    try:
        if data[:2] == b"PK":
            _check_archive(data)
        with warnings.catch_warnings(), torch.serialization.safe_globals(names):
            warnings.simplefilter("ignore")
            return torch.load(io.BytesIO(data), map_location="cpu", weights_only=True)
    except (Refused, MemoryError):
        raise
    except Exception as error:  # a damaged file fails in any way
        raise Refused(_why(error)) from None


def _check_archive(data: bytes) -> None:
    """Refuse damaged members, and packed ones: a small file could fill all memory with zeros."""
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        members = archive.infolist()
        if len({one.filename for one in members}) != len(members):
            raise Refused("its members are not distinct")
        if any(one.compress_type for one in members):
            raise Refused("it is no archive of torch.save")
        if sum(one.file_size for one in members) > len(data):
            raise Refused("its members are larger than the file")
        if damaged := archive.testzip():
            raise Refused(f"{damaged} is damaged")


def _why(error: Exception) -> str:
    """A refusal of PyTorch in a few words."""
    text = " ".join(str(error).split())
    if found := ALLOWED.search(text):
        return f"it calls {found[1]}"
    found = REASON.search(text)
    return (found[1] if found else f"{type(error).__name__}: {text}")[:120]
