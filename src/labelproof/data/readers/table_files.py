"""CSV, Parquet, JSON lines and Excel as frames of pandas; what fails is told in a sentence."""

from __future__ import annotations

import json
import re
import warnings
import zipfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any
from xml.parsers import expat

from labelproof.csv_files import plain
from labelproof.data.encoders.columns import Frame
from labelproof.data.optional_packages import need
from labelproof.data.readers.delimited import check_rows, layout, reading
from labelproof.data.readers.file_names import printable
from labelproof.errors import BadInput, RunFailed
from labelproof.files import read_regular

PARQUET = (".parquet", ".pq")
LINES = (".jsonl", ".ndjson")
EXCEL = (".xlsx",)
LARGEST = 2**33  # bytes of a file of JSON lines
BLANKS = ("", "na", "NA", "n/a", "N/A", "nan", "NaN", "NAN", "null", "NULL", "None", "<NA>", "?")


def read_header(path: Path) -> tuple[str, ...]:
    """Names of the columns."""
    suffix = path.suffix.lower()
    if suffix in PARQUET:
        return tuple(_schema(path).names)
    if suffix in LINES or suffix in EXCEL:
        return tuple(str(name) for name in read_frame(path).columns)
    return layout(path).header


def read_frame(path: Path) -> Frame:
    """A file of JSON lines (an object a line) or the first sheet of an Excel file."""
    frame = _read_lines(path) if path.suffix.lower() in LINES else _read_excel(path)
    frame.columns = [printable(" ".join(str(name).split())) for name in frame.columns]
    twice = frame.columns[frame.columns.duplicated()]
    if len(twice):
        raise BadInput(
            f"expected distinct columns in {printable(path.name)}, but {twice[0]!r} comes twice; "
            "rename one"
        )
    return frame


def read_table(path: Path, words: Sequence[str]) -> Frame:
    """Any table as a frame; of Parquet these columns alone, of a CSV these exactly as written."""
    suffix = path.suffix.lower()
    if suffix in PARQUET:
        return read_parquet(path, words)
    return read_frame(path) if suffix in (*LINES, *EXCEL) else read_csv(path, words)


def read_csv(path: Path, words: Sequence[str]) -> Frame:
    """A CSV as a frame; columns in `words` stay exactly as written, so "NA" can be a class."""
    pandas = need("pandas", "table", "a CSV table")
    found = layout(path)
    others = [name for name in found.header if name not in words]
    with reading(path), warnings.catch_warnings():
        warnings.simplefilter("error", pandas.errors.ParserWarning)  # rows longer than the header
        try:
            frame = pandas.read_csv(
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
            last = frame[found.header[-1]]
            if (last.isna() | (last == "")).any():  # pandas fills up short rows in silence
                check_rows(path, found)
            for name in words:
                frame[name] = frame[name].map(plain, na_action="ignore")
            return frame
        except (UnicodeError, BadInput):
            raise
        except (ValueError, pandas.errors.ParserWarning, OverflowError) as error:
            check_rows(path, found)
            raise BadInput(
                f"expected rows of {len(found.header)} cells in {printable(path.name)}, but "
                f"{_first_line(error)}; quote cells that contain {found.delimiter!r}"
            ) from None


def _read_lines(path: Path) -> Frame:
    pandas = need("pandas", "table", "a file of JSON lines")
    rows = []
    for number, line in enumerate(read_regular(path, LARGEST).splitlines(), 1):
        if not line.strip():
            continue
        try:
            row = json.loads(line)
            if b"\\ud" in line.lower():  # half of a pair is no letter, and cannot be written again
                json.dumps(row, ensure_ascii=False).encode()
        except (ValueError, RecursionError) as error:
            raise _bad_line(path, number, str(error)) from None
        if not isinstance(row, dict) or any(isinstance(v, (dict, list)) for v in row.values()):
            raise _bad_line(path, number, "it is not an object of plain values")
        rows.append(row)
    if not rows:
        raise BadInput(f"expected rows in {printable(path.name)}, but it is empty; check the path")
    return pandas.DataFrame(rows)


def _bad_line(path: Path, number: int, why: str) -> BadInput:
    return BadInput(
        f"expected a JSON object of plain values in every line of {printable(path.name)}, but "
        f"line {number} is not one ({' '.join(why.split())[:120]}); correct it, or save the table "
        "as CSV"
    )


def _read_excel(path: Path) -> Frame:
    pandas = need("pandas", "table", "an Excel table")
    need("openpyxl", "table", "an Excel table")
    try:
        with zipfile.ZipFile(path) as archive:
            check_sheets(archive)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of styles and validations, which are of no use here
            return pandas.read_excel(path, engine="openpyxl", keep_default_na=False, na_values=[""])
    except Exception as error:  # the library fails in many ways on a damaged file
        raise BadInput(
            f"expected an Excel table, but {printable(path.name)} could not be read "
            f"({_first_line(error)}); save it again, or as CSV"
        ) from None


def read_parquet(path: Path, wanted: Sequence[str]) -> Frame:
    """The wanted columns of a Parquet file as a frame; none may have structure inside."""
    check_plain(_schema(path), wanted, printable(path.name))
    with reading_parquet(path) as parquet:
        table = parquet.read_table(path, columns=list(wanted))
        table.validate(full=True)  # texts that are no UTF-8 would fail later, in any column
        frame = table.to_pandas()
        for name in wanted:  # its notes for pandas may call a column otherwise
            if name not in frame.columns:
                raise ValueError(f"it has two names for the column {name!r}")
        return frame


def check_plain(schema: Any, wanted: Sequence[str], what: str) -> None:
    """Refuse columns of Arrow that have structure inside."""
    types = need("pyarrow", "table", "a Parquet table").types
    found = [f.name for f in schema if f.name in wanted and has_structure(types, f.type)]
    if found:
        raise BadInput(
            f"expected columns of plain values in {what}, but lists, records or bytes are in "
            f"{', '.join(found)}; leave them out with --drop-column, or spread them into columns"
        )


def has_structure(types: Any, kind: Any) -> bool:
    """Whether a type of Arrow is a list, a record or bytes."""
    return bool(
        types.is_nested(kind)
        or types.is_binary(kind)
        or types.is_large_binary(kind)
        or types.is_fixed_size_binary(kind)
    )


def _schema(path: Path) -> Any:
    with reading_parquet(path) as parquet:
        return parquet.read_schema(path)


@contextmanager
def reading_parquet(path: Path) -> Iterator[Any]:
    """The library for Parquet; whatever fails inside becomes one sentence."""
    parquet = need("pyarrow.parquet", "table", "a Parquet table")
    try:
        yield parquet
    except (BadInput, RunFailed, MemoryError):
        raise
    except Exception as error:  # the library fails in many ways on a damaged file
        raise BadInput(
            f"expected a Parquet table, but {printable(path.name)} could not be read "
            f"({_first_line(error)}); write it again"
        ) from None


def _first_line(error: Exception) -> str:
    text = " ".join(str(error).split())
    return text.removeprefix("Error tokenizing data. C error: ")[:160]


MOST_XML = 2**31  # bytes of XML in one file
AREA = 10**7  # cells of a sheet that may be empty
FILLED = 1 / 100  # share of cells that must be there in a larger one
CELL = re.compile(r"([A-Z]{1,3})([0-9]{1,7})")


def check_sheets(archive: zipfile.ZipFile) -> None:
    """Refuse an Excel file that would take far more memory than its cells need.

    Raises:
        ValueError: The end of a sentence.
    """
    if sum(member.file_size for member in archive.infolist()) > MOST_XML:
        raise ValueError("its sheets are larger than 2 GB")
    for member in archive.infolist():
        with archive.open(member) as file:
            cells, rows, columns = _extent(file)
        if rows * columns > max(AREA, cells / FILLED):
            raise ValueError(f"{cells:,} cells are spread over {rows:,} rows, {columns:,} columns")


def _extent(file: IO[bytes]) -> tuple[int, int, int]:
    """Number of cells, the last row and the last column; zeros for what is no XML."""
    cells = rows = columns = place = 0

    def begin(name: str, values: dict[str, str]) -> None:
        nonlocal cells, rows, columns, place
        kind = name.rpartition(":")[2]
        if kind == "row":
            number, place = values.get("r", ""), 0
            rows = max(rows + 1, int(number) if number.isdecimal() and len(number) < 8 else 0)
        elif kind == "c":
            cells += 1
            found = CELL.fullmatch(values.get("r", ""))
            place = _number(found[1]) if found else place + 1
            columns, rows = max(columns, place), max(rows, int(found[2]) if found else 0)

    parser = expat.ParserCreate()
    parser.StartElementHandler = begin
    try:
        parser.ParseFile(file)
    except expat.ExpatError:
        return 0, 0, 0
    return cells, rows, columns


def _number(letters: str) -> int:
    """The number of a column: A is 1, AA is 27."""
    number = 0
    for letter in letters:
        number = 26 * number + ord(letter) - ord("A") + 1
    return number
