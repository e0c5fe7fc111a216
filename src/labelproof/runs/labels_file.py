"""labels.csv: every label of a run with what the model thinks of it, worst first."""

from __future__ import annotations

import csv
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from labelproof.csv_cells import plain, safe
from labelproof.errors import BadInput
from labelproof.files import written_whole
from labelproof.judging.label_table import Codes, LabelRows, Numbers
from labelproof.run_files import LABELS

COLUMNS = ("index", "id", "given", "suggested", "p_clean", "p_suggested", "margin", "suspect")


RANGES = {"p_clean": (0.0, 1.0), "p_suggested": (0.0, 1.0), "suspect": (0.0, 1.0)}


def write_rows(folder: Path, rows: LabelRows, classes: Sequence[str]) -> None:
    """Write labels.csv into a run folder, row by row."""
    with (
        written_whole(folder / LABELS) as aside,
        aside.open("w", newline="", encoding="utf-8") as file,
    ):
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(COLUMNS)
        writer.writerows(_cells(rows, classes))


def _cells(rows: LabelRows, classes: Sequence[str]) -> Iterator[tuple[object, ...]]:
    columns = (rows.given, rows.suggested, rows.p_clean, rows.p_suggested, rows.margin)
    lists = [column.tolist() for column in (rows.index, *columns, rows.suspect.astype(int))]
    for (i, given, suggested, *numbers, suspect), name in zip(
        zip(*lists, strict=True), rows.ids, strict=True
    ):
        texts = (f"{number:.6f}" for number in numbers)
        yield (i, safe(name), safe(classes[given]), safe(classes[suggested]), *texts, suspect)


def read_rows(folder: Path, classes: Sequence[str], size: int) -> LabelRows:
    """Read labels.csv of a run folder.

    Args:
        folder: The run folder.
        classes: Names of the classes, from run.json.
        size: The number of training examples, from run.json.

    Raises:
        BadInput: If the file is missing, damaged, or of another run.
    """
    path = folder / LABELS
    if not path.is_file():
        raise BadInput(
            f"{folder} has no {LABELS}: the run has not finished or was copied in part; "
            "finish it with `labelproof fit ... --resume`, or copy it again."
        )
    columns = _columns(path)
    code = {name: place for place, name in enumerate(classes)}
    rows = LabelRows(
        index=_numbers(path, columns, "index").astype(np.int64),
        ids=tuple(columns["id"]),
        given=_codes(path, columns["given"], code),
        suggested=_codes(path, columns["suggested"], code),
        p_clean=_numbers(path, columns, "p_clean"),
        p_suggested=_numbers(path, columns, "p_suggested"),
        margin=_numbers(path, columns, "margin"),
        suspect=_numbers(path, columns, "suspect") != 0,
    )
    if len(rows) != size or not np.array_equal(np.sort(rows.index), np.arange(size)):
        raise BadInput(
            f"{path} does not hold each of the {size} training examples of run.json once; "
            "restore the run folder."
        )
    return rows


def _columns(path: Path) -> dict[str, list[str]]:
    try:
        with path.open(encoding="utf-8", newline="") as file:
            reader = csv.reader(file)
            header = next(reader, [])
            missing = [name for name in COLUMNS if name not in header]
            if missing:
                raise BadInput(f"{path} lacks the column {missing[0]!r}; restore the run folder.")
            rows = list(reader)
    except (OSError, UnicodeError, csv.Error) as error:
        raise BadInput(f"{path} cannot be read ({error}); restore the run folder.") from None
    for line, row in enumerate(rows, 2):
        if len(row) != len(header):
            raise BadInput(
                f"{path} has {len(row)} cells in row {line} where {len(header)} were expected; "
                "restore the run folder."
            )
    return {name: [plain(row[header.index(name)]) for row in rows] for name in COLUMNS}


def _numbers(path: Path, columns: dict[str, list[str]], name: str) -> Numbers:
    try:
        values: Any = np.array(columns[name], dtype=np.float64)
    except ValueError as error:
        raise BadInput(
            f"{path} holds what is no number in the column {name!r} ({error}); "
            "restore the run folder."
        ) from None
    low, high = RANGES.get(name, (-1e15, 1e15))
    if not ((values >= low) & (values <= high)).all():  # NaN fails too
        raise BadInput(
            f"{path} holds numbers beyond {low:g} to {high:g}, or NaN, in the column {name!r}; "
            "restore the run folder."
        )
    checked: Numbers = values
    return checked


def _codes(path: Path, names: list[str], code: dict[str, int]) -> Codes:
    try:
        return np.array([code[name] for name in names], dtype=np.int64)
    except KeyError as error:
        raise BadInput(
            f"{path} names a class {error} that run.json does not have; restore the run folder."
        ) from None
