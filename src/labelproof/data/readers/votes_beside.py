"""Votes in a table of their own beside the data: rows are matched by id.

The table is long (`id,annotator,label`, a row a vote) or wide (an id and a column a person).

Shapes: N examples, A annotators.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from labelproof.data.readers.delimited import (
    FILE_NAMES,
    LABEL_NAMES,
    layout,
    listed,
    pick,
    read_columns,
)
from labelproof.data.readers.file_names import printable
from labelproof.data.readers.reading_options import SourceOptions
from labelproof.data.readers.vote_table import Cells, is_blank, pick_annotators, widen
from labelproof.errors import BadInput

IDS = ("id", "index", "example", "row", *FILE_NAMES)
PEOPLE = ("annotator", "worker", "rater")
SHOWN = 3  # ids in a note


@dataclass(frozen=True, kw_only=True)
class Beside:
    """Votes (N, A) in the order of the examples."""

    annotators: tuple[str, ...]
    cells: Cells  # None where somebody did not vote
    notes: tuple[str, ...]


def votes_beside(table: Path, options: SourceOptions, ids: Sequence[str]) -> Beside:
    """Read the votes of a table for the examples with these ids.

    Raises:
        BadInput: If a column is missing, or no row is about an example of the data.
    """
    found, what = layout(table), printable(table.name)
    name = options.id_column if options.id_column in found.header else None
    key = pick(found.header, name, IDS, table, "--id-column")
    who = pick(found.header, options.annotator_column, PEOPLE, table, "--annotator-column")
    if key is None:
        raise BadInput(
            f"expected a column of ids in {what}, but its columns are {listed(found.header)}; "
            "name it with --id-column"
        )
    notes: tuple[str, ...] = ()
    if who is not None:
        label = pick(found.header, options.label_column, LABEL_NAMES, table, "--label-column")
        if label is None:
            raise BadInput(
                f"expected a column of labels in {what}, but its columns are "
                f"{listed(found.header)}; name it with --label-column"
            )
        columns = read_columns(table, found, [key, who, label])
        arrays = [np.array(column, dtype=object) for column in columns]
        wide = widen(*arrays, what=what, first_row=2)
        rows, people, cells, notes = wide.ids, wide.annotators, wide.cells, wide.notes
    else:
        people = pick_annotators(found.header, options.annotators or ("*",), what, (key,))
        named, *columns = read_columns(table, found, [key, *people])
        rows, cells = tuple(named), np.array(columns, dtype=object).T
    return _matched(rows, people, cells, notes, ids, what)


def _matched(
    rows: Sequence[str],
    people: tuple[str, ...],
    cells: Cells,
    notes: tuple[str, ...],
    ids: Sequence[str],
    what: str,
) -> Beside:
    place = {name: number for number, name in enumerate(ids)}
    strange = [name for name in rows if name.strip() not in place]
    if len(strange) == len(rows):
        raise BadInput(
            f"expected votes on the examples of the data in {what}, but none of its ids, such as "
            f"{printable(rows[0])!r}, is one of theirs, such as {printable(ids[0])!r}; name the "
            "columns of ids with --id-column"
        )
    table = np.full((len(ids), len(people)), None, dtype=object)
    for name, row in zip(rows, cells, strict=True):
        if name.strip() in place:
            table[place[name.strip()]] = row
    if strange:
        shown = ", ".join(repr(name) for name in strange[:SHOWN])
        more = " and more" if len(strange) > SHOWN else ""
        note = f"{what} has votes on {len(strange)} examples that the data does not have: "
        notes = (*notes, f"{note}{shown}{more}")
    return Beside(annotators=people, cells=table, notes=notes)


def together(one: Beside, other: Beside, ids: Sequence[str]) -> Beside:
    """Two tables of votes as one.

    Raises:
        BadInput: If somebody's votes differ between the two.
    """
    people = tuple(dict.fromkeys((*one.annotators, *other.annotators)))
    cells = np.full((len(ids), len(people)), None, dtype=object)
    for table in (one, other):
        for column, name in enumerate(table.annotators):
            _put(cells, people.index(name), table.cells[:, column], name, ids)
    return Beside(annotators=people, cells=cells, notes=(*one.notes, *other.notes))


def _put(cells: Cells, column: int, votes: Any, name: str, ids: Sequence[str]) -> None:
    differ = [
        row
        for row, vote in enumerate(votes)
        if not is_blank(vote)
        and not is_blank(cells[row, column])
        and str(cells[row, column]).strip() != str(vote).strip()
    ]
    if differ:
        first = differ[0]
        raise BadInput(
            f"expected the same votes in both tables, but they differ for annotator {name!r} on "
            f"{len(differ)} examples (the first is {printable(ids[first])!r}: "
            f"{cells[first, column]!s} and {votes[first]!s}); give one of the two tables"
        )
    for row, vote in enumerate(votes):
        if not is_blank(vote):
            cells[row, column] = vote
