"""labels.index.npz: the content of a long labels.csv as arrays, so that it opens in seconds.

It carries the hash of the labels.csv it was made from. Where that has changed since, or the index
is damaged, labels.csv is read instead. Numbers are in millionths, as they stand in labels.csv.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, overload

import numpy as np
import numpy.typing as npt

from labelproof.data.plain_files import Refused, read_npz
from labelproof.files import file_hash, written_whole
from labelproof.judging.label_table import Codes, LabelRows, Names
from labelproof.run_files import LABELS, LABELS_INDEX

FEWEST = 200_000  # rows from which there is an index
NUMBERS = ("p_clean", "p_suggested", "margin")
UNIT = 1e6


@dataclass(frozen=True)
class Packed(Sequence[str]):
    """Many texts in one array of bytes."""

    text: npt.NDArray[np.uint8]
    start: Codes  # (N,) where each begins
    end: Codes  # (N,)

    def __len__(self) -> int:
        return len(self.start)

    @overload
    def __getitem__(self, place: int) -> str: ...
    @overload
    def __getitem__(self, place: slice) -> list[str]: ...
    def __getitem__(self, place: int | slice) -> str | list[str]:
        if isinstance(place, slice):
            return [self[i] for i in range(*place.indices(len(self)))]
        found = self.text[self.start[place] : self.end[place]].tobytes()
        try:
            return found.decode("utf-8", "surrogatepass")
        except UnicodeDecodeError:  # of a damaged index
            return found.decode("utf-8", "replace")


def packed(texts: Sequence[str], order: Codes) -> Packed:
    """The texts in another order: text i is `texts[order[i]]`."""
    parts = [text.encode("utf-8", "surrogatepass") for text in texts]
    ends = np.cumsum([len(part) for part in parts], dtype=np.int64)
    starts = np.concatenate([np.zeros(1, np.int64), ends])[:-1]
    return Packed(np.frombuffer(b"".join(parts), np.uint8), starts[order], ends[order])


def write_index(folder: Path, rows: LabelRows) -> None:
    """Write the index beside a labels.csv that was just written; of a short one there is none."""
    path = folder / LABELS_INDEX
    if len(rows) < FEWEST:
        path.unlink(missing_ok=True)
        return
    arrays: dict[str, npt.NDArray[Any]] = {
        "sha256": np.frombuffer(bytes.fromhex(file_hash(folder / LABELS)), np.uint8),
        "index": rows.index,
        "given": rows.given.astype(np.int32),
        "suggested": rows.suggested.astype(np.int32),
        "suspect": rows.suspect,
        **{name: np.rint(vars(rows)[name] * UNIT).astype(np.int64) for name in NUMBERS},
    }
    if rows.ids.of is not None:
        names = packed(rows.ids.of, np.arange(len(rows)))
        arrays |= {"text": names.text, "start": names.start, "end": names.end}
    with written_whole(path) as aside, aside.open("wb") as file:
        np.savez(file, **arrays)  # type: ignore[arg-type]


def read_index(folder: Path, classes: int, size: int) -> LabelRows | None:
    """The rows of labels.csv by its index; None where it is missing, damaged or of another one."""
    path = folder / LABELS_INDEX
    if not path.is_file():
        return None
    try:
        arrays, _ = read_npz(path, lambda name: True)
        if arrays["sha256"].tobytes().hex() != file_hash(folder / LABELS):
            return None
        return _rows(arrays, classes, size)
    except (KeyError, IndexError, OSError, Refused, ValueError):
        return None  # labels.csv says the same


def _names(text: npt.NDArray[Any], start: Codes, end: Codes, size: int) -> Packed:
    fits = text.dtype == np.uint8 and start.dtype == end.dtype == np.int64
    if not fits or text.ndim != 1 or not start.shape == end.shape == (size,):
        raise ValueError("the index is of another run")
    if start.min() < 0 or end.max() > len(text) or (start > end).any():
        raise ValueError("the index is of another run")
    return Packed(text, start, end)


def _rows(arrays: dict[str, Any], classes: int, size: int) -> LabelRows:
    index, names = np.asarray(arrays["index"], np.int64), None
    codes = {name: np.asarray(arrays[name], np.int64) for name in ("given", "suggested")}
    numbers = {name: arrays[name] / UNIT for name in NUMBERS}
    sound = np.array_equal(np.sort(index), np.arange(size)) and all(
        code.shape == (size,) and code.min() >= 0 and code.max() < classes
        for code in codes.values()
    )
    whole = [arrays[name] for name in ("index", *codes, *NUMBERS)]
    if (
        not sound
        or any(column.dtype.kind != "i" or column.shape != (size,) for column in whole)
        or any(numbers[p].min() < 0 or numbers[p].max() > 1 for p in ("p_clean", "p_suggested"))
    ):
        raise ValueError("the index is of another run")
    if "text" in arrays:
        names = _names(arrays["text"], arrays["start"], arrays["end"], size)
    return LabelRows(
        index=index,
        ids=Names(names, index),
        suspect=arrays["suspect"].reshape(size).astype(bool),
        given=codes["given"],
        suggested=codes["suggested"],
        p_clean=numbers["p_clean"],
        p_suggested=numbers["p_suggested"],
        margin=numbers["margin"],
    )
