"""A CSV of votes beside a folder of pictures: a column a person, or a row a vote."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

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
from labelproof.data.readers.vote_table import EncodedVotes, encode_votes, pick_annotators, widen
from labelproof.errors import BadInput


def voted_labels(
    table: Path, options: SourceOptions
) -> tuple[list[str], list[str] | None, EncodedVotes]:
    """File names, true labels where there is a column, and votes."""
    found, what = layout(table), printable(table.name)
    file = _column(found.header, options.file_column, FILE_NAMES, table, "--file-column")
    truth = pick(found.header, options.truth_name, (), table, "--truth-key")
    extra = [truth] if truth else []
    notes: tuple[str, ...] = ()
    if options.annotators:
        people = pick_annotators(found.header, options.annotators, what)
        files, *columns = read_columns(table, found, [file, *people, *extra])
        cells = np.array(columns[: len(people)], dtype=object).T
        known = columns[len(people)] if truth else None
    else:
        label = _column(found.header, options.label_column, LABEL_NAMES, table, "--label-column")
        who = _column(found.header, options.annotator_column, (), table, "--annotator-column")
        columns = read_columns(table, found, [file, who, label, *extra])
        arrays = [np.array(column, dtype=object) for column in columns]
        wide = widen(*arrays[:3], what=what, first_row=2)
        files, people, cells, notes = list(wide.ids), wide.annotators, wide.cells, wide.notes
        known = [columns[3][row] for row in wide.first.tolist()] if truth else None
    coded = encode_votes(
        cells, people, truth=known, what=f"the votes of {what}", first_row=2, notes=notes,
        merge=options.merge_labels,
    )  # fmt: skip
    return files, known, coded


def _column(
    header: Sequence[str], wanted: str | None, usual: Sequence[str], table: Path, option: str
) -> str:
    name = pick(header, wanted, usual, table, option)
    if name is None:
        raise BadInput(
            f"expected a column for {option} in {printable(table.name)}, but its columns are "
            f"{listed(header)}; name it with {option}"
        )
    return name
