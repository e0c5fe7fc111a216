"""Parquet tables, read in batches where that saves memory."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from labelproof.data.encoders.columns import Frame
from labelproof.data.examples import Examples
from labelproof.data.optional_packages import need
from labelproof.data.readers.arrow_tables import TableSource, load_arrow
from labelproof.data.readers.column_roles import assign
from labelproof.data.readers.file_names import printable
from labelproof.data.readers.in_batches import file_key
from labelproof.data.readers.reading_options import Reading
from labelproof.data.readers.table_files import read_parquet, reading_parquet

BUFFER = 1 << 18  # bytes of a column that are read at a time


def load_parquet(path: Path, how: Reading) -> Examples:
    """Examples of a Parquet file."""
    with reading_parquet(path) as parquet:
        schema, count = parquet.read_schema(path), parquet.read_metadata(path).num_rows

    def whole(columns: Sequence[str]) -> Frame:
        if columns:
            return read_parquet(path, columns)
        return need("pandas", "table", "a Parquet table").DataFrame(index=range(count))

    table = TableSource(
        name=printable(path.name),
        schema=schema,
        size=count,
        read=lambda columns, rows: _read(path, columns, rows),
        whole=whole,
        key=lambda text: file_key([path], text),
    )
    roles = assign(schema.names, how, path)
    return load_arrow(table, roles, how, {"source": "parquet", "path": str(path)})


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
