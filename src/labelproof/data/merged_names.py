"""Names of classes that differ in capitals or blanks alone."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt


def merged(
    columns: Sequence[npt.NDArray[Any]], known: Sequence[str] | None = None
) -> list[npt.NDArray[Any]]:
    """Checked columns in which names that differ in capitals or blanks alone are spelled alike.

    The spelling is that of the known classes, or the most frequent one.
    """
    counts = Counter(str(value) for column in columns for value in column)
    spelling: dict[str, str] = {}
    for name in [*(known or ()), *(name for name, _ in counts.most_common())]:
        spelling.setdefault(_plain(str(name)), str(name))
    return [
        column
        if column.dtype.kind == "i"
        else np.array([spelling[_plain(str(value))] for value in column], dtype=object)
        for column in columns
    ]


def merged_names(
    columns: Sequence[npt.NDArray[Any]], names: Sequence[str]
) -> tuple[list[npt.NDArray[Any]], list[str]]:
    """As `merged`, where classes have names: numbers become names, names alike become one."""
    known = [str(name).strip() for name in names]
    spelled = [
        np.array([known[code] for code in column], dtype=object)
        if column.dtype.kind == "i" and len(column) and column.max() < len(known)
        else column
        for column in columns
    ]
    kept = {_plain(name): name for name in reversed(known)}
    first = [name for name in known if kept[_plain(name)] == name]
    return merged(spelled, first), list(dict.fromkeys(first))


def _plain(name: str) -> str:
    """A name without capitals and double blanks."""
    return " ".join(name.casefold().split())


def alike(classes: Sequence[str]) -> str:
    """Names of classes that differ in capitals or blanks alone, as a list; empty if none do."""
    found: dict[str, list[str]] = {}
    for name in classes:
        found.setdefault(_plain(name), []).append(name)
    same = [names for names in found.values() if len(names) > 1]
    more = f"; and {len(same) - 5} more" if len(same) > 5 else ""
    return "; ".join(" and ".join(map(repr, names)) for names in same[:5]) + more
