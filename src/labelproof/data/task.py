"""What a method may see (`Task`), and what only the engine and the report may see (`Audit`).

`Examples` is what a reader returns; `prepare` splits it into these two.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, replace
from typing import Literal, Protocol

import torch
from torch import Tensor

from labelproof.data.examples import Inputs, Kind
from labelproof.data.votes import Votes

Policy = Literal[
    "cifar10",
    "cifar10_ninths",
    "imagenet",
    "imagenet_zoomed",
    "randaugment",
    "randaugment_3_15",
    "colour_jitter",
]


@dataclass(frozen=True, kw_only=True)
class Strong:
    """The strong view of images as a method's authors have it, in place of the data's own."""

    small: Policy  # operations for images that are cropped with a border, such as CIFAR's,
    large: Policy  # and for large ones, such as WebVision's
    cutout: bool = False  # whether a square is blanked where the data's own strong view blanks one


class Views(Protocol):
    """How a raw batch becomes what a network takes: float32 (B, 3, h, w) or (B, D)."""

    def plain(self, x: Tensor) -> Tensor:
        """The input itself, normalised."""

    def weak(self, x: Tensor, rng: torch.Generator) -> Tensor:
        """A slightly changed view, drawn per example."""

    def strong(self, x: Tensor, rng: torch.Generator, own: Strong | None = None) -> Tensor:
        """A heavily changed view, drawn per example; of images also as a method has it."""


@dataclass(frozen=True, kw_only=True)
class Task:
    """All that a method sees: inputs, given labels, views. No true label, no test data."""

    x: Inputs
    y: Tensor  # (N,) int64 given labels
    classes: tuple[str, ...]
    views: Views
    kind: Kind
    fixed: Tensor | None = None  # (N,) bool: labels a person has confirmed or corrected
    original: Tensor | None = None  # (N,) int64: labels before that, where it is known
    targets: Tensor | None = None  # (N, C) soft targets to train on in place of y
    votes: Votes | None = None  # who said what, for those who can use more than one label

    @property
    def size(self) -> int:
        """N, the number of training examples."""
        return len(self.y)

    @property
    def num_classes(self) -> int:
        """C."""
        return len(self.classes)

    def part(self, x: Inputs, rows: Tensor) -> Task:
        """The task with some of its examples (n,) alone; `x` are their inputs."""
        fixed = None if self.fixed is None else self.fixed[rows]
        original = None if self.original is None else self.original[rows]
        targets = None if self.targets is None else self.targets[rows]
        votes = None if self.votes is None else self.votes.part(rows)
        return replace(
            self,
            x=x,
            y=self.y[rows],
            fixed=fixed,
            original=original,
            targets=targets,
            votes=votes,
        )

    def digest(self) -> str:
        """A hash of inputs, labels and class names; a resumed run must show the same one."""
        text = self.x.digest() + "|".join(self.classes)
        fixed = b"" if self.fixed is None else self.fixed.numpy().tobytes()
        return hashlib.sha256(text.encode() + self.y.numpy().tobytes() + fixed).hexdigest()


@dataclass(frozen=True, kw_only=True)
class Audit:
    """What only engine and report may see: true labels, and test data with its labels."""

    truth: Tensor | None = None  # (N,) int64
    test_x: Inputs | None = None
    test_y: Tensor | None = None  # (M,) int64
