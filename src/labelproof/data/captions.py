"""Rows of a table as a person is shown them: in short, or column by column."""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from typing import Any, overload

LONGEST_CELL = 400  # letters


class Captions(Sequence[str]):
    """Rows in short, written when asked for."""

    def __init__(self, frame: Any, show: Callable[[int], str], without: Sequence[str] = ()) -> None:
        """Keep what is needed to show rows: in short by `show`, or all columns but `without`."""
        self._rows: Sequence[int] = range(len(frame))
        self._show = show
        names = [name for name in frame.columns if name not in without]
        self._columns = {str(name): frame[name].to_numpy(dtype=object) for name in names}

    def __len__(self) -> int:
        return len(self._rows)

    @overload
    def __getitem__(self, row: int) -> str: ...
    @overload
    def __getitem__(self, row: slice) -> list[str]: ...
    def __getitem__(self, row: int | slice) -> str | list[str]:
        """One caption, or a list of them."""
        if isinstance(row, slice):
            return [self._show(place) for place in self._rows[row]]
        return self._show(self._rows[row])

    def part(self, rows: Sequence[int]) -> Captions:
        """Some of the rows."""
        fewer = copy.copy(self)
        fewer._rows = [self._rows[row] for row in rows]
        return fewer

    def cells(self, row: int) -> list[tuple[str, str]]:
        """The row with all its columns: name and value, a gap as nothing."""
        place = self._rows[row]
        return [(name, _shown(values[place])) for name, values in self._columns.items()]


def _shown(value: Any) -> str:
    if value is None or str(value) in ("nan", "NaT", "<NA>"):
        return ""
    text = f"{value:.6g}" if isinstance(value, float) else str(value)
    return text if len(text) <= LONGEST_CELL else text[: LONGEST_CELL - 1] + "…"
