"""Restricting an experiment to some of its rows or columns."""

from __future__ import annotations

from collections.abc import Sequence

from labelproof.errors import BadInput
from labelproof.training.settings import nearest


def chosen(
    what: str, asked: Sequence[str] | None, known: Sequence[str], usual: Sequence[str]
) -> tuple[str, ...]:
    """What the user asked for, or the usual; an unknown name is refused."""
    for name in asked or ():
        if name not in known:
            raise BadInput(f"there is no {what} {name!r} here; {nearest(name, list(known))}.")
    return tuple(dict.fromkeys(asked or usual))
