"""Which training example each row of a frame or a data set is: by id, by index, or by its order.

Findings on the wrong rows are worse than none: an order that contradicts the run is refused.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from labelproof.data.labels import is_missing
from labelproof.data.readers.file_names import printable
from labelproof.errors import BadInput
from labelproof.runs.labels_file import Columns
from labelproof.runs.reviewed import Reviewed
from labelproof.runs.votes_file import read_votes

READ_AS_GAPS = {"na", "n/a", "nan", "none", "null", "<na>"}  # labels that pandas reads as missing


@dataclass(frozen=True, kw_only=True)
class Trained:
    """What was found, in the order of the training examples, and what tells these apart."""

    columns: Columns
    id_column: str | None = None
    ids: Sequence[str] = ()
    index: Any = None  # of the frame that a classifier was fitted on
    hashes: Any = None  # of the rows of that frame
    said: Mapping[str, Sequence[set[str]]] = field(default_factory=dict)  # by column: cells of each

    @property
    def size(self) -> int:
        """How many examples there are."""
        return len(next(iter(self.columns.values())))


@dataclass(frozen=True, kw_only=True)
class Rows:
    """A user's rows, of whatever kind."""

    size: int
    columns: Mapping[str, Any]  # by name, what gives the values of a column as a list
    index: Any = None  # of a frame
    hashes: Any = None  # of the rows of a frame, by the columns that a classifier was fitted on


def of_run(review: Reviewed) -> Trained:
    """The findings of a run folder."""
    columns = review.findings()
    parts = (review.record.get("data") or {}).get("columns") or {}
    return Trained(
        columns=columns,
        id_column=parts.get("id"),
        ids=list(review.ids()),
        said=_said(review, parts.get("label"), columns),
    )


def _said(review: Reviewed, label: str | None, columns: Columns) -> dict[str, Sequence[set[str]]]:
    """The cells that columns of labels had, by column: other rows have others."""
    spec = review.record.get("spec") or {}
    if spec.get("noise") or spec.get("reviewed"):
        return {}  # the labels of the run are not those of the file
    if label is not None:
        spelled = [columns["labelproof_given"], columns["labelproof_label"]]
        if not all(_plain(name).isdigit() for name in review.classes):
            spelled.append(review.rows.labels().tolist())  # Hugging Face writes numbers for names
        return {label: [set(map(_plain, cells)) for cells in zip(*spelled, strict=True)]}
    votes = read_votes(review.folder, review.classes, len(review.rows))
    people = {who for said in votes.values() for who, *_ in said}
    found: dict[str, Sequence[set[str]]] = {}
    for who in people:
        cells: list[set[str]] = [{""} for _ in range(len(review.rows))]
        for row, said in votes.items():
            cells[row] = {_plain(vote) for name, vote, _ in said if name == who} or {""}
        found[who] = cells
    return found


def places(rows: Rows, trained: Trained) -> list[int]:
    """The number of the training example that each row is.

    Raises:
        BadInput: If rows cannot be matched.
    """
    if trained.id_column is not None and trained.id_column in rows.columns:
        return _by_id(rows, trained, trained.id_column)
    if rows.size != trained.size:
        raise BadInput(
            f"expected the {trained.size} rows of the training data, but got {rows.size}; give the "
            "rows that were trained on, in their order."
        )
    if trained.index is not None and _same_names(rows.index, trained.index):
        return _by_index(rows, trained)
    if trained.index is None and _reordered(rows.index):
        raise BadInput(
            "expected the rows in the order of the training data, but the frame's index says that "
            "they were reordered; sort them with frame.sort_index(), or say that this is the order "
            "of the training data with frame.reset_index(drop=True)."
        )
    _check_said(rows, trained)
    return list(range(trained.size))


def _by_id(rows: Rows, trained: Trained, column: str) -> list[int]:
    place = {name: number for number, name in enumerate(trained.ids)}
    names = [printable(str(value)) for value in rows.columns[column]()]
    strange = [name for name in names if name not in place]
    if strange:
        raise BadInput(
            f"expected ids of the training data in the column {column!r}, but {len(strange)} of "
            f"{len(names)} are not among them (such as {strange[0]!r}, where the training data has "
            f"{trained.ids[0]!r}); give the rows that were trained on, with their ids as text."
        )
    return [place[name] for name in names]


def _by_index(rows: Rows, trained: Trained) -> list[int]:
    """Rows by their index, or in order where their contents say that it was numbered anew."""
    order = trained.index.get_indexer(rows.index)
    if rows.hashes is not None and trained.hashes is not None:
        named = (rows.hashes == trained.hashes[order]).all()
        if not named and (rows.hashes == trained.hashes).all():
            order = np.arange(trained.size)
        elif not named:
            raise BadInput(
                "expected the rows that the classifier was fitted on, but the contents of some "
                "differ from those of the row with the same index; give the frame of `fit`, with "
                "its index."
            )
    return [int(place) for place in order]


def _same_names(index: Any, known: Any) -> bool:
    """Whether two indices name the same rows, each once, in whatever order."""
    return bool(
        index is not None
        and index.is_unique
        and known.is_unique
        and len(index) == len(known)
        and index.isin(known).all()
    )


def _reordered(index: Any) -> bool:
    """Whether an index holds the numbers of all rows, but not in their order."""
    if index is None or index.dtype.kind not in "iu":
        return False
    numbers = np.asarray(index)
    counted = np.arange(len(numbers))
    return bool((np.sort(numbers) == counted).all() and (numbers != counted).any())


def _check_said(rows: Rows, trained: Trained) -> None:
    """Refuse rows whose labels are not those of the run, one by one."""
    for column, cells in trained.said.items():
        if column not in rows.columns:
            continue
        for number, (value, known) in enumerate(zip(rows.columns[column](), cells, strict=True)):
            gap = is_missing(value) and known & READ_AS_GAPS
            if _plain(value) not in known and not gap:
                raise BadInput(
                    "expected the rows in the order of the training data, but row "
                    f"{number} (counting from 0) has {printable(str(value))!r} in the column "
                    f"{column!r}, where the training data had {max(known)!r}; put the rows into "
                    "their order, read the labels as text (dtype=str), or train with a column of "
                    "ids (--id-column), by which rows are matched."
                )


def _plain(value: Any) -> str:
    """A label in small letters; a gap is empty, a whole number has no point and no leading 0."""
    if is_missing(value):
        return ""
    text = "".join(printable(str(value)).casefold().split()).removesuffix(".0")
    return text.lstrip("0") or "0" if text.isdigit() else text


def index_of(x: Any) -> Any:
    """The index of a frame of pandas; None for other inputs."""
    pandas = sys.modules.get("pandas")
    return x.index if pandas is not None and isinstance(x, pandas.DataFrame) else None


def hashes_of(x: Any, names: Sequence[str] | None = None) -> Any:
    """A number for each row of a frame of pandas, (N,), by the columns named; None for others."""
    pandas = sys.modules.get("pandas")
    if pandas is None or not isinstance(x, pandas.DataFrame):
        return None
    if names is not None and not set(names) <= set(x.columns):
        return None
    try:
        part = x if names is None else x[list(names)]
        return pandas.util.hash_pandas_object(part, index=False).to_numpy()
    except TypeError:  # cells that are lists
        return None
