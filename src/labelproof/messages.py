"""Phrases that many messages share: a hint at a misspelt name, and a list cut short."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Sequence


def closest(word: str, known: Iterable[str], cutoff: float = 0.6) -> str | None:
    """The known name that is spelt most like the word; None where none is like it."""
    near = difflib.get_close_matches(word, list(known), n=1, cutoff=cutoff)
    return near[0] if near else None


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """A hint for a misspelt name, or nothing; a sentence goes on after it."""
    near = closest(word, known)
    return f"did you mean {near!r}? " if near is not None else ""


def cut_short(first: Sequence[str], count: int) -> str:
    """The first few of `count` names, and how many others there are: `a, b and 3 more`."""
    more = f" and {count - len(first)} more" if count > len(first) else ""
    return ", ".join(first) + more
