"""Noise that depends on the class alone: symmetric, asymmetric, pair flip, any transition matrix.

`classwise` takes the kind, the true labels y (N,), the number C of classes, the share `rate` of
labels it changes, and the generator that its draws come from.

Shapes: N examples, C classes.
"""

from __future__ import annotations

from typing import Literal

import numpy as np
import numpy.typing as npt

from labelproof.errors import BadInput
from labelproof.noise.noise_spec import Floats, Ints, Labels, Noise, checked, record

Select = Literal["bernoulli", "global", "per-class"]
SYMMETRIC, EXCLUSIVE = "symmetric", "symmetric-exclusive"

# truck to automobile, bird to airplane, deer to horse, cat and dog to each other
CIFAR10_MAP: dict[int, int] = {9: 1, 2: 0, 4: 7, 3: 5, 5: 3}

# Superclass of each of the 100 fine classes, as published with the data set.
CIFAR100_SUPERCLASS: tuple[int, ...] = (
    *(4, 1, 14, 8, 0, 6, 7, 7, 18, 3, 3, 14, 9, 18, 7, 11, 3, 9, 7, 11),
    *(6, 11, 5, 10, 7, 6, 13, 15, 3, 15, 0, 11, 1, 10, 12, 14, 16, 9, 11, 5),
    *(5, 19, 8, 8, 15, 13, 14, 17, 18, 10, 16, 4, 17, 4, 2, 0, 17, 4, 18, 17),
    *(10, 3, 2, 12, 12, 16, 12, 1, 9, 19, 2, 10, 0, 1, 16, 12, 9, 13, 15, 13),
    *(16, 19, 2, 4, 6, 19, 5, 5, 8, 19, 18, 1, 2, 15, 6, 0, 17, 8, 14, 13),
)


def _ring(groups: npt.ArrayLike) -> Ints:
    """For each class the next one of its group, the first after the last, (C,)."""
    group = np.asarray(groups)
    target = np.empty(len(group), dtype=np.int64)
    for name in np.unique(group):
        members = np.flatnonzero(group == name)
        target[members] = np.roll(members, -1)
    return target


# The class that each class is confused with. As the papers say, CIFAR-100's stay in one of the
# twenty true superclasses; "blocks" takes ids 5k to 5k + 4, as most published code does.
TARGETS: dict[str, Ints] = {
    "asymmetric-cifar10": np.array([CIFAR10_MAP.get(label, label) for label in range(10)]),
    "asymmetric-cifar100": _ring(CIFAR100_SUPERCLASS),
    "asymmetric-cifar100-blocks": _ring(np.arange(100) // 5),
}


def classwise(
    kind: str,
    y: Labels,
    num_classes: int,
    rate: float,
    rng: np.random.Generator,
    *,
    exact: bool = True,
    select: Select = "bernoulli",
) -> Noise:
    """Noise that looks at the class alone.

    Args:
        kind: `symmetric` redraws labels uniformly over all classes, the true one included, so that
            rate (C - 1) / C are wrong (DivideMix, ELR, UniCon and DPC); `symmetric-exclusive` over
            the other classes; `pair` moves them to the following class, the last to the first; the
            kinds of `TARGETS` to the class that theirs is confused with.
        y: True labels, (N,).
        num_classes: C.
        rate: The share of labels that are redrawn or moved, where their class can be.
        rng: All draws come from it.
        exact: Of symmetric kinds: redraw exactly int(rate N) labels; otherwise each with
            probability `rate`, as Co-teaching and CORES do.
        select: Of the others: "bernoulli" draws for each example (DPC, Patrini); "global" takes an
            exact share of all examples, whatever their class (DivideMix, UniCon); "per-class" one
            of each class.
    """
    before = checked(y, num_classes, rate)
    after = before.copy()
    if kind in (SYMMETRIC, EXCLUSIVE):
        chosen = _chosen(len(before), rate, rng, exact)
        own, least = (before[chosen], 1) if kind == EXCLUSIVE else (0, 0)
        after[chosen] = (own + rng.integers(least, num_classes, size=len(chosen))) % num_classes
        return record(before, after, num_classes, kind, rate, {"exact": exact})
    target = _target(kind, num_classes)
    chosen = _selected(before, num_classes, rate, rng, select)
    after[chosen] = target[before[chosen]]
    return record(before, after, num_classes, kind, rate, {"select": select})


def symmetric(
    y: Labels, num_classes: int, rate: float, rng: np.random.Generator, *, exact: bool = True
) -> Noise:
    """Redraw labels uniformly over all classes; see `classwise`."""
    return classwise(SYMMETRIC, y, num_classes, rate, rng, exact=exact)


def from_matrix(y: Labels, matrix: npt.ArrayLike, rng: np.random.Generator) -> Noise:
    """Draw each label from its class's row of a transition matrix, (C, C), independently.

    The nominal rate is what the matrix leads to be expected of these labels.
    """
    rows = checked_matrix(matrix)
    before = checked(y, len(rows), 0.0)
    after = before.copy()
    draws = rng.random(len(before))
    for label, row in enumerate(rows):
        mine = before == label
        bounds = row.cumsum() / row.sum()
        after[mine] = np.searchsorted(bounds, draws[mine], side="right")
    rate = float(1 - rows[before, before].mean()) if len(before) else 0.0
    return record(before, after, len(rows), "matrix", rate, {})


def checked_matrix(matrix: npt.ArrayLike) -> Floats:
    """A transition matrix with rows that sum to one."""
    rows = np.asarray(matrix, dtype=np.float64)
    if rows.ndim != 2 or rows.shape[0] != rows.shape[1]:
        raise BadInput(f"A transition matrix is square, classes by classes, but got {rows.shape}.")
    bad = ~(np.isfinite(rows).all(1) & (rows >= 0).all(1) & (abs(rows.sum(1) - 1) <= 0.001001))
    if bad.any():
        first = int(bad.argmax())
        raise BadInput(
            "Every row of a transition matrix must hold shares of 0 to 1 that sum to one, but row "
            f"{first} of {len(rows)} (counted from 0) sums to {rows[first].sum():g} with smallest "
            f"value {rows[first].min():g}; divide each row by its sum."
        )
    shares: Floats = rows / rows.sum(1, keepdims=True)
    return shares


def _target(kind: str, num_classes: int) -> Ints:
    """The class that each class is moved to, (C,)."""
    target = TARGETS.get(kind, np.roll(np.arange(num_classes), -1))
    if len(target) != num_classes:
        raise BadInput(
            f"Noise of kind {kind} needs {len(target)} classes, but the data have {num_classes}; "
            "use pair, symmetric or a matrix."
        )
    return target


def _selected(
    labels: Ints, num_classes: int, rate: float, rng: np.random.Generator, select: Select
) -> Ints:
    """Indices of the examples to move."""
    if select != "per-class":
        return _chosen(len(labels), rate, rng, select == "global")
    members = (np.flatnonzero(labels == label) for label in range(num_classes))
    return np.concatenate([mine[_chosen(len(mine), rate, rng, True)] for mine in members])


def _chosen(count: int, rate: float, rng: np.random.Generator, exact: bool) -> Ints:
    """Indices of the examples to change: an exact share, or each with probability `rate`."""
    if exact:
        return rng.permutation(count)[: int(rate * count)]
    return np.flatnonzero(rng.random(count) < rate)
