"""Parquet tables: a column of vectors, or columns of features; large ones are read in batches."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from labelproof.data.encoders.columns import Frame
from labelproof.data.examples import Examples
from labelproof.data.optional_packages import need
from labelproof.data.readers.arrays import as_inputs, check_like
from labelproof.data.readers.column_roles import Roles, assign
from labelproof.data.readers.file_names import printable
from labelproof.data.readers.in_batches import column_of_lists, file_key
from labelproof.data.readers.large_tables import TableSource, is_large, load_large
from labelproof.data.readers.reading_options import EncodedRows, Reading, SourceOptions
from labelproof.data.readers.sampling import seen, spread
from labelproof.data.readers.table import from_frame
from labelproof.data.readers.table_files import has_structure, read_parquet, reading_parquet
from labelproof.errors import BadInput

BESIDE = "not used beside vectors"
BUFFER = 1 << 18  # bytes of a column that are read at a time


def load_parquet(path: Path, how: Reading) -> Examples:
    """Examples of a Parquet file."""
    options = how.options
    with reading_parquet(path) as parquet:
        schema, count = parquet.read_schema(path), parquet.read_metadata(path).num_rows
    header = tuple(schema.names)
    roles = assign(header, how, path)
    about = {"source": "parquet", "path": str(path)}
    free = [name for name in header if name not in (*roles.named, *options.drop_columns)]
    if roles.file is not None or roles.text is not None:
        return from_frame(read_parquet(path, roles.named), roles, how, about, 0)
    vectors = [name for name in free if is_vectors(schema.field(name).type)]
    if vectors:
        return _vectors(path, single(vectors, printable(path.name)), roles, how, about)
    table = _source(path, count, free)
    found = load_large(table, roles, how, about) if is_large(table, roles, how) else None
    if found is not None:
        return found
    wanted = [name for name in header if name not in options.drop_columns]
    return from_frame(read_parquet(path, wanted), roles, how, about, 0)


def is_vectors(kind: Any) -> bool:
    """Whether a column of Arrow holds lists of numbers."""
    types = need("pyarrow", "table", "a Parquet table").types
    lists = (types.is_list, types.is_large_list, types.is_fixed_size_list)
    return any(test(kind) for test in lists) and bool(
        types.is_integer(kind.value_type) or types.is_floating(kind.value_type)
    )


def single(vectors: Sequence[str], where: str) -> str:
    """The only column of vectors; more than one are refused."""
    if len(vectors) > 1:
        raise BadInput(
            f"expected one column of vectors in {where}, but there are {', '.join(vectors)}; "
            "leave all but one out with --drop-column"
        )
    return vectors[0]


def _vectors(
    path: Path, column: str, roles: Roles, how: Reading, about: dict[str, Any]
) -> Examples:
    """Examples whose inputs are one column of lists."""
    options, like = how.options, how.like
    if roles.annotator is not None:
        raise BadInput(
            f"expected one row per example with the vectors of {printable(path.name)}, but "
            "--annotator-column says that each row is a vote; give the votes with --labels, or "
            "one column per annotator"
        )
    frame, others = _beside(path, column, roles, options)
    what = f"the column {column!r} of {printable(path.name)}"
    rows = spread(len(frame), options.sample) if options.sample else np.arange(len(frame))
    if len(rows) < len(frame):
        about, frame = {**about, **seen(len(rows), len(frame))}, frame.iloc[rows]
        how = replace(how, options=replace(options, sample=None))
    vectors = column_of_lists(
        lambda step: _read(path, [column], step),
        rows,
        key=file_key([path], column, len(rows)),
        what=what,
        source="the file",
    )
    inputs = as_inputs(vectors.kept(options), what=what)
    check_like(inputs, like, printable(path.name))
    unused = f"not used beside the vectors in {column!r}: {', '.join(others)}"
    encoded = EncodedRows(
        inputs=inputs,
        left_out=dict.fromkeys(others, BESIDE),
        warnings=(unused,) if others and like is None else (),
    )
    return from_frame(frame, roles, how, {**about, "vectors": column}, 0, encoded=encoded)


def _beside(
    path: Path, column: str, roles: Roles, options: SourceOptions
) -> tuple[Frame, list[str]]:
    """The columns that say something of the rows, and the names of those that are not read."""
    with reading_parquet(path) as parquet:
        schema, count = parquet.read_schema(path), parquet.read_metadata(path).num_rows
    types = need("pyarrow", "table", "a Parquet table").types
    plain = [n for n in schema.names if not has_structure(types, schema.field(n).type)]
    ids = [n for n in plain if n.lower() == "id" and n not in (*roles.named, *options.drop_columns)]
    wanted = [*roles.named, *ids]
    others = [n for n in schema.names if n not in (*wanted, column, *options.drop_columns)]
    return _whole(path, wanted, count), others


def _whole(path: Path, columns: Sequence[str], count: int) -> Frame:
    """All rows of some columns, or of none."""
    if columns:
        return read_parquet(path, columns)
    return need("pandas", "table", "a Parquet table").DataFrame(index=range(count))


def _source(path: Path, count: int, columns: Sequence[str]) -> TableSource:
    """The plain columns of the file."""
    return TableSource(
        name=printable(path.name),
        size=count,
        columns=tuple(columns),
        read=lambda some, rows: _read(path, some, rows),
        whole=lambda some: _whole(path, some, count),
        key=lambda text: file_key([path], text),
    )


def _read(path: Path, columns: Sequence[str], rows: int) -> Iterator[Any]:
    """Tables of some rows each, in order; pages are read when they are needed."""
    arrow = need("pyarrow", "table", "a Parquet table")
    # without a buffer a whole row group is read at a time, which may be all of the file
    how = {"buffer_size": BUFFER, "pre_buffer": False}
    with reading_parquet(path) as parquet, parquet.ParquetFile(path, **how) as file:
        for batch in file.iter_batches(rows, columns=list(columns), use_threads=False):
            # without its notes for pandas, which may call a column otherwise
            table = arrow.Table.from_batches([batch]).replace_schema_metadata()
            table.validate(full=True)
            yield table
