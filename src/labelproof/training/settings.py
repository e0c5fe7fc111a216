"""Hyper-parameters: ranges and meanings written as types, one check, and `--set name=value`.

A method is a `record` whose field types say what is allowed (`Share`, `Positive`, ...) and what
others need to know of a setting (`BatchSize`, `Epochs`, `NoiseRate`, `Open`). Ranges are checked
when one is made, `marked` finds the marks, and `read_changes` turns the user's text into values.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, fields
from types import UnionType
from typing import (
    Annotated,
    Any,
    Literal,
    TypeVar,
    Union,
    dataclass_transform,
    get_args,
    get_origin,
    get_type_hints,
)

from labelproof.errors import BadInput
from labelproof.messages import did_you_mean

T = TypeVar("T")


@dataclass(frozen=True)
class Range:
    """Smallest and largest allowed value; `open_low` excludes the smallest itself."""

    low: float
    high: float = math.inf
    open_low: bool = False

    def __contains__(self, value: float) -> bool:
        low = value > self.low if self.open_low else value >= self.low
        return low and value <= self.high and value < math.inf

    def __str__(self) -> str:
        if self.high == math.inf:
            return f"{'above' if self.open_low else 'at least'} {self.low:g}"
        return f"{'above' if self.open_low else 'from'} {self.low:g} to {self.high:g}"


@dataclass(frozen=True)
class Epochs:
    """Marks a setting that is counted in epochs, so that it follows the length of the run.

    A "ramp" shrinks in a shorter run. A "stage" also grows where few examples need more epochs. A
    "warm-up" does both, but it needs optimiser steps, whatever the epochs.
    """

    role: Literal["ramp", "stage", "warm-up"] = "ramp"


@dataclass(frozen=True)
class BatchSize:
    """Marks a setting that counts examples of a step; few examples in all get smaller batches."""

    of: Literal["all", "kept"] = "all"  # drawn from all examples, or from those with kept labels
    beside: str = ""  # the batch size that this one shrinks with, in proportion


@dataclass(frozen=True)
class NoiseRate:
    """Marks the share of wrong labels, where a method must be told it."""


@dataclass(frozen=True)
class Open:
    """Marks a number that may be left open: short trials choose it (`judging/tune.py`)."""

    candidates: tuple[float, ...]  # from small to large
    vectors: float  # the usual number for vectors,
    images: float  # and for images
    idle: tuple[str, str] | None = None  # (setting, value) with which the number has no effect


Count = Annotated[int, Range(1)]
Natural = Annotated[int, Range(0)]
NonNegative = Annotated[float, Range(0)]
Positive = Annotated[float, Range(0, open_low=True)]
Share = Annotated[float, Range(0, 1)]
PerStep = Annotated[int, Range(1), BatchSize()]
WarmUp = Annotated[int, Range(0), Epochs("warm-up")]
RampEpochs = Annotated[int, Range(0), Epochs()]
StageEpochs = Annotated[int, Range(0), Epochs("stage")]
WrongShare = Annotated[float, Range(0, 1), NoiseRate()]
AUTO = "auto"
# λ_u of the methods that train on unlabelled rows too; the numbers tried are those of DPC's paper
LambdaU = (
    NonNegative
    | Annotated[
        Literal["auto"],
        Open((0.0, 25.0, 50.0, 150.0), vectors=0.0, images=25.0, idle=("rows", "labelled")),
    ]
)


def nearest(word: str, known: list[str]) -> str:
    """A hint for a misspelt name: the closest known one, and all of them."""
    return f"{did_you_mean(word, known)}known: {', '.join(known)}"


def settings_of(record: Any) -> dict[str, Any]:
    """Every hyper-parameter of a record with its value, in order."""
    return {f.name: vars(record)[f.name] for f in fields(record)}


def marked(record: Any, kind: type[T]) -> dict[str, T]:
    """The settings of a record, or of its type, that carry a mark of this kind."""
    hints = get_type_hints(
        record if isinstance(record, type) else type(record), include_extras=True
    )
    return {
        name: mark
        for name, hint in hints.items()
        for option in _options(hint)
        for mark in _marks(option)
        if isinstance(mark, kind)
    }


@dataclass_transform(kw_only_default=True, frozen_default=True)
def record(kind: type[T]) -> type[T]:
    """Make a class of settings a frozen dataclass whose values are checked when one is made.

    A `__post_init__` of its own runs after that, for what its types cannot say.
    """
    more = vars(kind).get("__post_init__")

    def checked(self: Any) -> None:
        check(self)
        if more is not None:
            more(self)

    if more is not None or not hasattr(kind, "__post_init__"):
        kind.__post_init__ = checked  # type: ignore[attr-defined]
    return dataclass(frozen=True, kw_only=True)(kind)


def check(record: Any) -> None:
    """Refuse a value outside the range its type states, and a warm-up that has no end."""
    hints = get_type_hints(type(record), include_extras=True)
    for name, value in settings_of(record).items():
        _check_value(type(record).__name__, name, value, hints[name])
    early = [name for name, mark in marked(record, Epochs).items() if mark.role == "warm-up"]
    check_shorter(record, *early)


def check_shorter(record: Any, *names: str) -> None:
    """Refuse parts of a run that are not shorter than all of it."""
    for name in names:
        part = settings_of(record)[name]
        if part >= record.epochs:
            raise BadInput(
                f"{type(record).__name__}: {name} must be smaller than epochs, not {part} of "
                f"{record.epochs}."
            )


def read_changes(record: Any, changes: Mapping[str, str]) -> dict[str, Any]:
    """`changes` as values of the fields they name; unknown names and bad texts are refused."""
    hints = get_type_hints(type(record), include_extras=True)
    known = list(settings_of(record))
    parsed = {}
    for name, text in changes.items():
        if name not in known:
            kind = type(record).__name__
            raise BadInput(f"{kind} has no setting {name!r}; {nearest(name, known)}.")
        parsed[name] = _parse(name, text, hints[name])
    return parsed


def split_settings(pairs: list[str]) -> dict[str, str]:
    """`["lr=0.1", ...]` as a mapping."""
    out = {}
    for pair in pairs:
        name, equals, value = pair.partition("=")
        if name.strip() in out:
            raise BadInput(f"--set {name.strip()} was given twice; give it once.")
        if not equals or not name:
            raise BadInput(f"--set expects name=value, for example --set lr=0.02; got {pair!r}.")
        out[name.strip()] = value.strip()
    return out


def _plain(hint: Any) -> Any:
    return get_args(hint)[0] if get_origin(hint) is Annotated else hint


def _marks(hint: Any) -> tuple[Any, ...]:
    return get_args(hint)[1:] if get_origin(hint) is Annotated else ()


def _options(hint: Any) -> tuple[Any, ...]:
    """The alternatives of a union, or the type alone."""
    return get_args(hint) if get_origin(hint) in (Union, UnionType) else (hint,)


def _check_value(kind: str, name: str, value: Any, hint: Any) -> None:
    for option in _options(hint):
        limits = [m for m in _marks(option) if isinstance(m, Range)]
        plain = _plain(option)
        number = isinstance(value, (int, float)) and not isinstance(value, bool)
        if get_origin(plain) is Literal:
            if value in get_args(plain):
                return
        elif plain in (int, float):
            whole = plain is float or isinstance(value, int)
            if number and whole and all(value in limit for limit in limits):
                return
        elif isinstance(value, (tuple, list) if get_origin(plain) is tuple else plain):
            return
    wanted = " or ".join(_describe(option) for option in _options(hint))
    raise BadInput(f"{kind}: {name} must be {wanted}, not {value!r}.")


def _describe(option: Any) -> str:
    plain = _plain(option)
    if get_origin(plain) is Literal:
        return "one of " + ", ".join(map(repr, get_args(plain)))
    words = {int: "a whole number", float: "a number", bool: "true or false", str: "text"}
    limits = "".join(f" {m}" for m in _marks(option) if isinstance(m, Range))
    return words.get(plain, getattr(plain, "__name__", str(plain))) + limits


def _parse(name: str, text: str, hint: Any) -> Any:
    for option in _options(hint):
        plain = _plain(option)
        if get_origin(plain) is Literal:
            if text in map(str, get_args(plain)):
                return next(a for a in get_args(plain) if str(a) == text)
        elif plain is bool:
            if text.lower() in ("true", "false", "yes", "no", "1", "0"):
                return text.lower() in ("true", "yes", "1")
        elif plain is str:
            return text
        elif plain in (int, float):
            try:
                return plain(text)
            except ValueError:
                continue
        elif get_origin(plain) is tuple:
            item = get_args(plain)[0]
            return tuple(_parse(name, part, item) for part in text.split(",") if part)
    wanted = " or ".join(_describe(option) for option in _options(hint))
    raise BadInput(f"--set {name}: expected {wanted}, got {text!r}.")


def settled(kind: str, name: str, value: float | str) -> float:
    """The number that training needs where a setting could have been left open."""
    if isinstance(value, str):
        raise BadInput(
            f"{kind}: {name}={value!r} is chosen by labelproof before training starts; set a "
            "number to train without it."
        )
    return value
