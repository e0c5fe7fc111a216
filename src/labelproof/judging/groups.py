"""Wrong labels and accuracy by group, such as a source or a month.

Shapes: N examples, C classes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor


@dataclass(frozen=True, kw_only=True)
class GroupHealth:
    """The labels of one group, such as a source or a month."""

    name: str
    size: int
    wrong: float  # estimated share of wrong labels
    low: float
    high: float
    suspects: int
    accuracy: float | None  # estimated share of right held-out predictions
    classes: list[float]  # share of each class
    unusual: float  # total variation from the classes of all examples


def by_group(
    groups: Sequence[str],
    clean: Tensor,
    suspect: Tensor,
    labels: Tensor,
    classes: int,
    right: Tensor | None = None,
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
    """
    names, codes = np.unique(np.array(groups, dtype=object).astype(str), return_inverse=True)
    whole = labels.bincount(minlength=classes).double() / len(labels)
    found = []
    for place, name in enumerate(names.tolist()):
        mine = torch.from_numpy(codes == place)
        wrong = (1 - clean[mine].double()).clamp(0, 1)
        error = 1.96 * (wrong.mean() * (1 - wrong.mean()) / len(wrong)).sqrt().item()
        shares = labels[mine].bincount(minlength=classes).double() / int(mine.sum())
        found.append(
            GroupHealth(
                name=name,
                size=int(mine.sum()),
                wrong=wrong.mean().item(),
                low=max(0.0, wrong.mean().item() - error),
                high=min(1.0, wrong.mean().item() + error),
                suspects=int(suspect[mine].sum()),
                accuracy=None if right is None else right[mine].double().mean().clamp(0, 1).item(),
                classes=shares.tolist(),
                unusual=(shares - whole).abs().sum().item() / 2,
            )
        )
    return sorted(found, key=lambda one: -one.wrong)
