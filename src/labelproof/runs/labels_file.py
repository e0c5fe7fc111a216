"""labels.csv: every label of a run with what the model thinks of it, worst first.

The same as columns can be put beside a user's own.
"""

from __future__ import annotations

import csv
from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from labelproof.csv_files import OWN_COLUMNS, long_cells, plain, safe, write_csv
from labelproof.errors import BadInput
from labelproof.judging.label_table import Codes, LabelRows, Names, Numbers
from labelproof.run_files import LABELS
from labelproof.runs.labels_index import packed, read_index, write_index

COLUMNS = ("index", "id", "given", "suggested", "p_clean", "p_suggested", "margin", "suspect")
ARRAYS = tuple(name for name in COLUMNS if name != "id")
CLASSES = ("given", "suggested")
BLOCK = 1 << 16  # rows held as text at a time
LARGEST, LONG_ROW = 2**28, 2**16  # bytes of a whole file, and more for each row
RANGES = {"p_clean": (0.0, 1.0), "p_suggested": (0.0, 1.0), "suspect": (0.0, 1.0)}


def write_rows(folder: Path, rows: LabelRows, classes: Sequence[str]) -> None:
    """Write labels.csv into a run folder, some rows at a time; of a long one, its index too."""
    names = np.array([safe(name) for name in classes], dtype=object)
    parts = (slice(start, start + BLOCK) for start in range(0, len(rows), BLOCK))
    write_csv(folder / LABELS, COLUMNS, (c for part in parts for c in _cells(rows, names, part)))
    write_index(folder, rows)


def _cells(
    rows: LabelRows, classes: npt.NDArray[np.object_], part: slice
) -> Iterator[tuple[object, ...]]:
    index, given, suggested = rows.index[part], classes[rows.given[part]], rows.suggested[part]
    numbers = (rows.p_clean[part], rows.p_suggested[part], rows.margin[part])
    texts = [[f"{number:.6f}" for number in column.tolist()] for column in numbers]
    return zip(
        index.tolist(),
        map(safe, rows.ids[part]),
        given.tolist(),
        classes[suggested].tolist(),
        *texts,
        rows.suspect[part].astype(int).tolist(),
        strict=True,
    )


def read_rows(folder: Path, classes: Sequence[str], size: int) -> LabelRows:
    """Read labels.csv of a run folder, by its index where there is one."""
    path = folder / LABELS
    if not path.is_file():
        raise BadInput(
            f"{folder} has no {LABELS}: the run has not finished or was copied in part; "
            "finish it with `labelproof fit ... --resume`, or copy it again."
        )
    row = LONG_ROW + 8 * max(map(len, classes), default=0)  # two names, in bytes
    if path.stat().st_size > LARGEST + row * size:
        raise BadInput(
            f"{path} has more bytes than its {size} rows can take; restore the run folder."
        )
    found = read_index(folder, len(classes), size)
    if found is not None:
        return found
    code = {name: place for place, name in enumerate(classes)}
    parts = [_part(path, columns, code) for columns in _blocks(path, size)]
    joined = {name: np.concatenate([part[name] for part in parts]) for name in ARRAYS if parts}
    index = joined.get("index", np.empty(0)).astype(np.int64)
    if len(index) != size or not np.array_equal(np.sort(index), np.arange(size)):
        raise BadInput(
            f"{path} does not hold each of the {size} training examples of run.json once; "
            "restore the run folder."
        )
    ids = [name for part in parts for name in part["id"] or map(str, part["index"].astype(int))]
    names = packed(ids, np.argsort(index)) if any(part["id"] for part in parts) else None
    columns = {**joined, "index": index, "suspect": joined["suspect"] != 0}
    return LabelRows(ids=Names(names, index), **columns)


def _blocks(path: Path, size: int) -> Iterator[dict[str, tuple[str, ...]]]:
    """The columns of some rows at a time, of not many more rows than there should be."""
    line = 2
    try:
        with long_cells(), path.open(encoding="utf-8", newline="") as file:
            reader = csv.reader(file)
            header = next(reader, [])
            missing = [name for name in COLUMNS if name not in header]
            if missing:
                raise BadInput(f"{path} lacks the column {missing[0]!r}; restore the run folder.")
            while line <= size + 2 and (rows := list(islice(reader, BLOCK))):
                _check_lengths(path, rows, len(header), line)
                line += len(rows)
                columns = list(zip(*rows, strict=True))
                yield {name: columns[header.index(name)] for name in COLUMNS}
    except (OSError, UnicodeError, csv.Error) as error:
        raise BadInput(f"{path} cannot be read ({error}); restore the run folder.") from None


def _check_lengths(path: Path, rows: list[list[str]], expected: int, first: int) -> None:
    for line, row in enumerate(rows, first):
        if len(row) != expected:
            raise BadInput(
                f"{path} has {len(row)} cells in row {line} where {expected} were expected; "
                "restore the run folder."
            )


def _part(path: Path, columns: dict[str, tuple[str, ...]], code: dict[str, int]) -> dict[str, Any]:
    """The arrays of some rows; their names too, where these are more than their numbers."""
    return {
        **{name: _numbers(path, columns, name) for name in ARRAYS if name not in CLASSES},
        **{name: _codes(path, columns[name], code) for name in CLASSES},
        "id": [*map(plain, columns["id"])] if columns["id"] != columns["index"] else None,
    }


def _numbers(path: Path, columns: dict[str, tuple[str, ...]], name: str) -> Numbers:
    try:
        values: Any = np.array(columns[name], dtype=np.float64)
    except ValueError as error:
        raise BadInput(
            f"{path} has a value that is not a number in the column {name!r} ({error}); restore "
            "the run folder."
        ) from None
    low, high = RANGES.get(name, (-1e15, 1e15))
    if not ((values >= low) & (values <= high)).all():  # NaN fails too
        raise BadInput(
            f"{path} holds numbers outside {low:g} to {high:g}, or NaN, in the column {name!r}; "
            "restore the run folder."
        )
    checked: Numbers = values
    return checked


def _codes(path: Path, names: tuple[str, ...], code: dict[str, int]) -> Codes:
    try:
        return np.array([code[plain(name)] for name in names], dtype=np.int64)
    except KeyError as error:
        raise BadInput(
            f"{path} names a class {error} that run.json does not have; restore the run folder."
        ) from None


Columns = dict[str, list[Any]]


def label_columns(
    rows: LabelRows,
    classes: Sequence[str],
    decided: dict[int, str] | None = None,
    decisions: dict[int, str] | None = None,
) -> Columns:
    """Columns in the order of the examples: what was given, what is suggested, and how sure.

    `decided` are the labels that a person stands for, `decisions` the kind of every decision.
    """
    order = np.argsort(rows.index)
    given = [classes[code] for code in rows.given[order].tolist()]
    stands = {**dict(enumerate(given)), **(decided or {})}
    kinds = decisions or {}
    columns = {
        "index": list(range(len(rows))),
        "given": given,
        "label": [stands[index] for index in range(len(rows))],
        "suggested": [classes[code] for code in rows.suggested[order].tolist()],
        "p_clean": rows.p_clean[order].round(6).tolist(),
        "p_suggested": rows.p_suggested[order].round(6).tolist(),
        "suspect": rows.suspect[order].tolist(),
        "decision": [kinds.get(index, "") for index in range(len(rows))],
    }
    return {OWN_COLUMNS + name: values for name, values in columns.items()}


def spread(columns: Columns, places: Sequence[int], size: int) -> Columns:
    """Columns of a table of `size` rows of which only those at `places` are examples."""
    if len(places) == size:
        return columns
    wide: Columns = {}
    for name, values in columns.items():
        cells: list[Any] = [None] * size
        for place, value in zip(places, values, strict=True):
            cells[place] = value
        wide[name] = cells
    return wide
