"""Wrong labels and accuracy by group, such as a source or a month.

Shapes: N examples, C classes.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from labelproof.judging.numbers import logit, sigmoid
from labelproof.judging.statements import NOTHING_FOUND, RATE_SD, Z90

UNSURE = 1.5 * RATE_SD * Z90  # what the model gets wrong, as for a class


@dataclass(frozen=True, kw_only=True)
class GroupHealth:
    """The labels of one group, such as a source or a month."""

    name: str
    size: int
    wrong: float | None  # estimated share of wrong labels; None where only an interval is stated
    low: float  # 90% interval
    high: float
    suspects: int
    accuracy: float | None  # estimated share of right held-out predictions
    classes: list[float]  # share of each class
    unusual: float  # total variation from the classes of all examples


@dataclass(frozen=True, kw_only=True)
class Whole:
    """What is stated of the labels of all groups together."""

    rate: float | None = None  # share of wrong labels; None where only the interval is stated
    low: float = 0.0  # 90% interval
    high: float = 1.0
    ambiguous: bool = True  # whether all labels that the model contradicts may be right


def by_group(
    groups: Sequence[str],
    clean: Tensor,
    suspect: Tensor,
    labels: Tensor,
    classes: int,
    right: Tensor | None = None,
    whole: Whole | None = None,
) -> list[GroupHealth]:
    """Noise rate, accuracy and label distribution by group, the noisiest first.

    Args:
        groups: (N,) the group of each example.
        clean: (N,) probability that the label is right.
        suspect: (N,) which labels are suspects.
        labels: (N,) given labels.
        classes: C.
        right: (N,) probability that the held-out prediction is right; None where nothing was
            judged.
        whole: what is stated of all labels; nothing where None. A group is stated no surer.
    """
    whole = whole or Whole()
    mean = (1 - clean.double()).clamp(0, 1).mean().item()
    names, codes = np.unique(np.array(groups, dtype=object).astype(str), return_inverse=True)
    usual = labels.bincount(minlength=classes).double() / len(labels)
    found: dict[str, tuple[float, GroupHealth]] = {}
    for place, name in enumerate(names.tolist()):
        mine = torch.from_numpy(codes == place)
        wrong = (1 - clean[mine].double()).clamp(0, 1).mean().item()
        low, high = group_interval(wrong, int(mine.sum()), mean, whole)
        shares = labels[mine].bincount(minlength=classes).double() / int(mine.sum())
        found[name] = (
            wrong,
            (
                GroupHealth(
                    name=name,
                    size=int(mine.sum()),
                    wrong=None if whole.rate is None else wrong,
                    low=low,
                    high=high,
                    suspects=int(suspect[mine].sum()),
                    accuracy=None
                    if right is None
                    else right[mine].double().mean().clamp(0, 1).item(),
                    classes=shares.tolist(),
                    unusual=(shares - usual).abs().sum().item() / 2,
                )
            ),
        )
    noisiest = sorted(found.values(), key=lambda one: -one[0])
    return [group for _, group in noisiest]


def group_interval(wrong: float, size: int, mean: float, whole: Whole) -> tuple[float, float]:
    """A 90% interval of the share of wrong labels of a group, made on the logit scale.

    It is at least as wide as the interval of all labels and as that of a class, and then made wider
    by chance. What cannot be told of all labels cannot be told of a group.

    Args:
        wrong: estimated share of wrong labels of the group.
        size: its examples.
        mean: estimated share of wrong labels of all examples.
        whole: what is stated of all labels.
    """
    if whole.low <= 0 and whole.high >= 1:
        return 0.0, 1.0
    least, middle, most = logit(np.array([whole.low, mean, whole.high]))
    below = max(UNSURE, middle - least) if whole.low > 0 else UNSURE
    above = max(UNSURE, most - middle) if whole.high < 1 else UNSURE
    chance = Z90**2 / max(size * wrong, 1.0)
    ends = [-math.sqrt(below**2 + chance), math.sqrt(above**2 + chance)]
    low, high = sigmoid(logit(np.array([wrong])) + np.array(ends)).tolist()
    if low < NOTHING_FOUND or whole.ambiguous:
        low = 0.0
    if whole.high >= 1:
        high = 1.0
    return low, min(1.0, max(high, low + whole.high - whole.low))
