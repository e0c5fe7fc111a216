"""`labelproof fit --multilabel COLUMNS`: a binary run for each column, and one joint report."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from fnmatch import fnmatchcase
from pathlib import Path

from labelproof.data.labels import encode_labels
from labelproof.data.readers import SourceOptions
from labelproof.data.readers.dispatch import TABLES
from labelproof.data.readers.file_names import printable
from labelproof.data.readers.table_files import LINES, PARQUET, read_header, read_table
from labelproof.errors import BadInput
from labelproof.runs.spec import RunSpec


def runs_of(spec: RunSpec, wanted: Sequence[str], out: Path) -> dict[str, RunSpec]:
    """A spec for each column, with the other columns left out of the features."""
    path = Path(str(spec.data))
    if path.suffix.lower() not in TABLES or not path.is_file():
        raise BadInput(
            "expected a table (CSV, Parquet, JSON lines, Excel) with --multilabel, but "
            f"{printable(path.name)} is not one; fit one label at a time with --label-key or "
            "--labels."
        )
    reading = spec.reading
    if reading.label_column or reading.annotators or reading.annotator_column:
        raise BadInput(
            "expected the labels in one place, but --multilabel was given with --label-column, "
            "--annotators or --annotator-column; give one of them."
        )
    header = read_header(path)
    for pattern in wanted:
        if not any(fnmatchcase(name, pattern) for name in header):
            raise BadInput(
                f"expected a column {pattern!r} in {printable(path.name)}, but it has "
                f"{', '.join(header[:20])}; correct --multilabel."
            )
    columns = [name for name in header if any(fnmatchcase(name, one) for one in wanted)]
    if len(columns) < 2:
        raise BadInput(
            f"expected two columns or more for --multilabel, but only {columns[0]!r} matches; use "
            "--label-column for a single column."
        )
    _check_labels(path, columns, reading)
    return {name: _one(spec, name, columns, out / _folder(name, number))
            for number, name in enumerate(columns, 1)}  # fmt: skip


def _check_labels(path: Path, columns: Sequence[str], reading: SourceOptions) -> None:
    """Refuse a column without classes before anything is trained on another."""
    suffix, frame = path.suffix.lower(), read_table(path, columns)
    for name in columns:
        encode_labels(
            frame[name].to_numpy(dtype=object),
            size=len(frame),
            what=f"the label column {name!r} of {printable(path.name)}",
            first_row=0 if suffix in PARQUET else 1 if suffix in LINES else 2,
            merge=reading.merge_labels,
            skip=reading.skip_unlabelled,
        )


def _one(spec: RunSpec, name: str, columns: Sequence[str], out: Path) -> RunSpec:
    others = tuple(other for other in columns if other != name)
    drop = (*spec.reading.drop_columns, *others)
    return replace(
        spec, out=out, reading=replace(spec.reading, label_column=name, drop_columns=drop)
    )


def _folder(name: str, number: int) -> str:
    """The column's name where it can name a folder."""
    plain = "".join(letter if letter.isalnum() or letter in "-_." else "-" for letter in name)
    return plain if plain == name and not name.startswith(".") else f"{number}-{plain.strip('.')}"
