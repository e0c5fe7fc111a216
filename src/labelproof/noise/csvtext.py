"""The label column of a CSV file as spans of its text, so that all else can stay byte for byte."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from labelproof.data.readers.delimited import LABEL_NAMES, pick
from labelproof.errors import BadInput

Span = tuple[int, int]
DELIMITERS = ",;\t|"


@dataclass(frozen=True, kw_only=True)
class LabelColumn:
    """A CSV text and where its labels stand."""

    text: str
    delimiter: str
    spans: tuple[Span, ...]  # of each label, quotes included
    labels: tuple[str, ...]  # without quotes and surrounding blanks


def find_labels(text: str, column: str | None, name: str) -> LabelColumn:
    """Find the labels of a CSV text.

    Args:
        text: The text; a byte-order mark may stand before it.
        column: Name of the label column; found by its usual names where None.
        name: What to call the file in a message.

    Raises:
        BadInput: If there are no rows, the column is not there, or a row has no label.
    """
    delimiter = _delimiter(text)
    rows = list(_rows(text, delimiter))
    if not rows:
        raise BadInput(f"{name} is empty; it should hold a column of labels.")
    place, header = _place(text, rows, column, name)
    body = rows[1:] if header else rows
    short = [number for number, row in enumerate(body) if len(row) <= place]
    spans = tuple(row[place] for row in body if len(row) > place)
    labels = tuple(_value(text, span) for span in spans)
    blank = short or [number for number, label in enumerate(labels) if not label]
    if blank or not labels:
        detail = f"{len(blank)} have none, first row {blank[0] + 1}" if blank else "it has no rows"
        raise BadInput(f"Every row of {name} needs a label, but {detail}; fill or drop these rows.")
    return LabelColumn(text=text, delimiter=delimiter, spans=spans, labels=labels)


def replaced(column: LabelColumn, labels: Sequence[str]) -> str:
    """The text with new labels; a field whose label is the same stays as it was written."""
    pieces, done = [], 0
    for (start, end), old, new in zip(column.spans, column.labels, labels, strict=True):
        if new != old:
            quoted = column.text[start] == '"'
            pieces += [column.text[done:start], _field(new, column, quoted)]
            done = end
    return "".join([*pieces, column.text[done:]])


def _delimiter(text: str) -> str:
    first = text.lstrip("\ufeff\r\n").split("\n", 1)[0]
    outside = re.sub(r'"[^"]*"', "", first)
    return max(DELIMITERS, key=outside.count)


def _rows(text: str, delimiter: str) -> Iterator[list[Span]]:
    """The fields of every row that is not blank."""
    mark = re.escape(delimiter)
    field = re.compile(rf'("[^"]*(?:""[^"]*)*"|[^{mark}\r\n]*)({mark}|\r\n|\n|\r|\Z)')
    row: list[Span] = []
    for match in field.finditer(text, 1 if text.startswith("\ufeff") else 0):
        row.append(match.span(1))
        if match[2] != delimiter:
            if len(row) > 1 or row[0][0] < row[0][1]:
                yield row
            row = []


def _place(text: str, rows: list[list[Span]], column: str | None, name: str) -> tuple[int, bool]:
    """Index of the label column, and whether the first row names the columns."""
    names = [_value(text, span) for span in rows[0]]
    if column is not None:
        if column not in names:
            raise BadInput(f"{name} has no column {column!r}; its columns are {', '.join(names)}.")
        return names.index(column), True
    usual = pick(names, None, LABEL_NAMES, Path(name), "--label-column")
    if usual is not None:
        return names.index(usual), True
    if len(names) > 1:
        raise BadInput(
            f"None of the columns of {name} is called label; its columns are {', '.join(names)}: "
            "say which one holds the labels with --label-column."
        )
    rest = {_value(text, row[0]) for row in rows[1:]}
    return 0, not (names[0] in rest or _whole(names[0]))


def _whole(text: str) -> bool:
    return re.fullmatch(r"[+-]?\d+", text) is not None


def _value(text: str, span: Span) -> str:
    field = text[span[0] : span[1]].strip()
    if len(field) > 1 and field[0] == field[-1] == '"':
        field = field[1:-1].replace('""', '"')
    return field.strip()


def _field(label: str, column: LabelColumn, quoted: bool) -> str:
    special = any(mark in label for mark in ('"', "\r", "\n", column.delimiter))
    return '"' + label.replace('"', '""') + '"' if quoted or special else label
