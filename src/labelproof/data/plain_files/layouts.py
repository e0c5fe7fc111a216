"""What a saved array or tensor refers to, as layouts: records that hold numbers and are built here.

The names in a file are looked up in `NAMES`. Nothing of NumPy or PyTorch is called by a name from
a file: `build` and `fill` know each layout and check every number before an array is made.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from labelproof.data.plain_files.opcodes import Refused

DIMENSIONS = 8
LARGEST = 2**48  # numbers of an array
NUMBERS = {
    f"{kind}{size}"
    for kind, sizes in (("b", "1"), ("i", "1248"), ("u", "1248"), ("f", "248"))
    for size in sizes
}
BYTES_ONLY = "bytes"
STORAGES = {
    "FloatStorage": torch.float32,
    "DoubleStorage": torch.float64,
    "HalfStorage": torch.float16,
    "BFloat16Storage": torch.bfloat16,
    "LongStorage": torch.int64,
    "IntStorage": torch.int32,
    "ShortStorage": torch.int16,
    "CharStorage": torch.int8,
    "ByteStorage": torch.uint8,
    "BoolStorage": torch.bool,
}


@dataclass(frozen=True)
class Name:
    """A name in a file that stands for one of the layouts below."""

    role: str
    detail: str = ""


@dataclass(frozen=True)
class Number:
    """The type of an array's numbers; `code` is "O" for an array that wraps one plain object."""

    code: str
    order: str = "|"


@dataclass(frozen=True)
class Empty:
    """An array whose shape and bytes are still to come."""


@dataclass(frozen=True)
class Storage:
    """The numbers of a tensor, (count,); all tensors over one storage share them."""

    numbers: torch.Tensor


Storages = Callable[[str, torch.dtype, int], bytes]  # key, type and count -> bytes

NAMES: dict[tuple[str, str], Name] = {
    ("numpy", "ndarray"): Name("ndarray"),
    ("numpy", "dtype"): Name("number"),
    ("_codecs", "encode"): Name("latin"),
    ("collections", "OrderedDict"): Name("dict"),
    ("builtins", "bytes"): Name(BYTES_ONLY),
    ("__builtin__", "bytes"): Name(BYTES_ONLY),
    **{(f"numpy.{core}.multiarray", "_reconstruct"): Name("array") for core in ("core", "_core")},
    **{(f"numpy.{core}.multiarray", "scalar"): Name("scalar") for core in ("core", "_core")},
    **{(f"numpy.{core}.numeric", "_frombuffer"): Name("buffer") for core in ("core", "_core")},
    ("torch._utils", "_rebuild_tensor_v2"): Name("tensor"),
    **{("torch", name): Name("storage", name) for name in STORAGES},
}


def look_up(module: Any, name: Any) -> Name:
    """The layout that a name stands for."""
    if not isinstance(module, str) or not isinstance(name, str):
        raise Refused("a name is not text")
    if (module, name) not in NAMES:
        raise Refused(f"it calls {module}.{name}")
    return NAMES[module, name]


def build(name: Any, arguments: Any) -> Any:
    """The value of a layout with its arguments."""
    if not isinstance(name, Name) or not isinstance(arguments, tuple):
        raise Refused("something is called that is no layout")
    match name.role, arguments:
        case "number", (str() | bytes() as code, *flags) if flags in ([0, 1], [False, True]):
            return _number(code)
        case "latin", (str() as text, "latin1" | "latin-1" | b"latin1"):
            return text.encode("latin-1")
        case "dict", ():
            return {}
        case "bytes", ():
            return b""
        case "array", (Name(role="ndarray"), (0,), b"b" | "b"):
            return Empty()
        case "scalar", (Number() as number, bytes() as raw):
            return _array(number, (), raw, "C").item()
        case "buffer", (bytes() as raw, Number() as number, tuple() as shape, "C" | "F" as order):
            return _array(number, shape, raw, order)
        case "tensor", (Storage() as storage, offset, tuple() as size, tuple() as stride, *rest):
            if rest[1:] != [{}] or not isinstance(rest[0], bool):
                raise Refused("a tensor carries more than numbers")
            return _tensor(storage, offset, size, stride)
    raise Refused(f"the arguments of {name.role} are not those of plain data")


def fill(value: Any, state: Any) -> Any:
    """What a layout becomes once its contents have come."""
    match value, state:
        case Number(), (3, str() | bytes() as order, None, None, None, -1, -1, int()):
            return _ordered(value, order.decode("ascii") if isinstance(order, bytes) else order)
        case Empty(), (1, tuple() as shape, Number(code="O"), _, [one]) if shape in ((), (1,)):
            return one
        case Empty(), (1, tuple() as shape, Number() as number, bool() | 0 | 1 as fortran, raw):
            if not isinstance(raw, bytes):
                raise Refused("an array holds no bytes")
            return _array(number, shape, raw, "F" if fortran else "C")
        case dict(), dict() if set(state) == {"_metadata"}:
            return value  # which PyTorch puts beside the weights of a network
    raise Refused("the contents of a layout are not those of plain data")


def storage(identity: Any, storages: Storages | None, known: dict[str, Storage]) -> Storage:
    """The numbers that a tensor refers to; each of the file's storages is read once."""
    match identity:
        case ("storage", Name(role="storage", detail=kind), str() as key, str(), int() as count):
            pass
        case ("storage", Name(role="storage", detail=kind), str() as key, str(), count, None):
            pass
        case _:
            raise Refused("it refers to data outside the file")
    if storages is None or not _is_count(count):
        raise Refused("it refers to data outside the file")
    dtype = STORAGES[kind]
    if key not in known:
        data = storages(key, dtype, count)
        if len(data) != count * dtype.itemsize:
            raise Refused(f"a tensor needs {count * dtype.itemsize} bytes, not {len(data)}")
        empty = torch.empty(0, dtype=dtype)
        known[key] = Storage(torch.frombuffer(bytearray(data), dtype=dtype) if data else empty)
    if known[key].numbers.dtype != dtype or len(known[key].numbers) != count:
        raise Refused("one storage is described in two ways")
    return known[key]


def _number(code: str | bytes) -> Number:
    text = code.decode("ascii") if isinstance(code, bytes) else code
    if text not in NUMBERS and text not in ("O", "O8"):
        raise Refused(f"an array holds {text[:20]!r}, not plain numbers")
    return Number(text[:1] if text.startswith("O") else text)


def _ordered(number: Number, order: str) -> Number:
    if order not in ("<", ">", "|", "="):
        raise Refused("the order of bytes is damaged")
    return Number(number.code, order)


def _array(number: Number, shape: tuple[Any, ...], raw: bytes, order: str) -> Any:
    if number.code not in NUMBERS:
        raise Refused("an array holds objects, not plain numbers")
    dtype = np.dtype(f"{number.order}{number.code}")
    if not _is_shape(shape) or math.prod(shape) * dtype.itemsize != len(raw):
        raise Refused("the shape of an array does not fit its bytes")
    return np.frombuffer(raw, dtype).reshape(shape, order="F" if order == "F" else "C")


def _tensor(store: Storage, offset: Any, size: tuple[Any, ...], stride: tuple[Any, ...]) -> Any:
    if not (_is_shape(size) and _is_shape(stride) and len(size) == len(stride)):
        raise Refused("the shape of a tensor is damaged")
    last = sum((edge - 1) * step for edge, step in zip(size, stride, strict=True))
    count = math.prod(size)
    there = len(store.numbers)
    if not _is_count(offset) or (count and offset + last >= there) or count > there:
        raise Refused("a tensor reaches beyond its bytes")
    if not count:
        return torch.empty(size, dtype=store.numbers.dtype)
    return torch.as_strided(store.numbers, size, stride, offset)


def _is_count(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < LARGEST


def _is_shape(shape: tuple[Any, ...]) -> bool:
    return (
        len(shape) <= DIMENSIONS
        and all(_is_count(edge) for edge in shape)
        and math.prod(max(edge, 1) for edge in shape) < LARGEST  # even where one edge is 0
    )
