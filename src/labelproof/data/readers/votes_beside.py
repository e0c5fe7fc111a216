"""Several labels an example: in the table itself, or beside the data, matched by id or file name.

Such a table is long (`id,annotator,label`, a row a vote) or wide (an id and a column a person).

Shapes: N examples, A annotators.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from labelproof.data.labels import is_missing
from labelproof.data.readers.column_roles import PEOPLE, Roles
from labelproof.data.readers.delimited import (
    FILE_NAMES,
    LABEL_NAMES,
    Layout,
    layout,
    pick,
    read_columns,
    required,
)
from labelproof.data.readers.file_names import printable
from labelproof.data.readers.reading_options import SourceOptions
from labelproof.data.readers.vote_table import (
    Cells,
    EncodedVotes,
    VoteRows,
    encode_votes,
    is_blank,
    pick_annotators,
    widen,
)
from labelproof.errors import BadInput

Columns = Mapping[str, npt.NDArray[Any]]  # by name, a cell a row
Rows = npt.NDArray[np.int64]
IDS = ("id", "index", "example", "row", *FILE_NAMES)
SHOWN = 3  # ids in a note


def votes_beside(table: Path, options: SourceOptions, ids: Sequence[str]) -> VoteRows:
    """Read the votes of a table for the examples with these ids."""
    found, what = layout(table), printable(table.name)
    name = options.id_column if options.id_column in found.header else None
    key = required(found.header, name, IDS, table, "--id-column", "ids")
    who = pick(found.header, options.annotator_column, PEOPLE, table, "--annotator-column")
    wanted = options.annotators or ("*",)
    people = () if who else pick_annotators(found.header, wanted, what, (key,))
    read = _read(table, found, options.label_column, key, who, people)
    return _matched(read, ids, what)


def _read(
    table: Path,
    found: Layout,
    label: str | None,
    key: str,
    who: str | None,
    people: tuple[str, ...],
) -> VoteRows:
    """The votes, a row each where `who` names annotators, else a column each."""
    if who is None:
        keys, *columns = _some_rows(table, found, [key, *people])
        return VoteRows(keys=keys, annotators=people, cells=np.array(columns, dtype=object).T)
    label = required(found.header, label, LABEL_NAMES, table, "--label-column", "labels")
    columns = _some_rows(table, found, [key, who, label])
    arrays = [np.array(column, dtype=object) for column in columns]
    return widen(*arrays, what=printable(table.name), first_row=2)


def _some_rows(table: Path, found: Layout, wanted: Sequence[str]) -> list[list[str]]:
    """The wanted columns of a table that has rows."""
    columns = read_columns(table, found, wanted)
    if not columns[0]:
        name = printable(table.name)
        raise BadInput(f"expected votes in {name}, but there is only a header; check the file")
    return columns


def _matched(read: VoteRows, ids: Sequence[str], what: str) -> VoteRows:
    rows, people, notes = read.keys, read.annotators, read.notes
    place = {name: number for number, name in enumerate(ids)}
    strange = [name for name in rows if name.strip() not in place]
    if len(strange) == len(rows):
        raise BadInput(
            f"expected votes on the examples of the data in {what}, but none of its ids (such as "
            f"{printable(rows[0])!r}) is an id of the data (such as {printable(ids[0])!r}); name "
            "the columns of ids with --id-column"
        )
    table = np.full((len(ids), len(people)), None, dtype=object)
    for name, row in zip(rows, read.cells, strict=True):
        if name.strip() in place:
            table[place[name.strip()]] = row
    if strange:
        shown = ", ".join(repr(name) for name in strange[:SHOWN])
        more = " and more" if len(strange) > SHOWN else ""
        examples = "1 example" if len(strange) == 1 else f"{len(strange)} examples"
        note = f"{what} has votes on {examples} that the data does not have: "
        notes = (*notes, f"{note}{shown}{more}")
    return VoteRows(annotators=people, cells=table, notes=notes)


def together(one: VoteRows, other: VoteRows, ids: Sequence[str]) -> VoteRows:
    """Two tables of votes as one."""
    people = tuple(dict.fromkeys((*one.annotators, *other.annotators)))
    cells = np.full((len(ids), len(people)), None, dtype=object)
    for table in (one, other):
        for column, name in enumerate(table.annotators):
            _put(cells, people.index(name), table.cells[:, column], name, ids)
    return VoteRows(annotators=people, cells=cells, notes=(*one.notes, *other.notes))


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
            f"{len(differ)} of {len(ids)} examples (the first is {printable(ids[first])!r}: "
            f"{cells[first, column]!s} and {votes[first]!s}); give one of the two tables"
        )
    for row, vote in enumerate(votes):
        if not is_blank(vote):
            cells[row, column] = vote


def cast_votes(
    columns: Columns,
    roles: Roles,
    options: SourceOptions,
    what: str,
    *,
    size: int,
    first_row: int,
    names: Sequence[str] | None,
) -> tuple[EncodedVotes, Rows | None]:
    """The votes of columns, and of the table of `--labels`; (N,) rows, where a row is a vote."""
    _check_apart(roles, what)
    if roles.annotator is not None:
        votes = _from_long(columns, roles, what, first_row)
    else:
        cells = np.empty((size, len(roles.annotators)), dtype=object)
        for place, name in enumerate(roles.annotators):
            cells[:, place] = columns[name]
        votes = VoteRows(annotators=roles.annotators, cells=cells)
    rows = votes.first
    if options.labels is not None:
        ids = columns[roles.id].tolist() if roles.id else range(size)
        votes = _with_beside(votes, options.labels, options, [str(name).strip() for name in ids])
    truth = columns[roles.truth] if roles.truth else None
    coded = encode_votes(
        votes.cells,
        votes.annotators,
        truth=truth if truth is None or rows is None else truth[rows],
        names=names,
        what=f"the votes of {what}",
        first_row=first_row,
        notes=votes.notes,
        merge=options.merge_labels,
        skip=options.skip_unlabelled,
    )
    return coded, rows


def _check_apart(roles: Roles, what: str) -> None:
    """Refuse a column of votes that another option names too: it is no column of the examples."""
    votes = (*roles.annotators, *((roles.annotator, roles.label) if roles.annotator else ()))
    for option, name in (
        ("--truth-key", roles.truth),
        ("--id-column", roles.id),
        ("--file-column", roles.file),
        ("--text-column", roles.text),
        ("--group", roles.group),
    ):
        if name is not None and name in votes:
            raise BadInput(
                f"expected {option} to name a column of {what} that says something of the "
                f"examples, but {name!r} holds what annotators say; name another"
            )


def _with_beside(
    votes: VoteRows, table: Path, options: SourceOptions, ids: Sequence[str]
) -> VoteRows:
    """The votes of a table of their own, and those of this one where it has some."""
    other = votes_beside(table, options, ids)
    if not votes.annotators:
        return replace(other, notes=(*votes.notes, *other.notes))
    return together(votes, other, ids)


def _from_long(columns: Columns, roles: Roles, what: str, first_row: int) -> VoteRows:
    """Votes of one row each; all other columns must be the same in all rows of an example."""
    key = roles.id or roles.file
    if key is None:
        raise BadInput(
            f"expected a column that says which rows of {what} are votes on the same example, but "
            "none was given; name it with --id-column"
        )
    wide = widen(
        *(columns[str(name)] for name in (key, roles.annotator, roles.label)),
        what=what,
        first_row=first_row,
    )
    own = (key, roles.annotator, roles.label)
    for name in columns:
        if name not in own:
            _check_same(columns[name], wide, str(name), what)
    return wide


def _check_same(column: Cells, wide: VoteRows, name: str, what: str) -> None:
    assert wide.example is not None
    assert wide.first is not None
    expected = column[wide.first][wide.example]
    pairs = enumerate(zip(column.tolist(), expected.tolist(), strict=True))
    row = next((row for row, (one, other) in pairs if not _same(one, other)), None)
    if row is not None:
        raise BadInput(
            "expected the same values in all rows of one example in "
            f"{what}, but {wide.keys[wide.example[row]]!r} has different ones in column {name!r}; "
            "correct it, or leave it out with --drop-column"
        )


def _same(one: Any, other: Any) -> bool:
    if one is other:
        return True
    gaps = is_missing(one), is_missing(other)
    return all(gaps) or (not any(gaps) and bool(one == other))
