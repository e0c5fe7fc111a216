"""How a source is read, and what it says of its examples beside their inputs."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from labelproof.data.examples import Encoder, Examples, Inputs
from labelproof.data.labels import Encoded, encode_labels
from labelproof.data.votes import Votes
from labelproof.errors import BadInput

Progress = Callable[[int, int], None]  # files done, files in all


@dataclass(frozen=True, kw_only=True)
class SourceOptions:
    """How to read: every field is also an option of the command line."""

    labels: Path | None = None  # CSV of labels for a flat folder of images
    label_key: str = "y"  # array of an .npz used as given labels
    truth_key: str | None = (
        None  # array, or column of a table, with true labels, for the audit alone
    )
    label_column: str | None = None  # column of a table; found by name where None
    file_column: str | None = None  # column of image paths
    text_column: str | None = None  # column of texts
    id_column: str | None = None  # column that names each row
    truth_column: str | None = None  # as truth_key, for tables
    annotators: tuple[str, ...] = ()  # columns or arrays with one person's labels each; patterns
    annotator_column: str | None = None  # who gave the label, where each row is one vote
    group: str | None = None  # column or array that says which group an example is of
    drop_columns: tuple[str, ...] = ()  # columns of a table that are no features
    data_dir: Path | None = None  # where the benchmark sets lie
    image_size: int | None = None  # edge in pixels; chosen from the data where None
    max_bad: float = 0.01  # share of unreadable files that is tolerated
    cache: Path | None = None  # folder for decoded, resized images
    memory_gb: float = 2.0  # images that fit into this much stay in memory
    merge_labels: bool = False  # labels that differ in capitals or blanks alone are one class
    skip_unlabelled: bool = False  # examples without a label are left out, not refused
    files: Path | None = None  # CSV that names the picture of each vector of an .npz
    shard: tuple[int, int] | None = None  # read the first of two: every n-th picture from the i-th
    sample: int | None = None  # for a plan: read so many rows, or a few pictures, instead of all
    text_model: Path | None = None  # folder of a transformer, for embeddings of texts

    @property
    def truth_name(self) -> str | None:
        """Column of true labels of a table, whichever option named it."""
        return self.truth_column or self.truth_key


@dataclass(frozen=True, kw_only=True)
class Reading:
    """How one source is read."""

    options: SourceOptions
    like: Examples | None = None  # the training data, where this is to be tested or predicted on
    progress: Progress | None = None


MANY_ROWS = 10  # from which on values that are all different name rows, not groups


def as_groups(values: Iterable[Any], what: str) -> list[str]:
    """The group of every example."""
    names = [str(name) for name in values]
    if len(set(names)) == len(names) > MANY_ROWS:
        raise BadInput(
            f"expected groups of several examples in {what}, but each of the {len(names)} values "
            "occurs only once, like a name of a row; name a source, a month or the like with "
            "--group"
        )
    return names


@dataclass(frozen=True, kw_only=True)
class EncodedRows:
    """Rows as inputs, and how they became so where they were words or texts."""

    inputs: Inputs
    encoder: Encoder | None = None
    captions: Sequence[str] | None = None
    warnings: tuple[str, ...] = ()
    left_out: Mapping[str, str] = field(default_factory=dict)  # columns, and why
    gaps: Tensor | None = None  # (N,) share of blank cells of each row; 1 for no text

    def examples(self, about: Mapping[str, Any]) -> Examples:
        """The rows alone, without labels."""
        encoding = {} if self.encoder is None else {"encoding": self.encoder.describe()}
        return Examples(
            x=self.inputs,
            labels=None,
            captions=self.captions,
            encoder=self.encoder,
            gaps=self.gaps,
            about={**about, **encoding},
        )


@dataclass(frozen=True, kw_only=True)
class Told:
    """What a source says of its examples beside their inputs."""

    given: Any = None  # labels; None for data to predict on
    truth: Any = None
    names: Sequence[str] | None = None  # of classes 0..C-1
    ids: list[str] | None = None
    groups: Sequence[str] | None = None
    votes: Votes | None = None
    rows: npt.NDArray[np.int64] | None = None  # (N,) of the source, where a row is a vote there
    what: str = "the labels"  # how sentences call the labels
    first_row: int = 0  # its number as the user counts

    def part(self, rows: npt.NDArray[np.int64]) -> Told:
        """The same of some of the examples."""
        return replace(
            self,
            given=_some(self.given, rows),
            truth=_some(self.truth, rows),
            ids=None if self.ids is None else [self.ids[row] for row in rows],
            groups=None if self.groups is None else [self.groups[row] for row in rows],
            votes=None if self.votes is None else self.votes.part(torch.from_numpy(rows)),
        )

    def coded(self, size: int, how: Reading) -> Encoded:
        """Labels and truth of so many examples, checked, as codes."""
        return encode_labels(
            self.given,
            size=size,
            truth=self.truth,
            names=self.names,
            known=how.like.classes if how.like is not None else None,
            what=self.what,
            first_row=self.first_row,
            merge=how.options.merge_labels,
            skip=how.options.skip_unlabelled,
        )

    def examples(self, rows: EncodedRows, coded: Encoded, about: Mapping[str, Any]) -> Examples:
        """The rows with what is said of them."""
        return replace(
            rows.examples(about),
            labels=coded.labels,
            truth=coded.truth,
            ids=self.ids,
            classes=coded.classes,
            votes=self.votes,
            groups=self.groups,
        )


def _some(values: Any, rows: npt.NDArray[np.int64]) -> Any:
    """Some of a column; None where there is none."""
    if values is None:
        return None
    return (values if isinstance(values, np.ndarray) else np.array(values, dtype=object))[rows]
