"""Several views of the same labels as one: weights that predict held-out given labels best.

A view is a distribution over classes for every example, from something that has not seen the
example's label: the method trained without its fold, a softmax regression, the nearest neighbours.

    s = log_softmax(c Σ_v w_v view_v),  ln w_v ~ N(ln 1/V, 1)

The likelihood of wrong labels would favour the view that imitates them best. So the weights are
moved on from there to lower (1 - p^q) / q, in which a label that a view is sure is wrong hardly
counts (Zhang and Sabuncu, NeurIPS 2018). Then likelihood sets the common scale c, since scores are
to say how likely each given label is.

Shapes: C classes, D features, N examples, V views.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import cross_entropy, normalize

from labelproof.functional.contrast import nearest
from labelproof.functional.softmax_regression import (
    PENALTIES,
    CrossFit,
    cross_fit,
    cross_fit_nested,
)
from labelproof.judging.numbers import Floats, Ints, log_softmax, minimise

FLOOR = -12.0  # log-probabilities below this count as this
ROBUST = 0.6  # q: 0 is likelihood, 1 is how often the label is named
NEIGHBOURS = 30
FEW, MANY = 20_000, 60_000  # examples up to which neighbours are always found, and never beyond
MOST_PRODUCTS = 1e12  # examples² times features beyond which neighbours take too long in between
MOST_NUMBERS = 5e7  # examples times features beyond which a regression takes too long
SAMPLE = 10_000  # examples to choose a penalty on


def stack(views: Floats, labels: Ints) -> tuple[Floats, Floats]:
    """Weights (V,) with which views (V, N, C) predict unseen labels best, and their sum (N, C)."""
    views = np.clip(views, FLOOR, 0.0)
    start = math.log(1 / len(views))
    log_weights = torch.full((len(views),), start, dtype=torch.float64)
    scale = torch.zeros((), dtype=torch.float64)  # ln c
    tensor, given = torch.from_numpy(views), torch.from_numpy(labels)

    def mixed() -> Tensor:
        sums: Tensor = torch.tensordot((log_weights + scale).exp(), tensor, 1)
        return sums

    def penalty() -> Tensor:
        return 0.5 / len(labels) * (log_weights - start).square().sum()

    def likelihood() -> Tensor:
        return cross_entropy(mixed(), given) + penalty()

    def robust() -> Tensor:
        said = mixed().log_softmax(1).gather(1, given[:, None]).exp()
        return ((1 - said**ROBUST) / ROBUST).mean() + penalty()

    minimise(likelihood, [log_weights], steps=60)
    if len(views) > 1:
        minimise(robust, [log_weights], steps=60)
        minimise(likelihood, [scale], steps=30)
    weights: Floats = (log_weights + scale).exp().numpy()
    return weights, log_softmax(np.tensordot(weights, views, 1))


def regression(
    x: Tensor,
    labels: Tensor,
    classes: int,
    fold: Tensor,
    fixed: Tensor | None = None,
    targets: Tensor | None = None,
) -> CrossFit | None:
    """Softmax regressions that were fitted without each fold; None where that takes too long.

    The penalty is chosen by held-out labels, on some of the examples where there are many.

    Args:
        x: (N, D) inputs on a sensible scale.
        labels: (N,) given labels.
        classes: C.
        fold: (N,) folds; each is judged by the others.
        fixed: (N,) labels that a person has confirmed.
        targets: (N, C) soft targets in place of the labels.
    """
    if x.numel() > MOST_NUMBERS:
        return None
    some = torch.randperm(len(x), generator=torch.Generator().manual_seed(0))[:SAMPLE]
    penalties: Sequence[float] = PENALTIES
    if len(some) < len(x):
        found = cross_fit(x[some], labels[some], classes, fold[some])
        at = PENALTIES.index(found.penalty)
        penalties = PENALTIES[max(at - 1, 0) : at + 1]
    return cross_fit_nested(
        x, labels, classes, fold, fixed=fixed, targets=targets, penalties=penalties
    )


def neighbours_in_time(size: int, width: int) -> bool:
    """Whether the neighbours of so many examples with so many features are found in time."""
    return size <= FEW or (size <= MANY and size * size * width <= MOST_PRODUCTS)


def neighbours(x: Tensor, labels: Tensor, classes: int, group: Tensor) -> Tensor:
    """Log-shares (N, C) of the labels of the nearest examples by angle, copies left out.

    One vote spread over all classes keeps the logarithm finite.
    """
    unit, count = normalize(x, dim=1), max(1, min(NEIGHBOURS, len(x) - 1))
    cosine, index = nearest(unit, unit, count, (group, group))
    votes = torch.zeros(len(x), classes).scatter_add_(1, labels[index], cosine.isfinite().float())
    return ((votes + 1 / classes) / (votes.sum(1, keepdim=True) + 1)).log()
