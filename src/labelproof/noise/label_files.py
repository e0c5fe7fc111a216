"""Noise for a file of labels: `labelproof corrupt labels.csv --kind symmetric --rate 0.4`.

The new file is the old one with some labels changed and every other byte as it was.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from labelproof.data.plain_files import Refused, read_npy
from labelproof.errors import BadInput
from labelproof.files import read_regular
from labelproof.noise.apply_noise import apply_noise
from labelproof.noise.csvtext import find_labels, replaced
from labelproof.noise.noise_spec import NoiseSpec, noise_spec
from labelproof.noise.record import Ints, Noise

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
            raise BadInput(f"{file} exists already and is left as it is; choose another --out.")
    corrupt = _corrupt_array if source.suffix == ".npy" else _corrupt_csv
    content, classes, noise = corrupt(source, spec, seed, label_column)
    about = {"source": source.name, "classes": list(classes), **noise.describe()}
    _write({target: content, beside: (json.dumps(about, indent=1) + "\n").encode()})
    return Corrupted(out=target, record=beside, classes=classes, noise=noise)


Outcome = tuple[bytes, tuple[str, ...], Noise]


def _corrupt_csv(source: Path, spec: NoiseSpec, seed: int, label_column: str | None) -> Outcome:
    raw = _bytes(source)
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
    """Write all files aside, then put each in its place."""
    aside = {path: path.with_name(f".{path.name}.{os.getpid()}.part") for path in files}
    try:
        for path, content in files.items():
            aside[path].write_bytes(content)
        for path, part in aside.items():
            os.replace(part, path)
    except OSError as error:
        for part in aside.values():
            with contextlib.suppress(OSError):
                part.unlink()
        reason = error.strerror or str(error)
        raise BadInput(
            f"The labels cannot be written to {error.filename} ({reason}); choose another --out."
        ) from error
