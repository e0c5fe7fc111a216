"""Tables of plain columns that are larger than memory: encoded some rows and columns at a time.

A column that is being read holds megabytes of its own: pages, and the distinct values they refer
to. So a wide table is read some columns after the others.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from labelproof.data.encoders.columns import Frame, TableEncoder, as_words, fit_table, giveaways
from labelproof.data.examples import Examples
from labelproof.data.optional_packages import need
from labelproof.data.readers.arrays import as_inputs
from labelproof.data.readers.column_roles import Roles
from labelproof.data.readers.in_batches import InBatches, beside_each_other, rows_a_batch
from labelproof.data.readers.reading_options import EncodedRows, Reading
from labelproof.data.readers.sampling import spread
from labelproof.data.readers.table import (
    from_frame,
    missing_cells,
    not_numbers,
    used_columns,
)

FITTED = 100_000  # rows, evenly over a large table, that its columns are judged by
FIRST = 1_000  # rows that are looked at before
AT_A_TIME = 32  # columns that are read at a time


@dataclass(frozen=True, kw_only=True)
class TableSource:
    """A table on disk."""

    name: str  # how sentences call it
    size: int  # rows
    columns: tuple[str, ...]  # that may be features
    read: Callable[[Sequence[str], int], Iterator[Any]]  # columns, rows: tables of Arrow, in order
    whole: Callable[[Sequence[str]], Frame]  # some columns with all their rows
    key: Callable[[str], str]  # changes when the source does, or the text


def is_large(table: TableSource, roles: Roles, how: Reading) -> bool:
    """Whether a table is encoded in batches."""
    options = how.options
    large = 4 * table.size * len(table.columns) > options.memory_gb * 1e9 and table.size > FITTED
    return large and options.sample is None and roles.annotator is None and roles.text is None


def load_large(
    table: TableSource,
    roles: Roles,
    how: Reading,
    about: dict[str, Any],
    names: Sequence[str] | None = None,
) -> Examples | None:
    """Examples of a table whose features do not fit into memory; None where it holds texts."""
    like = how.like
    encoder, left = (like.encoder if like is not None else None), {}
    warnings: tuple[str, ...] = ()
    if like is None:
        columns = [*roles.named, *table.columns]
        first = next(table.read(columns, FIRST)).to_pandas()  # texts show at once
        if _other(used_columns(first, roles, how).roles):
            return None
        sample = _spread_rows(table, columns)
        used = used_columns(sample, roles, how)
        if _other(used.roles):
            return None
        roles, left = used.roles, dict(used.left_out)
        encoder = fit_table(used.features, table.name)
        given = (
            None
            if roles.label is None
            else np.unique(as_words(sample[roles.label]), return_inverse=True)[1]
        )
        warnings = (
            *used.notes,
            *not_numbers(used.features, encoder),
            *giveaways(used.features, given),
        )
        about = {**about, "missing": missing_cells(used.features)}
        del sample, used
    if not isinstance(encoder, TableEncoder):
        return None
    vectors = _vectors(table, encoder)
    inputs = as_inputs(vectors.kept(how.options), what=vectors.what)
    encoded = EncodedRows(inputs=inputs, encoder=encoder, left_out=left, warnings=warnings)
    return from_frame(table.whole(roles.named), roles, how, about, 0, names, encoded=encoded)


def _other(roles: Roles) -> bool:
    """Whether examples are texts or pictures, not columns."""
    return roles.text is not None or roles.file is not None


def _spread_rows(table: TableSource, columns: Sequence[str]) -> Frame:
    """Some rows of a large table, evenly over all."""
    arrow = need("pyarrow", "table", "a large table")
    wanted = spread(table.size, FITTED)
    found: dict[str, Any] = {}
    for some in _some(columns):
        parts, place = [], 0
        for rows in table.read(some, rows_a_batch(len(some))):
            begin, end = np.searchsorted(wanted, [place, place + len(rows)])
            parts.append(rows.take(arrow.array(wanted[begin:end] - place)))
            place += len(rows)
        found |= dict(zip(some, arrow.concat_tables(parts).columns, strict=True))
    joined = arrow.table(found)
    del found  # the frame takes the place of the columns, one by one
    return joined.to_pandas(split_blocks=True, self_destruct=True)


def _vectors(table: TableSource, encoder: TableEncoder) -> InBatches:
    """The encoded rows; some columns after the others where there are many."""
    parts = [_part(table, replace(encoder, columns=some)) for some in _some(encoder.columns)]
    if len(parts) == 1:
        return parts[0]
    return replace(
        parts[0],
        what=f"the columns of {table.name}",
        key=table.key(repr(encoder)),
        width=sum(part.width for part in parts),
        batches=lambda cache: beside_each_other(parts, cache),
    )


def _part(table: TableSource, encoder: TableEncoder) -> InBatches:
    """The rows as some columns encode them."""
    names = [column.name for column in encoder.columns]

    def batches(_: Path) -> Iterator[Any]:
        place = 0
        for rows in table.read(names, rows_a_batch(len(names))):
            yield encoder.transform(rows.to_pandas(), table.name, place)
            place += len(rows)

    return InBatches(
        what=f"the columns of {table.name}",
        key=table.key(repr(encoder)),
        size=table.size,
        width=sum(len(column.outputs) for column in encoder.columns),
        dtype="float32",
        batches=batches,
    )


def _some(columns: Sequence[Any]) -> list[tuple[Any, ...]]:
    """The columns, as many at a time as are read together."""
    return [tuple(columns[at : at + AT_A_TIME]) for at in range(0, len(columns), AT_A_TIME)]
