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
from labelproof.data.plain_files.opcodes import Operation, Refused, operations

Flat = (bytes, str, int, float, type(None))
INNER = (Name, Number, Empty, Storage)
LONGEST_AGAIN = 16  # of a tuple that is used a second time: shapes are no longer


def read_plain(data: bytes, start: int = 0, storages: Storages | None = None) -> Any:
    """The object that a pickle describes from `start` on, if it is made of plain data.

    `storages` gives the bytes of tensors; without it a file with tensors is refused.

    Raises:
        Refused: With the reason as half a sentence.
    """
    machine = _Machine(storages, len(data))
    try:
        for operation in operations(data, start):
            if operation.name == "stop":
                return machine.result()
            machine.do(operation)
    except Refused:
        raise
    except (ValueError, TypeError, IndexError, KeyError, OverflowError, RuntimeError) as error:
        raise Refused(f"{type(error).__name__}: {error}") from None
    raise AssertionError("operations end with stop")


def end_of_plain(data: bytes, start: int) -> int:
    """Where the object that starts at `start` ends; nothing is built."""
    return max(operation.end for operation in operations(data, start))


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

    def do(self, operation: Operation) -> None:
        stack, argument = self._stack, operation.argument
        match operation.name:
            case "skip":
                pass
            case "value":
                stack.append(argument)
            case "mark":
                stack.append(_Mark())
            case "empty list" | "empty tuple" | "empty dict" as kind:
                stack.append([] if kind.endswith("list") else () if kind.endswith("tuple") else {})
            case "list":
                stack.append(self._marked())
            case "tuple":
                stack.append(tuple(self._marked()))
            case "tuple of":
                stack.append(tuple(self._pop() for _ in range(argument))[::-1])
            case "dict":
                items = self._marked()
                stack.append({})
                self._set(items)
            case "append":
                self._append([self._pop()])
            case "appends":
                self._append(self._marked())
            case "set item":
                value = self._pop()
                self._set([self._pop(), value])
            case "set items":
                self._set(self._marked())
            case "put":
                self._put(argument)
            case "put next":
                self._put(len(self._memo))
            case "get":
                stack.append(self._get(argument))
            case _:
                self._layout(operation.name, argument)

    def _layout(self, name: str, argument: Any) -> None:
        match name:
            case "name":
                self._stack.append(look_up(*argument))
            case "name from stack":
                last = self._pop()
                self._stack.append(look_up(self._pop(), last))
            case "storage":
                self._stack.append(storage(self._pop(), self._storages, self._known))
            case "layout":
                arguments = self._pop()
                built = build(self._pop(), arguments)
                self._room -= len(built) if isinstance(built, bytes) else 0
                if self._room < 0:
                    raise Refused("it holds more than its bytes could")
                self._stack.append(built)
            case "fill":
                state = self._pop()
                self._replace(self._pop(), state)

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
