"""The opcodes of plain data, with the arguments that follow them.

The standard library's `pickletools` knows how each argument is spelled. It reads, and runs nothing.
"""

from __future__ import annotations

import codecs
import io
import pickletools
from collections.abc import Iterator
from typing import Any

LARGEST_NUMBER = 2**127  # of whole numbers


class Refused(ValueError):
    """The file is damaged, or holds something other than plain data."""


CONSTANT = {"NEWTRUE": True, "NEWFALSE": False, "TUPLE1": 1, "TUPLE2": 2, "TUPLE3": 3}
KNOWN = {ord(op.code): op for op in pickletools.opcodes}


def operations(data: bytes, start: int = 0) -> Iterator[tuple[str, Any, int]]:
    """The operations of one saved object, up to its end: name, argument, where the next starts.

    Raises:
        Refused: If a byte is no opcode, or the data is cut short.
    """
    file = io.BytesIO(data)
    file.seek(start)
    while True:
        place, code = file.tell(), file.read(1)
        if not code:
            raise Refused("it is cut short")
        if code[0] not in KNOWN:
            raise Refused(f"byte {code[0]:#04x} at {place} is no part of plain data")
        found = KNOWN[code[0]]
        try:
            argument = _argument(found, file)
        except (ValueError, OverflowError) as error:  # Refused is a ValueError
            raise Refused(str(error)) from None
        yield found.name, argument, file.tell()
        if found.name == "STOP":
            return


def _argument(found: pickletools.OpcodeInfo, file: io.BytesIO) -> Any:
    if found.arg is None:
        return CONSTANT.get(found.name)
    if found.name == "GLOBAL":  # the module and its name
        return tuple(_line(file).decode("utf-8") for _ in range(2))
    if found.name == "STRING":
        return _quoted(_line(file))
    argument = found.arg.reader(file)
    if found.name.endswith("BINSTRING"):
        return argument.encode("latin-1")  # bytes of Python 2
    if isinstance(argument, int) and abs(argument) >= LARGEST_NUMBER:
        raise Refused("a number is too long")
    return bytes(argument) if isinstance(argument, bytearray) else argument


def _line(file: io.BytesIO) -> bytes:
    line = file.readline()
    if not line.endswith(b"\n"):
        raise Refused("a line is cut short")
    return line[:-1]


def _quoted(content: bytes) -> bytes:
    if len(content) < 2 or content[:1] not in (b"'", b'"') or content[-1:] != content[:1]:
        raise Refused("a string is not quoted")
    return bytes(codecs.escape_decode(content[1:-1])[0])
