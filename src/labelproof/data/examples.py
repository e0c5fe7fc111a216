"""What a reader returns: inputs by index, and everything else that is known of the examples."""

from __future__ import annotations

import copy
import hashlib
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Literal, Protocol, overload

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from labelproof.data.votes import Votes
from labelproof.errors import BadInput

Kind = Literal["images", "vectors"]


class Inputs(Protocol):
    """Raw inputs by index: uint8 (B, H, W, 3) for images, float32 (B, D) for vectors."""

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of one example."""

    @property
    def resident(self) -> bool:
        """Whether `take` is a mere memory look-up, so that nothing need be read ahead."""

    def __len__(self) -> int: ...

    def take(self, index: Tensor) -> Tensor:
        """Rows `index` (a CPU int64 tensor), in that order, as one CPU tensor."""

    def digest(self) -> str:
        """A hash that changes when the inputs do."""


@dataclass(frozen=True)
class Resident:
    """Inputs held in memory as one tensor."""

    data: Tensor
    key: str = ""  # the digest, where it is known: of what the tensor was made from
    resident: bool = True

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of one example."""
        return tuple(self.data.shape[1:])

    def __len__(self) -> int:
        return len(self.data)

    def take(self, index: Tensor) -> Tensor:
        """Rows `index`, in that order; vectors become float32 only here, to save memory."""
        rows = self.data[index]
        return rows if rows.dtype == torch.uint8 else rows.float()

    def digest(self) -> str:
        """Hash of shape, type and bytes, or of their origin."""
        if self.key:
            return self.key
        digest = hashlib.sha256(f"{self.data.dtype}{tuple(self.data.shape)}".encode())
        digest.update(self.data.contiguous().numpy().reshape(-1).data)  # no copy of gigabytes
        return digest.hexdigest()


def in_memory(array: npt.NDArray[Any]) -> Resident:
    """An array as inputs."""
    return Resident(torch.from_numpy(np.ascontiguousarray(array)))


@dataclass(frozen=True)
class Derived:
    """Inputs that are taken from others."""

    x: Inputs

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of one example."""
        return self.x.shape

    @property
    def resident(self) -> bool:
        """As the inputs it takes from."""
        return self.x.resident


@dataclass(frozen=True)
class Subset(Derived):
    """A few of the inputs."""

    rows: Tensor

    def __len__(self) -> int:
        return len(self.rows)

    def take(self, index: Tensor) -> Tensor:
        """Rows of the part."""
        return self.x.take(self.rows[index])

    def digest(self) -> str:
        """Hash of the whole and of the rows taken."""
        rows = self.rows.numpy().tobytes()
        return hashlib.sha256(self.x.digest().encode() + rows).hexdigest()


@dataclass(frozen=True)
class Repeated(Derived):
    """A few inputs, spread evenly over many, that stand for those around them."""

    count: int

    def __len__(self) -> int:
        return self.count

    def take(self, index: Tensor) -> Tensor:
        """Rows of the few."""
        return self.x.take(index * len(self.x) // self.count)

    def digest(self) -> str:
        """Hash of the few and of how many they stand for."""
        return hashlib.sha256(f"{self.x.digest()}{self.count}".encode()).hexdigest()


class Encoder(Protocol):
    """Turns rows or texts into vectors, fitted on the training data; saved beside the model."""

    def describe(self) -> dict[str, Any]:
        """What was done, in words and numbers, for run.json."""


@dataclass(frozen=True, kw_only=True)
class Examples:
    """What a source read, before any check of the labels."""

    x: Inputs
    labels: npt.NDArray[Any] | None  # (N,) as given: integers or strings; None when there are none
    truth: npt.NDArray[Any] | None = None  # (N,) true labels, for the audit alone
    ids: Sequence[str] | None = None  # a name per example (file, row id); the index where None
    classes: tuple[str, ...] | None = None  # names of classes 0..C-1 where the source knows them
    captions: Sequence[str] | None = None  # what to show a person, where x is no picture
    encoder: Encoder | None = None  # how raw examples became vectors; test data is read with it
    raw: Inputs | None = None  # the pictures behind x, where an encoder made vectors of them
    normalise: tuple[Sequence[float], Sequence[float]] | None = (
        None  # published mean and std, if any
    )
    mirrored: bool = True  # whether an image seen in a mirror keeps its label; digits do not
    about: Mapping[str, Any] = field(default_factory=dict)  # for run.json: path, what was done
    test: Examples | None = None  # a test part that came with the data
    groups: Sequence[str] | None = None  # a source, month or other group of each example
    votes: Votes | None = None  # who said what, where several people labelled; labels: majority
    sizes: Tensor | None = None  # (N, 2) heights and widths of pictures, before they are resized
    gaps: Tensor | None = None  # (N,) share of the cells of a row that are blank; 1 for no text

    @property
    def kind(self) -> Kind:
        """Images are (H, W, 3), vectors (D,)."""
        return "images" if len(self.x.shape) == 3 else "vectors"

    def __len__(self) -> int:
        return len(self.x)

    def noted(self, notes: Sequence[str], kind: str = "warnings", last: bool = True) -> Examples:
        """The same with more of the notes that a person is shown, after the others or before."""
        before = self.about.get(kind, ())
        told = [*before, *notes] if last else [*notes, *before]
        return replace(self, about={**self.about, kind: told}) if notes else self


def without(examples: Examples, removed: Collection[int]) -> Examples:
    """The examples but for some, by index; an example without a name keeps its number as one."""
    if not removed:
        return examples
    if min(removed) < 0 or max(removed) >= len(examples):
        raise BadInput(
            f"expected examples 0 to {len(examples) - 1} to leave out, but got {max(removed)}; "
            "use the data that was reviewed."
        )
    gone = set(removed)
    rows = torch.tensor([row for row in range(len(examples)) if row not in gone])
    picked = partial(_picked, rows=rows.tolist())
    captions = examples.captions
    return replace(
        examples,
        x=Subset(examples.x, rows),
        raw=Subset(examples.raw, rows) if examples.raw is not None else None,
        labels=None if examples.labels is None else np.asarray(examples.labels)[rows.numpy()],
        truth=None if examples.truth is None else np.asarray(examples.truth)[rows.numpy()],
        ids=picked(examples.ids) or [str(row) for row in rows.tolist()],
        captions=captions.part(rows.tolist())
        if isinstance(captions, Captions)
        else picked(captions),
        groups=picked(examples.groups),
        votes=examples.votes.part(rows) if examples.votes else None,
        sizes=None if examples.sizes is None else examples.sizes[rows],
        gaps=None if examples.gaps is None else examples.gaps[rows],
    )


def labelled_only(examples: Examples) -> Examples:
    """The examples but for those whose label is -1; `about` lists the places of these."""
    if examples.labels is None:
        return examples
    blank = np.flatnonzero(np.asarray(examples.labels) < 0).tolist()
    if not blank:
        return examples
    about = {**examples.about, "unlabelled": blank}
    told = about.get("sample")
    if told:  # for a plan: as many of those that were not read
        left = round(told["of"] * (1 - len(blank) / len(examples)))
        about["sample"] = {**told, "of": left}
    return replace(without(examples, blank), about=about)


def _picked(values: Sequence[str] | None, rows: Sequence[int]) -> list[str] | None:
    return None if values is None else [values[row] for row in rows]


LONGEST_SHOWN = 400  # letters


class Captions(Sequence[str]):
    """Rows in short, written when asked for."""

    def __init__(self, frame: Any, show: Callable[[int], str], without: Sequence[str] = ()) -> None:
        """Keep what is needed to show rows: in short by `show`, or all columns but `without`."""
        self._rows: Sequence[int] = range(len(frame))
        self._show = show
        names = [name for name in frame.columns if name not in without]
        self._columns = {str(name): frame[name].to_numpy(dtype=object) for name in names}

    def __len__(self) -> int:
        return len(self._rows)

    @overload
    def __getitem__(self, row: int) -> str: ...
    @overload
    def __getitem__(self, row: slice) -> list[str]: ...
    def __getitem__(self, row: int | slice) -> str | list[str]:
        """One caption, or a list of them."""
        if isinstance(row, slice):
            return [self._show(place) for place in self._rows[row]]
        return self._show(self._rows[row])

    def part(self, rows: Sequence[int]) -> Captions:
        """Some of the rows."""
        fewer = copy.copy(self)
        fewer._rows = [self._rows[row] for row in rows]
        return fewer

    def cells(self, row: int) -> list[tuple[str, str]]:
        """The row with all its columns: name and value, a gap as nothing."""
        place = self._rows[row]
        return [(name, _shown(values[place])) for name, values in self._columns.items()]


def _shown(value: Any) -> str:
    if value is None or str(value) in ("nan", "NaT", "<NA>"):
        return ""
    text = f"{value:.6g}" if isinstance(value, float) else str(value)
    return text if len(text) <= LONGEST_SHOWN else text[: LONGEST_SHOWN - 1] + "…"
