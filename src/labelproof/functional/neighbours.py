"""Votes of nearest neighbours, by the angle between features.

Shapes: C classes, F features, K neighbours, N examples.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

BLOCK = 2**24  # similarities computed at a time


def nearest_by_angle(features: Tensor, count: int, *, with_self: bool = False) -> Tensor:
    """Each row's nearest rows by cosine similarity, itself among them only if asked, (N, K).

    K is `count`, or as many rows as there are.
    """
    unit = F.normalize(features, dim=1)
    count = max(1, min(count, len(unit) if with_self else len(unit) - 1))
    if len(unit) == 1:
        return torch.zeros(1, 1, dtype=torch.long, device=unit.device)
    found = []
    for start in range(0, len(unit), max(1, BLOCK // len(unit))):
        rows = unit[start : start + max(1, BLOCK // len(unit))]
        similarity = rows @ unit.T
        if not with_self:
            own = torch.arange(len(rows), device=unit.device)
            similarity[own, own + start] = -torch.inf
        found.append(similarity.topk(count, dim=1).indices)
    return torch.cat(found)


def label_votes(labels: Tensor, near: Tensor, classes: int) -> Tensor:
    """Share of each class among the labels of the neighbours, (N, C)."""
    votes = torch.zeros(len(near), classes, device=near.device)
    votes.scatter_add_(1, labels[near], torch.ones_like(near, dtype=votes.dtype))
    return votes / near.shape[1]
