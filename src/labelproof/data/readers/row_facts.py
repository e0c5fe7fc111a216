"""What columns say of examples beside their inputs: labels or votes, truth, groups and names.

Every source whose labels stand in columns comes through `tell`: tables, data sets of Hugging Face,
pictures and vectors that a CSV lists. A column is an array here, so that a CSV needs no pandas.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from labelproof.data.encoders.columns import Frame
from labelproof.data.examples import Examples
from labelproof.data.readers.column_roles import Roles, read_ids
from labelproof.data.readers.delimited import layout, read_columns
from labelproof.data.readers.reading_options import EncodedRows, Reading, Told, as_groups
from labelproof.data.readers.votes_beside import Columns, cast_votes
from labelproof.errors import BadInput


def columns_of(frame: Frame, names: Sequence[Any]) -> dict[str, npt.NDArray[Any]]:
    """Columns of a frame of pandas; numbers stay numbers, all else becomes objects."""
    return {name: _array(frame[name]) for name in names}


def _array(series: Any) -> npt.NDArray[Any]:
    plain = isinstance(series.dtype, np.dtype) and series.dtype.kind in "iuf"
    found: npt.NDArray[Any] = series.to_numpy() if plain else series.to_numpy(dtype=object)
    return found


def csv_columns(path: Path, names: Sequence[str]) -> dict[str, npt.NDArray[Any]]:
    """Columns of a CSV, exactly as written."""
    wanted = list(dict.fromkeys(names))
    cells = read_columns(path, layout(path), wanted)
    found = (np.array(column, dtype=object) for column in cells)
    return dict(zip(wanted, found, strict=True))


def tell(
    columns: Columns,
    roles: Roles,
    how: Reading,
    what: str,
    *,
    size: int,
    first_row: int = 0,
    names: Sequence[str] | None = None,
) -> Told:
    """What columns say of the examples of `size` rows.

    Args:
        columns: Those that `roles` name; where a row is a vote, all that speak of its example.
        roles: Which column says what.
        how: Says whether there are votes in a table of their own.
        what: How sentences call the source.
        size: The number of rows, as there may be no column.
        first_row: Its number as the user counts.
        names: Names of classes 0..C-1.
    """
    given = columns[roles.label] if roles.label else None
    told = Told(given=given, names=names, what=f"the label column {roles.label!r} of {what}")
    if how.like is None and (roles.annotators or roles.annotator or how.options.labels):
        coded, rows = cast_votes(
            columns, roles, how.options, what, size=size, first_row=first_row, names=names
        )
        told = Told(given=coded.names(), names=coded.classes, votes=coded.votes, rows=rows,
                    what=f"the votes of {what}")  # fmt: skip

    def of_examples(name: str | None) -> Any:
        column = columns[name] if name else None
        return column if column is None or told.rows is None else column[told.rows]

    ids, groups = of_examples(roles.id), of_examples(roles.group)
    where = f"the column {roles.group!r} of {what}"
    return replace(
        told,
        truth=of_examples(roles.truth),
        ids=None if ids is None else read_ids(ids, str(roles.id), what, first_row),
        groups=None if groups is None else as_groups(groups, where),
        first_row=first_row,
    )


def refuse_vote_rows(roles: Roles, what: str, kind: str) -> None:
    """Refuse rows that are votes beside inputs (`kind`) of which there is one a row."""
    if roles.annotator is not None:
        raise BadInput(
            f"expected one row per example with the {kind} of {what}, but --annotator-column says "
            "that each row is a vote; give one column per annotator with --annotators"
        )


def with_inputs(
    rows: EncodedRows, told: Told, roles: Roles, how: Reading, about: Mapping[str, Any]
) -> Examples:
    """Examples of inputs that are there already, with what columns say of them."""
    coded = told.coded(len(rows.inputs), how)
    notes = told.votes.notes if told.votes else ()
    more = {
        "columns": roles.present(voted=bool(told.votes)),
        "left_out": dict(rows.left_out),
        "missing": about.get("missing", {}),
        "warnings": [*notes, *rows.warnings, *coded.warnings],
    }
    return told.examples(rows, coded, {**about, **more})
