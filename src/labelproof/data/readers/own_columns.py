"""Columns that labelproof writes beside a user's own: never features, in whatever source.

A model that learnt from them would judge the labels by what was found before.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable
from typing import Any

from labelproof.csv_files import OWN_COLUMNS

WRITTEN = "written by labelproof"


def own_columns(names: Iterable[Any]) -> list[Any]:
    """The names that labelproof gives to its columns."""
    return [name for name in names if isinstance(name, str) and name.startswith(OWN_COLUMNS)]


def own_note(names: Iterable[Any]) -> tuple[str, ...]:
    """What to say of columns that are not used; nothing where there are none."""
    shown = ", ".join(map(str, names))
    return (f"not used, because labelproof wrote these columns: {shown}",) if shown else ()


def without_own(x: Any) -> tuple[Any, tuple[str, ...]]:
    """Inputs without such columns, where x is a frame of pandas; and what to say of them."""
    pandas = sys.modules.get("pandas")
    if pandas is None or not isinstance(x, pandas.DataFrame):
        return x, ()
    found = own_columns(x.columns)
    return (x.drop(columns=found), own_note(found)) if found else (x, ())
