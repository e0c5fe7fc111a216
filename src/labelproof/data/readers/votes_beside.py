"""Several labels an example: in the table itself, or beside the data, matched by id or file name.

Such a table is long (`id,annotator,label`, a row a vote) or wide (an id and a column a person).

Shapes: N examples, A annotators.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from labelproof.data.encoders.columns import Frame
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
    read, _ = _read(table, found, options.label_column, key, who, people)
    return _matched(read, ids, what)


def votes_by_file(
    table: Path, options: SourceOptions
) -> tuple[list[str], list[str] | None, EncodedVotes]:
    """File names, true labels where there is a column, and the votes of a table beside pictures."""
    found, what = layout(table), printable(table.name)
    key = required(
        found.header, options.file_column, FILE_NAMES, table, "--file-column", "file names"
    )
    who = pick(found.header, options.annotator_column, (), table, "--annotator-column")
    people: tuple[str, ...] = ()
    if options.annotators:
        who, people = None, pick_annotators(found.header, options.annotators, what)
    truth = pick(found.header, options.truth_name, (), table, "--truth-key")
    read, known = _read(table, found, options.label_column, key, who, people, truth)
    coded = encode_votes(
        read.cells, read.annotators, truth=known, what=f"the votes of {what}", first_row=2,
        notes=read.notes, merge=options.merge_labels, skip=options.skip_unlabelled,
    )  # fmt: skip
    return list(read.keys), known, coded


def _read(
    table: Path,
    found: Layout,
    label: str | None,
    key: str,
    who: str | None,
    people: tuple[str, ...],
    truth: str | None = None,
) -> tuple[VoteRows, list[str] | None]:
    """The votes, a row each where `who` names annotators, else a column each; and true labels."""
    extra = [truth] if truth else []
    if who is None:
        keys, *columns = _some_rows(table, found, [key, *people, *extra])
        cells = np.array(columns[: len(people)], dtype=object).T
        found_rows = VoteRows(keys=keys, annotators=people, cells=cells)
        return found_rows, columns[-1] if truth else None
    label = required(found.header, label, LABEL_NAMES, table, "--label-column", "labels")
    columns = _some_rows(table, found, [key, who, label, *extra])
    arrays = [np.array(column, dtype=object) for column in columns[:3]]
    wide = widen(*arrays, what=printable(table.name), first_row=2)
    assert wide.first is not None
    return wide, [columns[3][row] for row in wide.first.tolist()] if truth else None


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


CONSENSUS = "labelproof: majority of the annotators"


def with_majority(
    frame: Frame, roles: Roles, options: SourceOptions, what: str, first_row: int
) -> tuple[Frame, Roles, EncodedVotes]:
    """A frame of one row an example with the majority as its label column, and the votes."""
    _check_apart(roles, what)
    if roles.annotator is not None:
        frame, votes = _from_long(frame, roles, what, first_row)
    else:
        others = [name for name in frame.columns if name not in roles.named]
        beside = [name for name in others if str(name).lower() in LABEL_NAMES]
        notes = tuple(f"column {n!r} is left out: labels come from the annotators" for n in beside)
        cells = frame[list(roles.annotators)].to_numpy(dtype=object)
        votes = VoteRows(annotators=roles.annotators, cells=cells, notes=notes)
        frame = frame.drop(columns=beside)
    if options.labels is not None:
        votes = _with_beside(frame, roles, options.labels, options, votes)
    coded = encode_votes(
        votes.cells,
        votes.annotators,
        truth=frame[roles.truth].to_numpy(dtype=object) if roles.truth else None,
        what=f"the votes of {what}",
        first_row=first_row,
        notes=votes.notes,
        merge=options.merge_labels,
        skip=options.skip_unlabelled,
    )
    used = [name for name in (*roles.annotators, roles.annotator) if name is not None]
    frame = frame.drop(columns=used).copy()  # in one piece: pandas warns of many small ones
    frame[CONSENSUS] = coded.names()
    return frame, replace(roles, label=CONSENSUS), coded


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
    frame: Frame, roles: Roles, table: Path, options: SourceOptions, votes: VoteRows
) -> VoteRows:
    """The votes of a table of their own, and those of this one where it has some."""
    ids = [str(name).strip() for name in (frame[roles.id] if roles.id else range(len(frame)))]
    other = votes_beside(table, options, ids)
    if not votes.annotators:
        return replace(other, notes=(*votes.notes, *other.notes))
    return together(votes, other, ids)


def _from_long(frame: Frame, roles: Roles, what: str, first_row: int) -> tuple[Frame, VoteRows]:
    """One row an example; its features must be the same in all of its rows."""
    if roles.id is None:
        raise BadInput(
            f"expected a column that says which rows of {what} are votes on the same example, but "
            "none was given; name it with --id-column"
        )
    parts = (roles.id, roles.annotator, roles.label)
    columns = [frame[name].to_numpy(dtype=object) for name in parts]
    wide = widen(*columns, what=what, first_row=first_row)
    own = {roles.annotator, roles.label}
    rest = [name for name in frame.columns if name not in own and name != roles.id]
    differing = frame.groupby(roles.id, sort=False)[rest].nunique(dropna=False) if rest else None
    if differing is not None and (differing > 1).any(axis=None):
        column = next(name for name in rest if (differing[name] > 1).any())
        example = differing.index[differing[column] > 1][0]
        raise BadInput(
            f"expected the same values in all rows of one example in {what}, but {example!r} has "
            f"different ones in column {column!r}; correct it, or leave it out with --drop-column"
        )
    single = frame.iloc[wide.first].reset_index(drop=True).drop(columns=[str(roles.label)])
    return single, wide
