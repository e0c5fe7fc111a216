"""Files of torch.save: a zip archive with one plain object and a member for each tensor's bytes."""

from __future__ import annotations

import io
import struct
import zipfile
import zlib
from collections.abc import Mapping
from typing import Any

import torch

from labelproof.data.plain_files.machine import end_of_plain, read_plain
from labelproof.data.plain_files.opcodes import Refused

MOST_MEMBERS = 100_000
OLD_MAGIC = 0x1950A86A20F9469CFC6C


def read_saved(data: bytes) -> Any:
    """The plain object in a file of torch.save, in its present or its old form.

    Raises:
        Refused: If it is damaged (each member's checksum is verified) or holds anything else.
    """
    try:
        if data[:2] != b"PK":
            return _read_old(data)
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            return _read_members(archive, len(data))
    except (zipfile.BadZipFile, zlib.error, OSError, KeyError, NotImplementedError,
            RuntimeError, EOFError, ValueError, struct.error) as error:  # fmt: skip
        if isinstance(error, Refused):
            raise
        raise Refused(f"{type(error).__name__}: {error}") from None


def _read_members(archive: zipfile.ZipFile, largest: int) -> Any:
    members = {info.filename: info for info in archive.infolist()}
    if len(members) != len(archive.infolist()) or len(members) > MOST_MEMBERS:
        raise Refused("its members are not distinct")
    plain = [name for name in members if name.endswith("/data.pkl")]
    if len(plain) != 1 or any(info.compress_type for info in members.values()):
        raise Refused("it is no archive of torch.save")
    if sum(info.file_size for info in members.values()) > largest:
        raise Refused("its members are larger than the file")
    root = plain[0].removesuffix("data.pkl")

    read = archive.read
    order = f"{root}byteorder"
    if order in members and read(order) != b"little":
        raise Refused("it was written on a machine with another order of bytes")
    return read_plain(read(plain[0]), storages=lambda key, dtype, count: read(f"{root}data/{key}"))


def _read_old(data: bytes) -> Any:
    """Four objects (magic number, protocol, system, content), then the keys and the tensors."""
    starts = [0]
    for _ in range(4):
        starts.append(end_of_plain(data, starts[-1]))
    if read_plain(data, starts[0]) != OLD_MAGIC:
        raise Refused("it is no file of torch.save")
    sizes = _sizes(data, starts[3])
    places = _places(data, starts[4], sizes)

    def read(key: str, dtype: torch.dtype, count: int) -> bytes:
        return data[places[key] : places[key] + sizes[key]]

    return read_plain(data, starts[3], storages=read)


def _sizes(data: bytes, start: int) -> dict[str, int]:
    """Bytes of each tensor, by its key."""
    sizes: dict[str, int] = {}
    room = len(data)

    def note(key: str, dtype: torch.dtype, count: int) -> bytes:
        nonlocal room
        sizes[key] = count * dtype.itemsize
        room -= sizes[key]
        if room < 0:
            raise Refused("its tensors are larger than the file")
        return bytes(sizes[key])

    read_plain(data, start, storages=note)
    return sizes


def _places(data: bytes, start: int, sizes: Mapping[str, int]) -> dict[str, int]:
    """Where the bytes of each tensor begin; a count of numbers stands before them."""
    if start == len(data):
        return {}
    keys, place = read_plain(data, start), end_of_plain(data, start)
    if not isinstance(keys, list) or sorted(map(str, keys)) != sorted(sizes):
        raise Refused("its tensors are not those it names")
    places: dict[str, int] = {}
    for key in keys:
        places[key] = place + 8
        place += 8 + sizes[key]
    return places
