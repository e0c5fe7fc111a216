"""Noise for a file of labels: `labelproof corrupt labels.csv --kind symmetric --rate 0.4`.

The new file is the old one with some labels changed and every other byte as it was.
"""

from __future__ import annotations

import io
import json
import os
import re
import shlex
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from labelproof.data.plain_files import Refused, read_npy
from labelproof.data.readers.delimited import LABEL_NAMES, pick
from labelproof.errors import BadInput
from labelproof.files import read_regular, written_whole
from labelproof.noise.apply_noise import apply_noise
from labelproof.noise.noise_spec import Ints, Noise, NoiseSpec, noise_spec

LARGEST = 2**32  # bytes of a file of labels
StrPath = str | os.PathLike[str]


@dataclass(frozen=True, kw_only=True, eq=False)
class Corrupted:
    """What `corrupt_file` did."""

    out: Path  # the new file of labels
    record: Path  # the JSON beside it
    classes: tuple[str, ...]  # in the order of the matrix
    noise: Noise


def corrupt_file(
    path: StrPath,
    kind: str,
    rate: float | None,
    seed: int = 0,
    out: StrPath | None = None,
    label_column: str | None = None,
) -> Corrupted:
    """Write a copy of a file of labels in which some are wrong, and a record of it beside the copy.

    Classes are the labels that occur, integers in numerical and others in alphabetical order.

    Args:
        path: A CSV file with a column of labels, or a one-dimensional `.npy` array; never changed.
        kind: A kind of noise that needs the labels alone, with options after commas;
            `matrix:FILE` takes a transition matrix.
        rate: The nominal rate; None for a matrix.
        seed: Decides every draw.
        out: The new file, which must not exist; where None, a name beside `path` telling the noise.
        label_column: Which column holds the labels; found by its usual names where None.

    Returns:
        What was written, with the realised rate.

    Raises:
        BadInput: If the file, the column or the noise cannot be used, or `out` exists already.
    """
    source, spec = Path(path), noise_spec(kind, rate)
    target = Path(out) if out is not None else _named(source, spec)
    beside = target.with_name(f"{target.name}.json")
    for file in (target, beside):
        if os.path.lexists(file):
            raise BadInput(f"{file} exists already and was not changed; choose another --out.")
    corrupt = _corrupt_array if source.suffix == ".npy" else _corrupt_csv
    content, classes, noise = corrupt(source, spec, seed, label_column)
    about = {"source": source.name, "classes": list(classes), **noise.describe()}
    _write({beside: (json.dumps(about, indent=1) + "\n").encode(), target: content})
    return Corrupted(out=target, record=beside, classes=classes, noise=noise)


Outcome = tuple[bytes, tuple[str, ...], Noise]


def _corrupt_csv(source: Path, spec: NoiseSpec, seed: int, label_column: str | None) -> Outcome:
    raw = _bytes(source)
    if source.suffix.lower() == ".npz":
        raise BadInput(
            f"corrupt reads labels from a CSV or .npy file, but {source} is an .npz; put the noise "
            "in when you train, with "
            f"`labelproof fit {shlex.quote(str(source))} --noise KIND:RATE`."
        )
    if b"\0" in raw:
        raise BadInput(f"{source} is not a text file in UTF-8; save the labels as CSV or .npy.")
    # Bytes that are not UTF-8 travel through unchanged.
    column = find_labels(raw.decode("utf-8", "surrogateescape"), label_column, str(source))
    classes, y = _encoded(column.labels)
    noise = apply_noise(spec, y, classes, None, seed)
    text = replaced(column, [classes[label] for label in noise.labels.tolist()])
    return text.encode("utf-8", "surrogateescape"), classes, noise


def _corrupt_array(source: Path, spec: NoiseSpec, seed: int, label_column: str | None) -> Outcome:
    try:
        array = read_npy(_bytes(source))
    except Refused as error:
        raise BadInput(f"{source} is not a plain .npy array of labels ({error}).") from None
    if array.ndim != 1 or array.dtype.kind not in "iuUS":
        raise BadInput(f"{source} must hold one row of integer or text labels; save them as 1-D.")
    values, y = np.unique(array, return_inverse=True)
    classes = tuple(str(value) for value in values.tolist())
    noise = apply_noise(spec, y, classes, None, seed)
    buffer = io.BytesIO()
    np.save(buffer, values[noise.labels], allow_pickle=False)
    return buffer.getvalue(), classes, noise


def _encoded(labels: Sequence[str]) -> tuple[tuple[str, ...], Ints]:
    """Class names in order, and the place of each label among them."""
    names = set(labels)
    try:
        classes = sorted(names, key=lambda name: (int(name), name))
    except ValueError:
        classes = sorted(names)
    places = {name: place for place, name in enumerate(classes)}
    return tuple(classes), np.array([places[label] for label in labels], dtype=np.int64)


def _named(source: Path, spec: NoiseSpec) -> Path:
    noise = spec.kind if spec.kind == "matrix" else f"{spec.kind}-{spec.rate:g}"
    return source.with_name(f"{source.stem}.{noise}{source.suffix}")


def _bytes(source: Path) -> bytes:
    try:
        return read_regular(source, LARGEST)
    except BadInput as error:
        raise BadInput(f"The labels cannot be read from {source} ({error}).") from None


def _write(files: dict[Path, bytes]) -> None:
    """Write all files aside, then put each in its place, the last one first."""
    try:
        with ExitStack() as opened:
            for path, content in files.items():
                opened.enter_context(written_whole(path)).write_bytes(content)
    except OSError as error:
        reason = error.strerror or str(error)
        raise BadInput(
            f"The labels cannot be written to {error.filename} ({reason}); choose another --out."
        ) from error


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
    """Find the labels of a CSV text, in a column of this or a usual name."""
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
        some = f"{len(blank)} {'has' if len(blank) == 1 else 'have'} none"
        detail = f"{some}, first row {blank[0] + 1}" if blank else "it has no rows"
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
            f"None of the columns of {name} is called label; its columns are {', '.join(names)}; "
            "name the column of labels with --label-column."
        )
    rest = {_value(text, row[0]) for row in rows[1:]}
    return 0, not (names[0] in rest or re.fullmatch(r"[+-]?\d+", names[0]))


def _value(text: str, span: Span) -> str:
    field = text[span[0] : span[1]].strip()
    if len(field) > 1 and field[0] == field[-1] == '"':
        field = field[1:-1].replace('""', '"')
    return field.strip()


def _field(label: str, column: LabelColumn, quoted: bool) -> str:
    special = any(mark in label for mark in ('"', "\r", "\n", column.delimiter))
    return '"' + label.replace('"', '""') + '"' if quoted or special else label
