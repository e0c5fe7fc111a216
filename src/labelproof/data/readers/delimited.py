"""CSV files as people have them: with or without BOM, commas or semicolons, quoted line breaks."""

from __future__ import annotations

import codecs
import csv
import itertools
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TextIO

from labelproof.csv_files import LONGEST_CELL, plain
from labelproof.data.readers.file_names import printable
from labelproof.errors import BadInput
from labelproof.messages import closest

DELIMITERS = (",", ";", "\t", "|")
LABEL_NAMES = ("label", "labels", "class", "target", "category", "given", "noisy_label", "y")
FILE_NAMES = ("file", "filename", "file_name", "path", "filepath", "file_path", "image",
              "image_path", "image_name", "img", "image_id")  # fmt: skip
PACKED = {
    b"\x1f\x8b": "compressed (gzip); unpack it first",
    b"PK\x03\x04": "a zip archive or an Excel workbook; name it .xlsx, or unpack it first",
}  # first bytes of what is often called CSV
DECIMAL_COMMA = re.compile(r"[+-]?\d*,\d+")


@dataclass(frozen=True, kw_only=True)
class Layout:
    """How a CSV is written."""

    encoding: str
    delimiter: str
    decimal: str
    header: tuple[str, ...]


def layout(path: Path) -> Layout:
    """Find out how a CSV is written, from its first rows."""
    encoding = _encoding(path)
    first = {mark: _rows(path, encoding, mark, 1) for mark in DELIMITERS}
    delimiter = max(DELIMITERS, key=lambda mark: len(first[mark][0]) if first[mark] else 0)
    rows = _rows(path, encoding, delimiter, 50)
    if not rows:
        raise BadInput(f"expected a table, but {printable(path.name)} is empty; check the path")
    names = (printable(" ".join(plain(name).split())) for name in rows[0])  # one line each
    header = tuple(name or f"column {place}" for place, name in enumerate(names, 1))
    _check_header(header, rows, path)
    comma = delimiter == ";" and any(
        DECIMAL_COMMA.fullmatch(cell) for row in rows[1:] for cell in row
    )
    return Layout(
        encoding=encoding, delimiter=delimiter, decimal="," if comma else ".", header=header
    )


def read_columns(path: Path, found: Layout, columns: Sequence[str]) -> list[list[str]]:
    """Some columns of a CSV as strings; rows without any content are passed over."""
    places = [found.header.index(name) for name in columns]
    values: list[list[str]] = [[] for _ in columns]
    with reading(path), path.open(encoding=found.encoding, newline="") as file:
        for row in _even_rows(file, path, found):
            for column, place in zip(values, places, strict=True):
                column.append(plain(row[place]))
    return values


def pick(
    header: Sequence[str], wanted: str | None, usual: Sequence[str], path: Path, option: str
) -> str | None:
    """The column an option names, or the first of the usual names; None if none is there."""
    if wanted is not None:
        if wanted not in header:
            alike = {name.casefold(): name for name in header}
            near = closest(wanted.casefold(), alike)
            hint = "" if near is None else f" (did you mean {printable(alike[near])!r}?)"
            raise BadInput(
                f"expected a column {printable(wanted)!r} in {printable(path.name)}, but it has "
                f"{listed(header)}; correct {option}{hint}"
            )
        return wanted
    lower = {name.lower(): name for name in reversed(header)}
    return next((lower[name] for name in usual if name in lower), None)


def required(
    header: Sequence[str],
    wanted: str | None,
    usual: Sequence[str],
    path: Path,
    option: str,
    content: str,
) -> str:
    """As `pick`, where a column of this content must be there."""
    name = pick(header, wanted, usual, path, option)
    if name is None:
        raise BadInput(
            f"expected a column of {content} in {printable(path.name)}, but its columns are "
            f"{listed(header)}; name it with {option}{_first_row_hint(header)}"
        )
    return name


def _first_row_hint(header: Sequence[str]) -> str:
    """What to do where the first row hardly names the columns: numbers or blanks are in it."""
    odd = [name for name in header if is_number(name) or re.fullmatch(r"column \d+", name)]
    plain_names = len(odd) < 2 and 2 * len(odd) < len(header)
    return "" if plain_names else ", or write the names of the columns into the first row"


def listed(names: Sequence[str]) -> str:
    """Names of columns for a sentence, each in one line; of many, the first and the last."""
    shown = [printable(name) for name in names]
    if len(shown) > 20:
        shown = [*shown[:10], f"... ({len(shown) - 15} more)", *shown[-5:]]
    return ", ".join(shown)


def _bad_line(path: Path) -> str:
    """Where a file stops being UTF-8, in words; nothing is said of another encoding."""
    decoder, line = codecs.getincrementaldecoder("utf-8")(), 1
    with path.open("rb") as file:
        while part := file.read(1 << 16):
            try:
                decoder.decode(part)
            except UnicodeDecodeError as error:
                # bytes kept from the part before hold no line break, so the count is right
                return f" in line {line + bytes(error.object[: error.start]).count(10)}"
            line += part.count(10)
    return ""


@contextmanager
def reading(path: Path) -> Iterator[None]:
    """Turn the ways in which reading text can fail into one sentence each."""
    name = printable(path.name)
    before = csv.field_size_limit(LONGEST_CELL)
    try:
        yield
    except UnicodeError:
        start = _first_bytes(path)
        kind = next((words for mark, words in PACKED.items() if start.startswith(mark)), None)
        raise BadInput(
            f"expected a CSV table, but {name} is {kind}"
            if kind
            else f"expected text in UTF-8, but {name} is not{_bad_line(path)}; save it as UTF-8 CSV"
        ) from None
    except csv.Error as error:
        raise BadInput(
            f"expected a CSV table, but {name} is not one ({error}); save it as CSV"
        ) from None
    except MemoryError:
        raise BadInput(
            f"expected a table that fits into memory, but {name} does not; save it as Parquet"
        ) from None
    except OSError as error:
        raise BadInput(
            f"expected a readable file, but {name}: {error.strerror or error}; check the path"
        ) from None
    finally:
        csv.field_size_limit(before)


def check_rows(path: Path, found: Layout) -> None:
    """Refuse a CSV of which some rows have fewer or more cells than its header."""
    with reading(path), path.open(encoding=found.encoding, newline="") as file:
        for _ in _even_rows(file, path, found):
            pass


def _even_rows(file: TextIO, path: Path, found: Layout) -> Iterator[list[str]]:
    """Rows with content below the header."""
    rows = (row for row in csv.reader(_lines(file), delimiter=found.delimiter) if any(row))
    for number, row in enumerate(itertools.islice(rows, 1, None), 2):
        if len(row) != len(found.header):
            short = len(row) < len(found.header)
            advice = (
                "leave a missing cell empty, but keep its" if short else "quote cells that contain"
            )
            raise BadInput(
                f"expected {len(found.header)} cells in every row of {printable(path.name)}, "
                f"but row {number} has {len(row)}; {advice} {found.delimiter!r}"
            )
        yield row


def _first_bytes(path: Path) -> bytes:
    with path.open("rb") as file:
        return file.read(4)


def _encoding(path: Path) -> str:
    """UTF-8, or UTF-16 by its mark or by the zero bytes beside plain letters."""
    with reading(path):
        start = _first_bytes(path)
    if start[:2] in (b"\xff\xfe", b"\xfe\xff"):
        return "utf-16"
    zeros = [byte == 0 for byte in start]
    if zeros == [False, True] * 2:
        return "utf-16-le"
    return "utf-16-be" if zeros == [True, False] * 2 else "utf-8-sig"


def _rows(path: Path, encoding: str, delimiter: str, most: int) -> list[list[str]]:
    with reading(path), path.open(encoding=encoding, newline="") as file:
        rows = (row for row in csv.reader(_lines(file), delimiter=delimiter) if any(row))
        return list(itertools.islice(rows, most))


def _lines(file: TextIO) -> Iterator[str]:
    """The lines of a file; one without an end would fill the memory."""
    while line := file.readline(LONGEST_CELL + 1):
        if len(line) > LONGEST_CELL:
            raise csv.Error(f"a line has more than {LONGEST_CELL:,} characters")
        yield line


def _check_header(header: tuple[str, ...], rows: Sequence[Sequence[str]], path: Path) -> None:
    name = printable(path.name)
    twice = sorted(column for column, times in Counter(header).items() if times > 1)
    if twice:
        data = any(is_number(column) for column in header)
        hint = ", or add a header row if the first row is data" if data else ""
        raise BadInput(
            f"expected distinct columns in {name}, but {twice[0]!r} comes twice; rename one{hint}"
        )
    if all(is_number(column) for column in header):
        raise BadInput(
            f"expected column names in the first row of {name}, but it holds numbers "
            f"({', '.join(header[:3])}); add a header row"
        )
    if len(rows) > 1 and len(rows[1]) > len(header):
        cells = "1 cell" if len(header) == 1 else f"{len(header)} cells"
        raise BadInput(
            f"expected {cells} in every row of {name}, as in its first, but row 2 has "
            f"{len(rows[1])}; name every column in the first row"
        )


def is_number(text: str) -> bool:
    """Whether a text is a number."""
    try:
        float(text)
    except ValueError:
        return False
    return True
