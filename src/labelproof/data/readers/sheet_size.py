"""How large the sheets of an Excel file are, before any of them is read.

One cell in the last corner of a sheet makes a table of 17 billion cells out of a kilobyte.
"""

from __future__ import annotations

import re
import zipfile
from typing import IO
from xml.parsers import expat

LARGEST = 2**31  # bytes of XML in one file
AREA = 10**7  # cells of a sheet that may be empty
FILLED = 1 / 100  # share of cells that must be there in a larger one
CELL = re.compile(r"([A-Z]{1,3})([0-9]{1,7})")


def check_sheets(archive: zipfile.ZipFile) -> None:
    """Refuse an Excel file that would take far more memory than its cells need.

    Raises:
        ValueError: The end of a sentence.
    """
    if sum(member.file_size for member in archive.infolist()) > LARGEST:
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
