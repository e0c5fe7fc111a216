"""CSV and Parquet files as frames of pandas; what cannot be read is told in one sentence."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from labelproof.data.encoders.columns import Frame
from labelproof.data.optional_packages import need
from labelproof.data.readers.delimited import layout, reading
from labelproof.data.readers.file_names import printable
from labelproof.errors import BadInput

PARQUET = (".parquet", ".pq")
BLANKS = ("", "na", "NA", "n/a", "N/A", "nan", "NaN", "NAN", "null", "NULL", "None", "<NA>", "?")


def read_header(path: Path) -> tuple[str, ...]:
    """Names of the columns."""
    if path.suffix.lower() not in PARQUET:
        return layout(path).header
    return tuple(_schema(path).names)


def read_csv(path: Path, words: Sequence[str]) -> Frame:
    """A CSV as a frame; columns in `words` stay exactly as written, so "NA" can be a class."""
    pandas = need("pandas", "table", "a CSV table")
    found = layout(path)
    others = [name for name in found.header if name not in words]
    with reading(path), warnings.catch_warnings():
        warnings.simplefilter("error", pandas.errors.ParserWarning)  # rows longer than the header
        try:
            return pandas.read_csv(
                path,
                sep=found.delimiter,
                encoding=found.encoding,
                decimal=found.decimal,
                header=0,
                names=list(found.header),
                index_col=False,
                dtype=dict.fromkeys(words, str),
                keep_default_na=False,
                na_values={name: list(BLANKS) for name in others},
                low_memory=False,
            )
        except UnicodeError:
            raise
        except (ValueError, pandas.errors.ParserWarning, OverflowError) as error:
            raise BadInput(
                f"expected rows of {len(found.header)} cells in {printable(path.name)}, but "
                f"{_first_line(error)}; quote cells that contain {found.delimiter!r}"
            ) from None


def read_parquet(path: Path, wanted: Sequence[str]) -> Frame:
    """The wanted columns of a Parquet file as a frame; none may have structure inside."""
    types = need("pyarrow", "table", "a Parquet table").types
    nested = [
        field.name
        for field in _schema(path)
        if field.name in wanted and _has_structure(types, field.type)
    ]
    if nested:
        raise BadInput(
            f"expected columns of plain values in {printable(path.name)}, but lists, records or "
            f"bytes are in {', '.join(nested)}; spread them into columns, leave them out with "
            "--drop-column, or save vectors as .npz"
        )
    with _reading_parquet(path) as parquet:
        return parquet.read_table(path, columns=list(wanted)).to_pandas()


def _has_structure(types: Any, kind: Any) -> bool:
    return bool(
        types.is_nested(kind)
        or types.is_binary(kind)
        or types.is_large_binary(kind)
        or types.is_fixed_size_binary(kind)
    )


def _schema(path: Path) -> Any:
    with _reading_parquet(path) as parquet:
        return parquet.read_schema(path)


@contextmanager
def _reading_parquet(path: Path) -> Iterator[Any]:
    arrow = need("pyarrow", "table", "a Parquet table")
    try:
        yield need("pyarrow.parquet", "table", "a Parquet table")
    except (arrow.ArrowException, OSError, ValueError) as error:
        raise BadInput(
            f"expected a Parquet table, but {printable(path.name)} could not be read "
            f"({_first_line(error)}); write it again"
        ) from None


def _first_line(error: Exception) -> str:
    text = " ".join(str(error).split())
    return text.removeprefix("Error tokenizing data. C error: ")[:160]
