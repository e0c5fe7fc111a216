"""CSV files of a run folder, each read through its columns: as promised, or one sentence.

A cell that begins with `=`, `@`, a tab or a line break, or with `+` or `-` before something that is
no number but could be a call, gets an apostrophe in front (`safe`): spreadsheets then show it as
text, not run it. `plain` takes the apostrophe away again.
"""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec

from labelproof.errors import BadInput
from labelproof.files import read_regular, written_whole

LARGEST = 2**34  # bytes
LONGEST_CELL = 2**28  # letters; the csv module refuses more than 131,072 unless told otherwise
ADVICE = "restore the run folder"
OWN_COLUMNS = "labelproof_"  # how columns are called that are written beside those of a user


@contextmanager
def long_cells() -> Iterator[None]:
    """Let the csv module read cells of any length that a person could have meant."""
    before = csv.field_size_limit(LONGEST_CELL)
    try:
        yield
    finally:
        csv.field_size_limit(before)


def read_columns(path: Path, columns: Sequence[str]) -> dict[str, list[str]]:
    """The named columns of a file; others may be there.

    Raises:
        BadInput: If it cannot be read, lacks a column, or a row has too many or too few cells.
    """
    try:
        text = read_regular(path, LARGEST).decode("utf-8")
        with long_cells():
            header, *rows = list(csv.reader(io.StringIO(text, newline=""))) or [[]]
    except (UnicodeError, csv.Error) as error:
        raise BadInput(f"{path} cannot be read ({error}); {ADVICE}.") from None
    for name in columns:
        if name not in header:
            raise BadInput(f"{path} lacks the column {name!r}; {ADVICE}.")
    for line, row in enumerate(rows, 2):
        if len(row) != len(header):
            raise BadInput(
                f"{path} has {len(row)} cells in row {line} where {len(header)} were expected; "
                f"{ADVICE}."
            )
    places = {name: header.index(name) for name in columns}
    return {name: [plain(row[place]) for row in rows] for name, place in places.items()}


def write_csv(
    path: Path, header: Sequence[str], rows: Iterable[Iterable[Any]], delimiter: str = ","
) -> None:
    """Write a header and rows, one after the other; the file appears whole or not at all."""
    with written_whole(path) as aside, aside.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, delimiter=delimiter, lineterminator="\n")
        writer.writerow(header)
        writer.writerows(rows)


def converted(path: Path, name: str, cells: Sequence[str], kind: Any) -> Any:
    """The cells of a column as a list of `kind`, a type that msgspec knows.

    Raises:
        BadInput: If one of them is none.
    """
    try:
        return msgspec.convert(cells, list[kind], strict=False)
    except (msgspec.MsgspecError, ValueError, OverflowError) as error:
        raise BadInput(f"{path} is damaged in the column {name!r} ({error}); {ADVICE}.") from None


MARK = "'"
RISKY = re.compile(r"[=@\t\r\n]|[+-](?=.*[(|!=])", re.DOTALL)
NUMBER = re.compile(r"[+-]?[0-9.,]+(e[+-]?[0-9]+)?", re.IGNORECASE)


def safe(text: str) -> str:
    """The text as a cell that no spreadsheet runs."""
    bare = text.lstrip(MARK)
    return MARK + text if RISKY.match(bare) and not NUMBER.fullmatch(text) else text


def plain(cell: str) -> str:
    """The text that `safe` was given."""
    return cell[1:] if cell.startswith(MARK) and RISKY.match(cell.lstrip(MARK)) else cell
