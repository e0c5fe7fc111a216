"""What a noise generator returns, and the checks they share."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from torch import Tensor

from labelproof.errors import BadInput

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]
Labels = npt.ArrayLike | Tensor

VERSION = 1  # of the generators: the same seed gives the same labels as long as this stays
NESTED = 100  # up to this many classes the matrix is written out in full


@dataclass(frozen=True, kw_only=True, eq=False)
class Noise:
    """Noisy labels and what was done to get them."""

    labels: Ints  # (N,)
    kind: str
    rate: float  # nominal
    realised: float  # share of labels that differ from those given
    matrix: Floats  # (C, C) share of class i now labelled j; an absent class keeps its 1
    options: Mapping[str, Any]
    seed: int | None = None

    def describe(self) -> dict[str, Any]:
        """All but the labels, ready for JSON; of the labels a hash."""
        return {
            "kind": self.kind,
            "rate": self.rate,
            "realised": self.realised,
            "options": dict(self.options),
            "seed": self.seed,
            "generator": VERSION,
            "labels_sha256": hashlib.sha256(self.labels.astype("<i8").tobytes()).hexdigest(),
            **self._transitions(),
        }

    def _transitions(self) -> dict[str, Any]:
        if len(self.matrix) <= NESTED:
            return {"matrix": self.matrix.round(6).tolist()}
        rows, columns = self.matrix.nonzero()
        cells = zip(rows.tolist(), columns.tolist(), strict=True)
        return {"transitions": [[i, j, round(float(self.matrix[i, j]), 6)] for i, j in cells]}


def record(
    before: Ints, after: Ints, num_classes: int, kind: str, rate: float, options: Mapping[str, Any]
) -> Noise:
    """The record of a change of labels, with its realised rate and matrix."""
    counts = np.zeros((num_classes, num_classes))
    np.add.at(counts, (before, after), 1)
    totals = counts.sum(1, keepdims=True)
    return Noise(
        labels=after,
        kind=kind,
        rate=float(rate),
        realised=float((before != after).mean()) if len(before) else 0.0,
        matrix=np.where(totals > 0, counts / np.maximum(totals, 1), np.eye(num_classes)),
        options=options,
    )


def checked(y: Labels, num_classes: int, rate: float) -> Ints:
    """The labels as int64, after a check of what the caller gave."""
    labels = np.asarray(y)
    if num_classes < 2:
        raise BadInput("Noise needs at least two classes, but the labels name only one.")
    if labels.ndim != 1 or labels.dtype.kind not in "iu":
        raise BadInput(
            f"Noise needs a one-dimensional array of integer labels, but got {labels.dtype} of "
            f"shape {labels.shape}; encode the labels as 0 to {num_classes - 1}."
        )
    if len(labels) and (labels.min() < 0 or labels.max() >= num_classes):
        raise BadInput(
            f"Labels must lie between 0 and {num_classes - 1} for {num_classes} classes, but range "
            f"from {labels.min()} to {labels.max()}; check the labels or the number of classes."
        )
    check_rate(rate)
    return labels.astype(np.int64)


def check_rate(rate: float) -> None:
    """Refuse a rate that is not between 0 and 1."""
    if not 0 <= rate <= 1:
        hint = f"; for {rate:g} per cent give {rate / 100:g}" if 1 < rate <= 100 else ""
        raise BadInput(f"A noise rate is a share between 0 and 1, but got {rate:g}{hint}.")
