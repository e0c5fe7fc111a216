"""Noise that depends on the class alone: symmetric, asymmetric, pair flip, any transition matrix.

Every function takes the true labels y (N,), the number C of classes, the share `rate` of labels it
changes, and the generator that its draws come from.

Shapes: N examples, C classes.
"""

from __future__ import annotations

from typing import Literal

import numpy as np
import numpy.typing as npt

from labelproof.errors import BadInput
from labelproof.noise.record import Floats, Ints, Labels, Noise, checked, record

Select = Literal["bernoulli", "global", "per-class"]
Grouping = Literal["superclass", "blocks"]

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


def symmetric(
    y: Labels, num_classes: int, rate: float, rng: np.random.Generator, *, exact: bool = True
) -> Noise:
    """Redraw labels uniformly over all classes, the true one included; rate (C - 1) / C are wrong.

    This is what DivideMix, ELR, UniCon and DPC call symmetric.

    Args:
        exact: Redraw exactly int(rate N) labels; otherwise each with probability `rate`.
    """
    before = checked(y, num_classes, rate)
    chosen = _chosen(len(before), rate, rng, exact)
    after = before.copy()
    after[chosen] = rng.integers(num_classes, size=len(chosen))
    return record(before, after, num_classes, "symmetric", rate, {"exact": exact})


def symmetric_exclusive(
    y: Labels, num_classes: int, rate: float, rng: np.random.Generator, *, exact: bool = True
) -> Noise:
    """Redraw labels uniformly over the other classes, so that `rate` is the true rate.

    Args:
        exact: Change exactly int(rate N) labels; otherwise each with probability `rate`, as
            Co-teaching and CORES do.
    """
    before = checked(y, num_classes, rate)
    chosen = _chosen(len(before), rate, rng, exact)
    after = before.copy()
    after[chosen] += rng.integers(1, max(num_classes, 2), size=len(chosen))
    after %= num_classes
    return record(before, after, num_classes, "symmetric-exclusive", rate, {"exact": exact})


def asymmetric_cifar10(
    y: Labels,
    num_classes: int,
    rate: float,
    rng: np.random.Generator,
    *,
    select: Select = "bernoulli",
) -> Noise:
    """Confuse the five similar CIFAR-10 classes of `CIFAR10_MAP`; half of `rate` is the true rate.

    Args:
        select: "bernoulli" draws for each example (DPC, Patrini); "global" takes an exact share of
            all examples, whatever their class (DivideMix, UniCon); "per-class" one of each class.
    """
    _expect(num_classes, 10, "asymmetric-cifar10")
    target = np.array([CIFAR10_MAP.get(label, label) for label in range(10)])
    return _mapped(y, target, rate, rng, select, "asymmetric-cifar10")


def asymmetric_cifar100(
    y: Labels,
    num_classes: int,
    rate: float,
    rng: np.random.Generator,
    *,
    grouping: Grouping = "superclass",
    select: Select = "bernoulli",
) -> Noise:
    """Move CIFAR-100 labels to the next class of their group, in a ring.

    Args:
        grouping: "superclass" takes the twenty true superclasses, as the papers say; "blocks" takes
            ids 5k to 5k + 4, as most published code does; only 6 of 100 moves stay in a superclass.
        select: As for `asymmetric_cifar10`.
    """
    kind = "asymmetric-cifar100" if grouping == "superclass" else "asymmetric-cifar100-blocks"
    _expect(num_classes, 100, kind)
    return _mapped(y, ring(grouping), rate, rng, select, kind)


def pair(
    y: Labels,
    num_classes: int,
    rate: float,
    rng: np.random.Generator,
    *,
    select: Select = "bernoulli",
) -> Noise:
    """Move labels to the following class, the last to the first.

    Args:
        select: As for `asymmetric_cifar10`.
    """
    target = np.roll(np.arange(num_classes), -1)
    return _mapped(y, target, rate, rng, select, "pair")


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


def ring(grouping: Grouping) -> Ints:
    """The CIFAR-100 class each class moves to, (100,)."""
    group = np.array(CIFAR100_SUPERCLASS) if grouping == "superclass" else np.arange(100) // 5
    target = np.empty(100, dtype=np.int64)
    for name in range(20):
        members = np.flatnonzero(group == name)
        target[members] = np.roll(members, -1)
    return target


def _mapped(
    y: Labels, target: Ints, rate: float, rng: np.random.Generator, select: Select, kind: str
) -> Noise:
    before = checked(y, len(target), rate)
    after = before.copy()
    if select == "per-class":
        members = (np.flatnonzero(before == label) for label in range(len(target)))
        picks = [mine[_chosen(len(mine), rate, rng, True)] for mine in members]
        chosen = np.concatenate(picks)
    else:
        chosen = _chosen(len(before), rate, rng, select == "global")
    after[chosen] = target[before[chosen]]
    return record(before, after, len(target), kind, rate, {"select": select})


def _chosen(count: int, rate: float, rng: np.random.Generator, exact: bool) -> Ints:
    """Indices of the examples to change: an exact share, or each with probability `rate`."""
    if exact:
        return rng.permutation(count)[: int(rate * count)]
    return np.flatnonzero(rng.random(count) < rate)


def _expect(num_classes: int, wanted: int, kind: str) -> None:
    if num_classes != wanted:
        raise BadInput(
            f"Noise of kind {kind} needs {wanted} classes, but the data have {num_classes}; "
            "use pair, symmetric or a matrix."
        )
