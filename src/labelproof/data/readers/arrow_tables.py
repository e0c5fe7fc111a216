"""Tables that Arrow reads: a column of vectors, or columns of features, in memory or in batches.

Parquet files and saved data sets of Hugging Face both come here. A table of plain columns that is
larger than memory is encoded some rows and columns at a time. A column that is being read holds
megabytes of its own: pages, and the distinct values they refer to. So a wide table is read some
columns after the others.
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
from labelproof.data.readers.arrays import as_inputs, check_like
from labelproof.data.readers.column_roles import Roles, usual_ids, with_usual_id
from labelproof.data.readers.in_batches import (
    InBatches,
    beside_each_other,
    column_of_lists,
    rows_a_batch,
)
from labelproof.data.readers.reading_options import EncodedRows, Reading, Told
from labelproof.data.readers.row_facts import columns_of, refuse_vote_rows, tell, with_inputs
from labelproof.data.readers.sampling import seen, spread
from labelproof.data.readers.table import (
    from_frame,
    missing_cells,
    not_numbers,
    used_columns,
    without_labels,
)
from labelproof.data.readers.table_files import has_structure
from labelproof.errors import BadInput

FITTED = 100_000  # rows, evenly over a large table, that its columns are judged by
FIRST = 1_000  # rows that are looked at before
AT_A_TIME = 32  # columns that are read at a time
BESIDE = "not used beside vectors"


@dataclass(frozen=True, kw_only=True)
class TableSource:
    """A table on disk."""

    name: str  # how sentences call it
    schema: Any  # of Arrow
    size: int  # rows
    read: Callable[[Sequence[str], int], Iterator[Any]]  # columns, rows: tables of Arrow, in order
    whole: Callable[[Sequence[str]], Frame]  # some columns with all their rows; none are one too
    key: Callable[[str], str]  # changes when the source does, or the text
    names: Sequence[str] | None = None  # of the classes 0..C-1

    def plain(self, how: Reading) -> tuple[str, ...]:
        """Columns of plain values that are not dropped."""
        types = need("pyarrow", "table", self.name).types
        names = (name for name in self.schema.names if name not in how.options.drop_columns)
        return tuple(n for n in names if not has_structure(types, self.schema.field(n).type))

    def vectors(self, how: Reading) -> str | None:
        """The column of vectors; more than one are refused."""
        names = (name for name in self.schema.names if name not in how.options.drop_columns)
        found = [name for name in names if _is_vectors(self.schema.field(name).type)]
        if len(found) > 1:
            raise BadInput(
                f"expected one column of vectors in {self.name}, but there are "
                f"{', '.join(found)}; leave all but one out with --drop-column"
            )
        return found[0] if found else None


def _is_vectors(kind: Any) -> bool:
    """Whether a column of Arrow holds lists of numbers."""
    types = need("pyarrow", "table", "a column of vectors").types
    lists = (types.is_list, types.is_large_list, types.is_fixed_size_list)
    return any(test(kind) for test in lists) and bool(
        types.is_integer(kind.value_type) or types.is_floating(kind.value_type)
    )


def load_arrow(table: TableSource, roles: Roles, how: Reading, about: dict[str, Any]) -> Examples:
    """Examples of a table: vectors, pictures or texts in a column, or columns of features."""
    if roles.file is not None:
        return from_frame(table.whole(roles.named), roles, how, about, 0, table.names)
    if roles.text is not None:
        frame = table.whole([*roles.named, *usual_ids(table.plain(how), roles)])
        return from_frame(frame, roles, how, about, 0, table.names)
    column = table.vectors(how)
    if column is not None:
        return _of_vectors(table, column, roles, how, about)
    found = _load_large(table, roles, how, about) if _is_large(table, roles, how) else None
    if found is not None:
        return found
    wanted = [name for name in table.schema.names if name not in how.options.drop_columns]
    return from_frame(table.whole(wanted), roles, how, about, 0, table.names)


def told_beside(table: TableSource, roles: Roles, how: Reading, kind: str) -> tuple[Told, Roles]:
    """What the columns beside inputs (`kind`) say; one called id names the examples."""
    refuse_vote_rows(roles, table.name, kind)
    wanted = [*roles.named, *usual_ids(table.plain(how), roles)]
    wanted = [name for name in wanted if name != roles.file]
    columns = columns_of(table.whole(wanted), wanted)
    roles = with_usual_id(roles, columns)
    return tell(columns, roles, how, table.name, size=table.size, names=table.names), roles


def _of_vectors(
    table: TableSource, column: str, roles: Roles, how: Reading, about: dict[str, Any]
) -> Examples:
    """Examples whose inputs are one column of lists."""
    options, what = how.options, f"the column {column!r} of {table.name}"
    told, roles = told_beside(table, roles, how, "vectors")
    rows = spread(table.size, options.sample) if options.sample else np.arange(table.size)
    if len(rows) < table.size:
        about, told = {**about, **seen(len(rows), table.size)}, told.part(rows)
    vectors = column_of_lists(
        lambda step: table.read([column], step),
        rows,
        key=table.key(f"{column} {len(rows)}"),
        what=what,
        source="the data",
    )
    inputs = as_inputs(vectors.kept(options), what=what)
    check_like(inputs, how.like, table.name)
    taken = (*roles.named, *usual_ids(table.schema.names, roles), column, *options.drop_columns)
    others = [name for name in table.schema.names if name not in taken]
    unused = f"not used beside the vectors in {column!r}: {', '.join(others)}"
    encoded = EncodedRows(
        inputs=inputs,
        left_out=dict.fromkeys(others, BESIDE),
        warnings=(unused,) if others and how.like is None else (),
    )
    return with_inputs(encoded, told, roles, how, {**about, "vectors": column})


def _is_large(table: TableSource, roles: Roles, how: Reading) -> bool:
    """Whether a table is encoded in batches."""
    options = how.options
    large = (
        4 * table.size * len(_features(table, roles, how)) > options.memory_gb * 1e9
        and table.size > FITTED
    )
    return large and options.sample is None and roles.annotator is None and roles.text is None


def _features(table: TableSource, roles: Roles, how: Reading) -> list[str]:
    """Columns that may be features."""
    taken = (*roles.named, *how.options.drop_columns)
    return [name for name in table.schema.names if name not in taken]


def _load_large(
    table: TableSource, roles: Roles, how: Reading, about: dict[str, Any]
) -> Examples | None:
    """Examples of a table whose features do not fit into memory; None where it holds texts."""
    encoder, learnt = (how.like.encoder if how.like is not None else None), None
    if how.like is None:
        learnt = _learnt(table, roles, how)
        if learnt is None:
            return None
        roles, encoder = learnt.roles, learnt.encoder
        about = {**about, "missing": learnt.missing}
    if not isinstance(encoder, TableEncoder):
        return None
    vectors = _vectors(table, encoder)
    encoded = EncodedRows(
        inputs=as_inputs(vectors.kept(how.options), what=vectors.what),
        encoder=encoder,
        left_out=learnt.left_out if learnt else {},
        warnings=learnt.notes if learnt else (),
    )
    columns = columns_of(table.whole(roles.named), roles.named)
    told = tell(columns, roles, how, table.name, size=table.size, names=table.names)
    return with_inputs(encoded, told, roles, how, about)


@dataclass(frozen=True, kw_only=True)
class _Learnt:
    """What some rows of a large table say of its columns."""

    roles: Roles
    encoder: TableEncoder
    left_out: dict[str, str]
    missing: dict[str, int]
    notes: tuple[str, ...]


def _learnt(table: TableSource, roles: Roles, how: Reading) -> _Learnt | None:
    """The encoder for the columns, by rows spread over all; None where they are texts."""
    columns = [*roles.named, *_features(table, roles, how)]
    first = next(table.read(columns, FIRST)).to_pandas()  # texts show at once
    if _other(used_columns(first, roles, how, _given(first, roles)).roles):
        return None
    sample, notes = without_labels(_spread_rows(table, columns), roles, how)
    given = _given(sample, roles)
    used = used_columns(sample, roles, how, given)
    if _other(used.roles):
        return None
    encoder = fit_table(used.features, table.name)
    codes = None if given is None else np.unique(as_words(given), return_inverse=True)[1]
    return _Learnt(
        roles=used.roles,
        encoder=encoder,
        left_out=used.left_out,
        missing=missing_cells(used.features),
        notes=(
            *notes,
            *used.notes,
            *not_numbers(used.features, encoder),
            *giveaways(used.features, codes),
        ),
    )


def _given(frame: Frame, roles: Roles) -> Any:
    return frame[roles.label] if roles.label is not None else None


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
