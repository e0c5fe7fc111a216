"""The stack on which the opcodes of plain data put their values."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from labelproof.data.plain_files.layouts import (
    Empty,
    Name,
    Number,
    Storage,
    Storages,
    build,
    fill,
    look_up,
    storage,
)
from labelproof.data.plain_files.opcodes import Refused, operations

Flat = (bytes, str, int, float, type(None))
INNER = (Name, Number, Empty, Storage)
VALUES = {
    *("INT", "BININT", "BININT1", "BININT2", "LONG", "LONG1", "FLOAT", "BINFLOAT"),
    *("NONE", "NEWTRUE", "NEWFALSE", "STRING", "BINSTRING", "SHORT_BINSTRING"),
    *("BINBYTES", "SHORT_BINBYTES", "BINBYTES8", "BYTEARRAY8"),
    *("UNICODE", "BINUNICODE", "SHORT_BINUNICODE", "BINUNICODE8"),
}
LONGEST_AGAIN = 16  # of a tuple that is used a second time: shapes are no longer


def read_plain(data: bytes, start: int = 0, storages: Storages | None = None) -> Any:
    """The object that a pickle describes from `start` on, if it is made of plain data.

    `storages` gives the bytes of tensors; without it a file with tensors is refused.

    Raises:
        Refused: With the reason as half a sentence.
    """
    machine = _Machine(storages, len(data))
    try:
        for name, argument, _ in operations(data, start):
            if name == "STOP":
                return machine.result()
            machine.do(name, argument)
    except Refused:
        raise
    except (ValueError, TypeError, IndexError, KeyError, OverflowError, RuntimeError) as error:
        raise Refused(f"{type(error).__name__}: {error}") from None
    raise AssertionError("operations end with stop")


def end_of_plain(data: bytes, start: int) -> int:
    """Where the object that starts at `start` ends; nothing is built."""
    return max(end for _, _, end in operations(data, start))


def _refuse_inner(items: Iterable[Any]) -> None:
    """Layouts are arguments of other layouts alone."""
    for item in items:
        if isinstance(item, INNER):
            raise Refused("a layout stands where plain data should be")
        if isinstance(item, tuple):
            _refuse_inner(item)


class _Mark:
    """Stands on the stack where a list, tuple or dict begins."""


class _Machine:
    def __init__(self, storages: Storages | None, room: int) -> None:
        self._stack: list[Any] = []
        self._memo: dict[int, Any] = {}
        self._places: dict[int, list[int]] = {}  # of layouts in the memo, by identity
        self._storages = storages
        self._known: dict[str, Storage] = {}
        self._room = room  # bytes that texts may still become: as many as the file has

    def result(self) -> Any:
        if len(self._stack) != 1 or isinstance(self._stack[0], _Mark):
            raise Refused("it ends before its object is whole")
        _refuse_inner(self._stack)
        return self._stack[0]

    def do(self, name: str, argument: Any) -> None:
        stack = self._stack
        match name:
            case "PROTO" | "FRAME":
                pass
            case _ if name in VALUES:
                stack.append(argument)
            case "MARK":
                stack.append(_Mark())
            case "EMPTY_LIST":
                stack.append([])
            case "EMPTY_TUPLE":
                stack.append(())
            case "EMPTY_DICT":
                stack.append({})
            case "LIST":
                stack.append(self._marked())
            case "TUPLE":
                stack.append(tuple(self._marked()))
            case "TUPLE1" | "TUPLE2" | "TUPLE3":
                stack.append(tuple(self._pop() for _ in range(argument))[::-1])
            case "DICT":
                items = self._marked()
                stack.append({})
                self._set(items)
            case "APPEND":
                self._append([self._pop()])
            case "APPENDS":
                self._append(self._marked())
            case "SETITEM":
                value = self._pop()
                self._set([self._pop(), value])
            case "SETITEMS":
                self._set(self._marked())
            case "PUT" | "BINPUT" | "LONG_BINPUT":
                self._put(argument)
            case "MEMOIZE":
                self._put(len(self._memo))
            case "GET" | "BINGET" | "LONG_BINGET":
                stack.append(self._get(argument))
            case _:
                self._layout(name, argument)

    def _layout(self, name: str, argument: Any) -> None:
        match name:
            case "GLOBAL":
                self._stack.append(look_up(*argument))
            case "STACK_GLOBAL":
                last = self._pop()
                self._stack.append(look_up(self._pop(), last))
            case "BINPERSID":
                self._stack.append(storage(self._pop(), self._storages, self._known))
            case "REDUCE":
                arguments = self._pop()
                built = build(self._pop(), arguments)
                self._room -= len(built) if isinstance(built, bytes) else 0
                if self._room < 0:
                    raise Refused("it holds more than its bytes could")
                self._stack.append(built)
            case "BUILD":
                state = self._pop()
                self._replace(self._pop(), state)
            case _:
                raise Refused(f"the opcode {name} is no part of plain data")

    def _replace(self, old: Any, state: Any) -> None:
        """A filled layout takes the place of the empty one, in the memo as well."""
        new = fill(old, state)
        for place in self._places.pop(id(old), ()):
            if self._memo[place] is old:
                self._memo[place] = new
        self._stack.append(new)

    def _pop(self) -> Any:
        if not self._stack or isinstance(self._stack[-1], _Mark):
            raise Refused("it takes more than it gave")
        return self._stack.pop()

    def _marked(self) -> list[Any]:
        """Everything above the last mark, which goes too."""
        for place in range(len(self._stack) - 1, -1, -1):
            if isinstance(self._stack[place], _Mark):
                items = self._stack[place + 1 :]
                del self._stack[place:]
                return items
        raise Refused("a list ends that never began")

    def _append(self, items: list[Any]) -> None:
        if not self._stack or not isinstance(self._stack[-1], list):
            raise Refused("something is added to what is no list")
        _refuse_inner(items)
        self._stack[-1].extend(items)

    def _set(self, items: list[Any]) -> None:
        if not self._stack or not isinstance(self._stack[-1], dict) or len(items) % 2:
            raise Refused("something is named in what is no table")
        _refuse_inner(items)
        for key, value in zip(items[::2], items[1::2], strict=True):
            if not isinstance(key, (str, bytes, int)):
                raise Refused("a key is neither text nor number")
            self._stack[-1][key] = value

    def _put(self, place: int) -> None:
        if not self._stack or place > 2 * len(self._memo) + 1000 or place < 0:
            raise Refused("impossible reference")
        value = self._memo[place] = self._stack[-1]
        if isinstance(value, (Number, Empty)):
            self._places.setdefault(id(value), []).append(place)

    def _get(self, place: int) -> Any:
        """A value again; no list or table, as a cycle or a swelling copy could hide there."""
        if place not in self._memo:
            raise Refused("impossible reference")
        value = self._memo[place]
        short = isinstance(value, tuple) and len(value) <= LONGEST_AGAIN
        flat = short and all(isinstance(item, Flat) for item in value)
        if isinstance(value, (list, dict, tuple)) and not flat:
            raise Refused("one list is used in two places")
        return value
