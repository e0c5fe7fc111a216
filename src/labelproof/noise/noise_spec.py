"""A noise as it is asked for, and the record of what it did to the labels.

Asked for in words: `symmetric:0.4`, `pair:0.45,select=per-class`, `matrix:t.csv`.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
from torch import Tensor

from labelproof.choices import NOISE_KINDS, Option
from labelproof.errors import BadInput
from labelproof.messages import closest

KINDS = NOISE_KINDS
Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]
Labels = npt.ArrayLike | Tensor

VERSION = 1  # of the generators: the same seed gives the same labels as long as this stays
NESTED = 100  # up to this many classes the matrix is written out in full


@dataclass(frozen=True, kw_only=True)
class NoiseSpec:
    """A kind of noise, its rate and its options, as checked by `parse_noise` or `noise_spec`."""

    kind: str
    rate: float  # 0 for a matrix, which brings its own
    options: Mapping[str, Option] = field(default_factory=dict)
    file: str | None = None  # of a matrix


def parse_noise(text: str) -> NoiseSpec:
    """Read `KIND:RATE`, `KIND:RATE,option=value` or `matrix:FILE`.

    Raises:
        BadInput: If the kind is unknown, the rate is no share or an option does not fit the kind.
    """
    kind, colon, rest = text.strip().partition(":")
    if kind == "matrix" or not colon:
        return noise_spec(kind, None, file=rest or None)
    rate, _, options = rest.partition(",")
    return noise_spec(f"{kind},{options}" if options else kind, _number(rate, text))


def noise_spec(kind: str, rate: float | None, file: str | None = None) -> NoiseSpec:
    """Check a noise given in parts.

    Args:
        kind: One of `KINDS`, with its options after commas where there are any, as in
            `pair,select=per-class`; `matrix:FILE` is understood too.
        rate: The nominal rate; None for a matrix.
        file: The file of a matrix.

    Raises:
        BadInput: If the kind is unknown, the rate is no share or an option does not fit the kind.
    """
    if kind.startswith("matrix:"):
        kind, file = "matrix", kind.removeprefix("matrix:")
    kind, *pairs = (part.strip() for part in kind.split(","))
    options = {name.strip(): value.strip() for name, _, value in (p.partition("=") for p in pairs)}
    _known(kind, KINDS, "kind of noise")
    if kind == "matrix":
        if not file:
            raise BadInput("Noise from a matrix needs its file, as in matrix:transitions.csv.")
        return NoiseSpec(kind=kind, rate=0.0, file=file)
    if rate is None:
        raise BadInput(f"Noise of kind {kind} needs a rate from 0 to 1, as in {kind}:0.4.")
    check_rate(rate)
    return NoiseSpec(kind=kind, rate=rate, options=_options(kind, options))


def _options(kind: str, given: Mapping[str, str]) -> dict[str, Option]:
    read: dict[str, Option] = {}
    for name, text in given.items():
        _known(name, KINDS[kind], f"option of {kind} noise")
        values = {str(value).lower(): value for value in KINDS[kind][name]}
        _known(text.lower(), values, f"value of {name}")
        read[name] = values[text.lower()]
    return read


def _known(name: str, names: Mapping[str, object], what: str) -> None:
    if name in names:
        return
    near = closest(name, names, cutoff=0.4)
    hint = f"; did you mean {near}?" if near is not None else "."
    choices = f"it may be {', '.join(names)}" if names else "there is none"
    raise BadInput(f"There is no {what} called {name!r}: {choices}{hint}")


def _number(text: str, whole: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not math.isfinite(value):
        raise BadInput(
            f"The noise rate must be a number from 0 to 1, but {whole!r} has {text!r}; "
            "write for example symmetric:0.4."
        )
    return value


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
