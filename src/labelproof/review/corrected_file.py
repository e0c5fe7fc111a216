"""Corrected labels in the form the labels came in: the same table, or an array, with new labels.

Cells that need no change stay as they were written; a changed one is spelled as the file spells
that class elsewhere. Rows are matched by their order, less the pictures that could not be read.
"""

from __future__ import annotations

import csv
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from labelproof.csv_files import plain, safe, write_csv
from labelproof.data.labels import check_labels, encode
from labelproof.data.merged_names import merged
from labelproof.data.optional_packages import need
from labelproof.data.readers.delimited import FILE_NAMES, LABEL_NAMES, layout, pick, reading
from labelproof.data.readers.file_names import printable
from labelproof.data.readers.npz import read_arrays
from labelproof.data.readers.table_files import PARQUET
from labelproof.errors import BadInput
from labelproof.files import written_whole
from labelproof.judging.label_table import Codes
from labelproof.runs.ownership import WITHHELD
from labelproof.runs.reread import removed_before
from labelproof.runs.reviewed import Reviewed
from labelproof.runs.spec import spec_of

TABLES = ("csv", "parquet")


@dataclass(frozen=True, kw_only=True)
class Table:
    """The table that the labels came from."""

    path: Path
    label: str  # column
    file: str | None  # column of pictures

    @property
    def parquet(self) -> bool:
        """Whether it is no text."""
        return self.path.suffix.lower() in PARQUET


def table_of(record: Mapping[str, Any]) -> Table | None:
    """The table with the labels of a run, if there was one."""
    data = record.get("data") or {}
    columns = data.get("columns") or {}
    if record.get(WITHHELD) and (data.get("source") in TABLES or data.get("labels")):
        raise BadInput(
            "the table that the labels came from is not read, because somebody else made this "
            "run folder; name it with --data TABLE, or export as .jsonl."
        )
    if data.get("source") in TABLES and "label" in columns:
        return Table(path=Path(data["path"]), label=columns["label"], file=columns.get("file"))
    if data.get("source") != "folder" or not data.get("labels"):
        return None
    path = Path(data["labels"])
    _there(path)
    header, options = layout(path).header, spec_of(record, path).reading
    label = pick(header, options.label_column, LABEL_NAMES, path, "--label-column")
    file = pick(header, options.file_column, FILE_NAMES, path, "--file-column")
    return Table(path=path, label=label or "", file=file)


def write_table(review: Reviewed, table: Table, out: Path) -> None:
    """The table again, with corrected labels."""
    _there(table.path)
    if table.parquet:
        _write_parquet(review, table, out)
    elif out.suffix.lower() in PARQUET:
        raise BadInput("only labels of a Parquet table can be written as one; use .csv.")
    else:
        _write_csv(review, table, out)


def write_npz_labels(review: Reviewed, path: Path, key: str, out: Path) -> None:
    """The array of labels of an .npz again, with corrected labels, as .npy."""
    _there(path)
    arrays, _ = read_arrays(path, {key})
    if key not in arrays:
        raise BadInput(f"expected labels under the key {key!r} in {path.name}; restore the file.")
    old = arrays[key]
    cells, gone = _corrected(review, old.reshape(-1).tolist(), None, path)
    new = [cell for row, cell in enumerate(cells) if row not in gone]
    save_array(np.array(new, dtype=None if old.dtype.kind in "US" else old.dtype), out)


def save_array(values: Any, out: Path) -> None:
    """An array as .npy, whole or not at all."""
    with written_whole(out) as aside, aside.open("wb") as file:
        np.save(file, values, allow_pickle=False)


def respell(review: Reviewed, cells: Sequence[Any], path: Path) -> list[Any]:
    """The labels as written, changed where a decision says so."""
    classes = tuple(review.classes)
    column = check_labels(list(cells), size=len(review.rows), what=f"the labels of {path.name}")
    if spec_of(review.record, path).reading.merge_labels:
        column = merged([column], classes)[0]
    old: Codes = encode(column, classes, what=f"the labels of {path.name}")
    new = review.corrected()
    _same_labels(review, old, path)
    spelling = {code: cells[row] for row, code in reversed(list(enumerate(old.tolist())))}
    spell = _speller(spelling, classes, cells)
    return [
        cell if was == now else spell(now)
        for cell, was, now in zip(cells, old.tolist(), new.tolist(), strict=True)
    ]


def _speller(
    spelling: Mapping[int, Any], classes: Sequence[str], cells: Sequence[Any]
) -> Callable[[int], Any]:
    """How the file writes a class; by name or number where it never does."""
    numbers = bool(cells) and not isinstance(cells[0], str)

    def spell(code: int) -> Any:
        if code in spelling or not numbers:
            return spelling.get(code, classes[code])
        return int(classes[code]) if classes[code].isdigit() else code

    return spell


def _same_labels(review: Reviewed, old: Codes, path: Path) -> None:
    """The file must still hold the labels of the run, unless the run itself had changed them."""
    if review.record.get("noise") or review.record.get("reviewed"):
        return
    other = int((old != review.rows.labels()).sum())
    if other:
        raise BadInput(
            f"{path.name} holds other labels than the run was trained on ({other} differ); "
            "restore the file, or export as .jsonl."
        )


def _write_csv(review: Reviewed, table: Table, out: Path) -> None:
    found = layout(table.path)
    with reading(table.path), table.path.open(encoding=found.encoding, newline="") as file:
        reader = csv.reader(file, delimiter=found.delimiter)
        rows = [[plain(cell) for cell in row] for row in reader if any(row)]
    place = found.header.index(table.label)
    where = found.header.index(table.file) if table.file else None
    body = rows[1:]
    files = [row[where] for row in body] if where is not None else None
    cells, gone = _corrected(review, [row[place] for row in body], files, table.path)
    for row, cell in zip(body, cells, strict=True):
        row[place] = cell
    body = [row for number, row in enumerate(body) if number not in gone]
    delimiter = "\t" if out.suffix.lower() == ".tsv" else found.delimiter
    header, *lines = ([safe(cell) for cell in row] for row in [rows[0], *body])
    write_csv(out, header, lines, delimiter)


def _write_parquet(review: Reviewed, table: Table, out: Path) -> None:
    arrow = need("pyarrow", "table", "a Parquet table")
    parquet, text = need("pyarrow.parquet", "table", ""), need("pyarrow.csv", "table", "")
    content = parquet.read_table(table.path)
    files = content.column(table.file).to_pylist() if table.file else None
    labels = content.column(table.label).to_pylist()
    cells, gone = _corrected(review, labels, files, table.path)
    place = content.schema.get_field_index(table.label)
    field = content.schema.field(place)
    content = content.set_column(place, field, arrow.array(cells, type=field.type))
    content = content.take([row for row in range(len(cells)) if row not in gone])
    with written_whole(out) as aside:
        if out.suffix.lower() in PARQUET:
            parquet.write_table(content, aside)
        else:
            text.write_csv(_escaped(arrow, content), aside)


def _escaped(arrow: Any, content: Any) -> Any:
    """A table whose texts no spreadsheet runs as formulas."""
    types = arrow.types

    def column(values: Any) -> Any:
        kind = values.type.value_type if types.is_dictionary(values.type) else values.type
        if not (types.is_string(kind) or types.is_large_string(kind)):
            return values
        cells = [cell if cell is None else safe(cell) for cell in values.to_pylist()]
        return arrow.array(cells, type=arrow.large_string())

    names = [safe(name) for name in content.column_names]
    return arrow.table([column(values) for values in content.columns], names=names)


def _corrected(
    review: Reviewed, cells: Sequence[Any], files: Sequence[Any] | None, path: Path
) -> tuple[list[Any], set[int]]:
    """The labels of a whole column with the corrections, and the rows that people removed."""
    kept, gone = kept_rows(review, files, len(cells), path)
    changed = dict(zip(kept, respell(review, [cells[row] for row in kept], path), strict=True))
    return [changed.get(row, cell) for row, cell in enumerate(cells)], gone


def kept_rows(
    review: Reviewed, files: Sequence[Any] | None, size: int, path: Path
) -> tuple[list[int], set[int]]:
    """Rows of a table that are examples of the run, and rows that people removed, then or now.

    Rows whose picture could not be read, and rows without a label, are neither.
    """
    data = review.record.get("data") or {}
    bad = {entry["path"] for entry in data.get("unreadable") or ()}
    blank = set(data.get("unlabelled") or ())
    names = enumerate(files if files is not None and bad else ())
    read = [row for row, name in names if printable(str(name).strip()) not in bad]
    read = [row for place, row in enumerate(read or range(size)) if place not in blank]
    before = set(removed_before(review.record))
    kept = [row for index, row in enumerate(read) if index not in before]
    gone = {row for index, row in enumerate(read) if index in before}
    if len(kept) != len(review.rows):
        raise BadInput(
            f"{printable(path.name)} has {len(kept)} rows, but the run was trained on "
            f"{len(review.rows)}; restore the file, or export as .jsonl."
        )
    return kept, gone | {kept[index] for index in review.decisions.removed()}


def _there(path: Path) -> None:
    if not path.is_file():
        raise BadInput(
            f"the labels of this run came from {path}, which is not there; "
            "restore it, or export as .jsonl, which needs no data."
        )
