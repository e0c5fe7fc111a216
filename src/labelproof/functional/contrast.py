"""Divergence of labels, an even choice among classes, a contrastive loss, nearest neighbours.

These are the parts of UniCon (Karim et al., CVPR 2022) that stand by themselves: the divergence it
scores labels by, the selection that takes as many of every class, and the loss that pulls two views
of an example together (NT-Xent of SimCLR).

Shapes: B batch, C classes, F features, N training examples.
"""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F
from torch import Tensor

from labelproof.errors import BadInput
from labelproof.functional.dirichlet import at_least_single

NO_LENGTH = 1e-12  # features shorter than this point nowhere


def label_divergence(probs: Tensor, labels: Tensor) -> Tensor:
    """Jensen-Shannon divergence of predictions from one-hot given labels, in nats.

    It depends on the probability p of the given label alone and falls as p rises:
    (p ln p + (1 - p) ln 2 - (1 + p) ln((1 + p) / 2)) / 2.

    Args:
        probs: (B, C).
        labels: (B,) int64 class ids.

    Returns:
        (B,), from 0 at p = 1 to ln 2 at p = 0.
    """
    p = at_least_single(probs).gather(-1, labels.unsqueeze(-1)).squeeze(-1).clamp(0, 1)
    q = 1 - p
    middle = (2 - q) * torch.log1p(-q / 2)  # (1 + p) ln((1 + p) / 2), exact near p = 1
    return ((torch.xlogy(p, p) + q * math.log(2) - middle) / 2).clamp(min=0)


def uniform_selection(divergence: Tensor, labels: Tensor, classes: int, share: float) -> Tensor:
    """The same number of every class: those whose labels are the least divergent.

    Args:
        divergence: (N,), the lower the better.
        labels: (N,) int64 given class ids.
        classes: C, among which the choice is divided.
        share: R, the share of all examples to choose in total.

    Returns:
        (N,) bool: of a class with n examples the first min(int(R N / C), n), ties in order.
    """
    quota = int(share * len(labels) / classes + 1e-9)  # 0.3 x 10 / 3 must be 1 in binary as well
    order = torch.argsort(divergence, stable=True)
    order = order[torch.argsort(labels[order], stable=True)]  # class by class, best first
    counts = torch.bincount(labels)
    starts = counts.cumsum(0) - counts
    place = torch.arange(len(labels), device=labels.device) - starts[labels[order]]
    kept = torch.zeros_like(labels, dtype=torch.bool)
    kept[order] = place < quota
    return kept


def nt_xent(first: Tensor, second: Tensor, temperature: float) -> Tensor:
    """Contrastive loss of two views: cross-entropy of finding an example's other view.

    Similarity is the cosine over the temperature; each of the 2 B features looks for its partner
    among all others, never itself.

    Args:
        first: (B, F) features of one view, of any length.
        second: (B, F) features of another view of the same examples.
        temperature: T > 0.

    Returns:
        (2 B,): those of `first`, then those of `second`; 0 where B = 1 leaves nothing to confuse.
    """
    if not temperature > 0:
        raise BadInput(f"The contrastive temperature must be above 0, not {temperature}.")
    directions = _directions(torch.cat([at_least_single(first), at_least_single(second)]))
    similarity = directions @ directions.T / temperature
    similarity = similarity.masked_fill(
        torch.eye(len(similarity), dtype=torch.bool, device=similarity.device), -math.inf
    )
    partner = torch.arange(len(similarity), device=similarity.device).roll(len(first))
    return -similarity.log_softmax(1).gather(1, partner[:, None]).squeeze(1)


def _directions(features: Tensor) -> Tensor:
    """Rows of length one; rows without length are zero and have no slope."""
    length = torch.linalg.vector_norm(features, dim=1, keepdim=True)
    rows = features / length.clamp(min=NO_LENGTH)
    return torch.where(length > NO_LENGTH, rows, torch.zeros_like(rows))


BLOCK = 2**24  # similarities computed at a time


@torch.no_grad()
def nearest(
    unit: Tensor, others: Tensor, count: int, same: tuple[Tensor, Tensor] | None = None
) -> tuple[Tensor, Tensor]:
    """The nearest of `others` (M, F) to each row (N, F), all of length one, the nearest first.

    Args:
        unit: (N, F).
        others: (M, F).
        count: K.
        same: numbers of the rows (N,) and of the others (M,); those of one number are left out,
            and where fewer than K remain, they come last with a cosine of -inf.

    Returns:
        Cosines and indices, (N, K) each.
    """
    step = max(1, BLOCK // max(len(others), 1))
    # all room is asked for once: small results between large blocks would keep these from reuse
    room = unit.new_empty(min(step, len(unit)), len(others))
    index = torch.empty(len(unit), count, dtype=torch.int64, device=unit.device)
    best = unit.new_empty(len(unit), count)
    for start in range(0, len(unit), step):
        rows = slice(start, start + step)
        similarity = torch.mm(unit[rows], others.T, out=room[: len(unit[rows])])
        if same is not None:
            similarity.masked_fill_(same[0][rows, None] == same[1], -torch.inf)
        torch.topk(similarity, count, dim=1, out=(best[rows], index[rows]))
    return best, index


def nearest_by_angle(features: Tensor, count: int, *, with_self: bool = False) -> Tensor:
    """Each row's nearest rows by cosine similarity, itself among them only if asked, (N, K).

    K is `count`, or as many rows as there are.
    """
    unit, own = F.normalize(features, dim=1), torch.arange(len(features), device=features.device)
    count = max(1, min(count, len(unit) if with_self else len(unit) - 1))
    return nearest(unit, unit, count, None if with_self else (own, own))[1]


def label_votes(labels: Tensor, near: Tensor, classes: int) -> Tensor:
    """Share of each class among the labels of the neighbours, (N, C)."""
    votes = torch.zeros(len(near), classes, device=near.device)
    votes.scatter_add_(1, labels[near], torch.ones_like(near, dtype=votes.dtype))
    return votes / near.shape[1]
