"""The opcodes of plain data: how each is spelled, and the argument that follows it."""

from __future__ import annotations

import codecs
import re
import struct
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

LONGEST_LINE = 4096  # of numbers and names; strings may be as long as the file
WHOLE = re.compile(rb"[+-]?[0-9]{1,40}")


class Refused(ValueError):
    """The file is damaged, or holds something other than plain data."""


@dataclass(frozen=True)
class Operation:
    """One opcode with its argument, and where the next one starts."""

    name: str
    argument: Any
    end: int


Reader = Callable[[bytes, int], tuple[Any, int]]


def _take(data: bytes, start: int, count: int) -> bytes:
    if count < 0 or start + count > len(data):
        raise Refused("it is cut short")
    return data[start : start + count]


def _fixed(form: str) -> Reader:
    size = struct.calcsize(form)

    def read(data: bytes, start: int) -> tuple[Any, int]:
        return struct.unpack(form, _take(data, start, size))[0], start + size

    return read


def _counted(form: str, decode: Callable[[bytes], Any]) -> Reader:
    count_of = _fixed(form)

    def read(data: bytes, start: int) -> tuple[Any, int]:
        count, begin = count_of(data, start)
        return decode(_take(data, begin, count)), begin + count

    return read


def _line(decode: Callable[[bytes], Any], longest: int | None = LONGEST_LINE) -> Reader:
    def read(data: bytes, start: int) -> tuple[Any, int]:
        end = data.find(b"\n", start, None if longest is None else start + longest)
        if end < 0:
            raise Refused("a line is cut short")
        return decode(data[start:end]), end + 1

    return read


def _nothing(data: bytes, start: int) -> tuple[None, int]:
    return None, start


def _same(content: bytes) -> bytes:
    return content


def _text(content: bytes) -> str:
    return content.decode("utf-8", "surrogatepass")


def _long(content: bytes) -> int:
    if len(content) > 16:
        raise Refused("a number is too long")
    return int.from_bytes(content, "little", signed=True)


def _whole(content: bytes) -> int | bool:
    if content in (b"00", b"01"):
        return content == b"01"
    content = content.removesuffix(b"L")
    if not WHOLE.fullmatch(content):
        raise Refused("a number is damaged")
    return int(content)


def _float(content: bytes) -> float:
    return float(content.decode("ascii"))


def _quoted(content: bytes) -> bytes:
    if len(content) < 2 or content[:1] not in (b"'", b'"') or content[-1:] != content[:1]:
        raise Refused("a string is not quoted")
    return bytes(codecs.escape_decode(content[1:-1])[0])


def _escaped(content: bytes) -> str:
    return content.decode("raw-unicode-escape")


def _name(data: bytes, start: int) -> tuple[tuple[str, str], int]:
    module, middle = _line(_text)(data, start)
    name, end = _line(_text)(data, middle)
    return (module, name), end


TABLE: dict[int, tuple[str, Reader]] = {
    0x80: ("skip", _fixed("<B")),  # protocol
    0x95: ("skip", _fixed("<Q")),  # frame
    ord("."): ("stop", _nothing),
    ord("("): ("mark", _nothing),
    ord("J"): ("value", _fixed("<i")),
    ord("K"): ("value", _fixed("<B")),
    ord("M"): ("value", _fixed("<H")),
    0x8A: ("value", _counted("<B", _long)),
    ord("I"): ("value", _line(_whole)),
    ord("L"): ("value", _line(_whole)),
    ord("G"): ("value", _fixed(">d")),
    ord("F"): ("value", _line(_float)),
    ord("N"): ("value", _nothing),
    0x88: ("value", lambda data, start: (True, start)),
    0x89: ("value", lambda data, start: (False, start)),
    ord("B"): ("value", _counted("<I", _same)),
    ord("C"): ("value", _counted("<B", _same)),
    0x8E: ("value", _counted("<Q", _same)),
    0x96: ("value", _counted("<Q", _same)),
    ord("T"): ("value", _counted("<i", _same)),
    ord("U"): ("value", _counted("<B", _same)),
    ord("S"): ("value", _line(_quoted, None)),
    ord("X"): ("value", _counted("<I", _text)),
    0x8C: ("value", _counted("<B", _text)),
    0x8D: ("value", _counted("<Q", _text)),
    ord("V"): ("value", _line(_escaped, None)),
    ord("]"): ("empty list", _nothing),
    ord("}"): ("empty dict", _nothing),
    ord(")"): ("empty tuple", _nothing),
    ord("l"): ("list", _nothing),
    ord("d"): ("dict", _nothing),
    ord("t"): ("tuple", _nothing),
    0x85: ("tuple of", lambda data, start: (1, start)),
    0x86: ("tuple of", lambda data, start: (2, start)),
    0x87: ("tuple of", lambda data, start: (3, start)),
    ord("a"): ("append", _nothing),
    ord("e"): ("appends", _nothing),
    ord("s"): ("set item", _nothing),
    ord("u"): ("set items", _nothing),
    ord("p"): ("put", _line(_whole)),
    ord("q"): ("put", _fixed("<B")),
    ord("r"): ("put", _fixed("<I")),
    0x94: ("put next", _nothing),
    ord("g"): ("get", _line(_whole)),
    ord("h"): ("get", _fixed("<B")),
    ord("j"): ("get", _fixed("<I")),
    ord("c"): ("name", _name),
    0x93: ("name from stack", _nothing),
    ord("R"): ("layout", _nothing),
    ord("b"): ("fill", _nothing),
    ord("Q"): ("storage", _nothing),
}


def operations(data: bytes, start: int = 0) -> Iterator[Operation]:
    """The operations of one saved object, up to its end.

    Raises:
        Refused: If an opcode is not one of plain data, or the data is cut short.
    """
    place = start
    while True:
        code = _take(data, place, 1)[0]
        if code not in TABLE:
            raise Refused(f"byte {code:#04x} at {place} is no part of plain data")
        name, read = TABLE[code]
        try:
            argument, place = read(data, place + 1)
        except (ValueError, OverflowError) as error:  # Refused is a ValueError
            raise Refused(str(error)) from None
        yield Operation(name, argument, place)
        if name == "stop":
            return
