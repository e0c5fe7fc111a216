"""Vectors or images in an .npy file, with labels in another one or in a CSV; no pickles."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from labelproof.data.examples import Examples
from labelproof.data.plain_files.numpy_files import LARGEST, Shape, read_npy, read_shape
from labelproof.data.plain_files.opcodes import Refused
from labelproof.data.readers.arrays import from_arrays
from labelproof.data.readers.delimited import LABEL_NAMES, layout, pick, read_columns, required
from labelproof.data.readers.file_names import printable
from labelproof.data.readers.on_disk import OnDisk, can_stay
from labelproof.data.readers.reading_options import Reading, SourceOptions
from labelproof.errors import BadInput
from labelproof.files import read_regular, without_waiting


def load_npy(path: Path, how: Reading) -> Examples:
    """Examples of an .npy file; `--labels` names an .npy or a CSV with a label for each row."""
    options, like = how.options, how.like
    name = printable(path.name)
    shape, before = _shape(path)
    size = shape.shape[0] if shape.shape else 0
    labels, truth, ids = None, None, None
    if options.annotators:
        raise BadInput(
            f"expected one label for each row of {name}, but --annotators names several; give "
            "votes in an .npz or a table"
        )
    if like is None:
        if options.labels is None:
            raise BadInput(
                f"expected labels for the rows of {name}, but none were given; name them with "
                "--labels (an .npy or a CSV with a label for each row, in the same order)"
            )
        labels, truth, ids = _beside(options.labels, options)
        if not np.ndim(labels):
            raise BadInput(
                f"expected a list of labels in {printable(options.labels.name)}, but it holds a "
                f"single value; give one for each row of {name}, in order"
            )
        if len(labels) != size:
            raise BadInput(
                f"expected a label for each of the {size} rows of {name}, but "
                f"{printable(options.labels.name)} has {len(labels)}; give one each, in order"
            )
    return from_arrays(
        _large(path, shape, before, options.memory_gb * 1e9) or _array(path),
        labels,
        truth=truth,
        ids=ids,
        like=like,
        name=name,
        merge=options.merge_labels,
        skip=options.skip_unlabelled,
        about={"source": "npy", "path": str(path)},
    )


def _beside(path: Path, options: SourceOptions) -> tuple[Any, Any, list[str] | None]:
    """Labels, true labels and names of the rows."""
    if path.suffix.lower() == ".npy":
        if options.truth_name is not None:
            raise BadInput(
                "expected true labels as a column of the CSV that --labels names, but it names "
                f"{printable(path.name)}; give a CSV, or leave --truth-key out"
            )
        return _array(path), None, None
    found = layout(path)
    wanted = (options.label_column, LABEL_NAMES, path, "--label-column")
    label = required(found.header, *wanted, "labels")
    truth = pick(found.header, options.truth_name, (), path, "--truth-key")
    usual = next((name for name in found.header if name.lower() == "id"), None)
    ids = pick(found.header, options.id_column, (), path, "--id-column") or usual
    columns = [name for name in (label, truth, ids) if name is not None]
    cells = dict(zip(columns, read_columns(path, found, columns), strict=True))
    return cells[label], cells[truth] if truth else None, cells[ids] if ids else None


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
