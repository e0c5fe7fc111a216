"""Vectors or images in an .npy file, with labels in another one or in a CSV; no pickles."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from labelproof.data.examples import Examples, Inputs
from labelproof.data.plain_files.numpy_files import (
    LARGEST,
    Refused,
    Shape,
    read_npy,
    read_shape,
)
from labelproof.data.readers.arrays import as_inputs, from_arrays
from labelproof.data.readers.column_roles import assign, usual_ids, with_usual_id
from labelproof.data.readers.delimited import layout
from labelproof.data.readers.file_names import printable
from labelproof.data.readers.on_disk import OnDisk, can_stay
from labelproof.data.readers.reading_options import EncodedRows, Reading, SourceOptions
from labelproof.data.readers.row_facts import (
    csv_columns,
    refuse_vote_rows,
    tell,
    with_inputs,
)
from labelproof.errors import BadInput
from labelproof.files import read_regular, without_waiting


def load_npy(path: Path, how: Reading) -> Examples:
    """Examples of an .npy file; `--labels` names an .npy or a CSV with a label for each row."""
    options, name = how.options, printable(path.name)
    shape, before = _shape(path)
    size = shape.shape[0] if shape.shape else 0
    if how.like is None and options.labels is None:
        raise BadInput(
            f"expected labels for the rows of {name}, but none were given; name them with "
            "--labels (an .npy or a CSV with a label for each row, in the same order)"
        )
    listed = options.labels if how.like is None else None
    x = _large(path, shape, before, options.memory_gb * 1e9)
    about = {"source": "npy", "path": str(path)}
    if listed is not None and listed.suffix.lower() != ".npy":
        inputs = as_inputs(_array(path) if x is None else x, what=f"'x' of {name}")
        return _with_csv(inputs, listed, how, about)
    return from_arrays(
        _array(path) if x is None else x,
        _labels(listed, options, size, name) if listed is not None else None,
        like=how.like,
        name=name,
        merge=options.merge_labels,
        skip=options.skip_unlabelled,
        about=about,
    )


def _labels(path: Path, options: SourceOptions, size: int, name: str) -> npt.NDArray[Any]:
    """A label for each row, from an .npy that says nothing else."""
    for option, given in (
        ("--truth-key", options.truth_name),
        ("--annotators", options.annotators),
        ("--annotator-column", options.annotator_column),
        ("--group", options.group),
        ("--id-column", options.id_column),
    ):
        if given:
            raise BadInput(
                f"expected a CSV for --labels with {option}, which names a column, but it is "
                f"{printable(path.name)}; give a CSV, or leave {option} out"
            )
    labels = _array(path)
    if not np.ndim(labels):
        raise BadInput(
            f"expected a list of labels in {printable(path.name)}, but it holds a single value; "
            f"give one for each row of {name}, in order"
        )
    _check_count(len(labels), size, path, name)
    return labels


def _with_csv(inputs: Inputs, table: Path, how: Reading, about: dict[str, Any]) -> Examples:
    """Inputs with the columns of a CSV that has a row for each, in the same order."""
    how = replace(how, options=replace(how.options, labels=None))  # the votes are in this table
    header, what = layout(table).header, printable(table.name)
    roles = replace(assign(header, how, table), file=None, text=None)
    refuse_vote_rows(roles, printable(Path(about["path"]).name), "rows")
    wanted = [*roles.named, *usual_ids(header, roles)]
    columns = csv_columns(table, wanted)
    _check_count(len(columns[wanted[0]]), len(inputs), table, Path(about["path"]).name)
    roles = with_usual_id(roles, columns)
    told = tell(columns, roles, how, what, size=len(inputs), first_row=2)
    return with_inputs(EncodedRows(inputs=inputs), told, roles, how, about)


def _check_count(found: int, size: int, path: Path, name: str) -> None:
    if found != size:
        raise BadInput(
            f"expected a label for each of the {size} rows of {printable(name)}, but "
            f"{printable(path.name)} has {found}; give one each, in order"
        )


def _shape(path: Path) -> tuple[Shape, int]:
    """What the header says, and how many bytes it has."""
    try:
        with open(path, "rb", opener=without_waiting) as file:
            return read_shape(file), file.tell()
    except OSError as error:
        raise BadInput(
            f"{printable(path.name)} cannot be read ({error.strerror}); check the path"
        ) from None
    except Refused as error:
        raise _damaged(path, error) from None


def _large(path: Path, shape: Shape, before: int, most: float) -> OnDisk | None:
    """Vectors that stay in their file."""
    if shape.bytes <= most or not can_stay(shape) or os.stat(path).st_size != before + shape.bytes:
        return None
    size, width = shape.shape
    return OnDisk(path=path, start=before, size=size, width=width, dtype=shape.dtype.name)


def _array(path: Path) -> npt.NDArray[Any]:
    try:
        return read_npy(read_regular(path, LARGEST))
    except Refused as error:
        raise _damaged(path, error) from None


def _damaged(path: Path, error: Refused) -> BadInput:
    return BadInput(
        f"expected plain numbers or strings in {printable(path.name)}, but it could not be read "
        f"({error}); write it again with numpy.save"
    )
