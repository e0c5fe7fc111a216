"""How sure predictions may be: the scale of the link.

Predictions should be as sure on average as they are right. How often they are right is estimated
twice: by the judge's noise model, and by how often different models agree (`sharpness`). Neither
is always the better one, so the scale lies halfway between the two.

Shapes: C classes, N training examples, V views.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from labelproof.judging.judgement import Judgement
from labelproof.judging.numbers import Floats, log_softmax, minimise
from labelproof.judging.sharpness import Near, share_right

MOST = 200_000  # examples that a scale is fitted to
ABOVE_CHANCE, SUREST = 1.05, 0.995  # how sure predictions are at least, times 1 / C, and at most
BOUNDS = (math.log(1e-3), math.log(1e3))  # of the logarithm of a scale


def rights(
    values: Tensor,
    judged: Judgement,
    labels: Tensor,
    views: Floats,
    near: Near | None,
    forest: int | None = None,
) -> tuple[float, ...]:
    """How often predictions are right, by the noise model and, with two views, by `sharpness`.

    Never less often than they name the given label: wrong labels do not make models better. Where
    nobody can tell wrong labels from hard examples, the noise model cannot say more than that.
    Weak models agree with each other far more often than they are right, and a noise model then
    blames the labels: there, agreement with given labels is all that is known.

    Args:
        values: (N, C) held-out scores of what predicts.
        judged: what was found of the labels.
        labels: (N,) given labels before any review.
        views: (V, N, C) of single models.
        near: what neighbours say of some examples, where no view has those of all.
        forest: which of the views is a forest, if one is.
    """
    given, trust = labels.numpy(), judged.trust
    agreement = float((values.argmax(1).numpy() == given).mean())
    if trust.weak:
        return (agreement,)
    found = agreement if trust.ambiguous else max(1 - trust.model_error, agreement)
    some = slice(None, None, step_of(len(given))) if near is None else near.rows
    said = views[:, some].argmax(2)
    if near is not None:
        said = np.concatenate([said, near.said[None]])
    if len(said) < 2:
        return (found,)
    return found, share_right(said, log_softmax(values.numpy()[some]), given[some], forest)


def halfway(values: Tensor, shares: Sequence[float]) -> float:
    """The scale of scores (N, C) halfway between those that are as sure as each share says."""
    scales = [math.log(sure_scale(values, share)) for share in shares]
    return math.exp(sum(scales) / len(scales))


def sure_scale(values: Tensor, share: float) -> float:
    """The scale at which the likeliest class of scores (N, C) has this probability on average."""
    values, (low, high) = spread_rows(values), BOUNDS
    share = min(max(share, ABOVE_CHANCE / values.shape[1]), SUREST)
    for _ in range(40):
        middle = (low + high) / 2
        less = (math.exp(middle) * values).softmax(1).amax(1).mean().item() < share
        low, high = (middle, high) if less else (low, middle)
    return math.exp(low)


def spread_rows(values: Tensor) -> Tensor:
    """Rows (N, C) spread evenly over very many, all of fewer: one number needs no more."""
    return values[:: step_of(len(values))]


def step_of(size: int) -> int:
    """Every how manieth row is taken."""
    return max(1, -(-size // MOST))


def fit_scale(values: Tensor, target: Tensor) -> float:
    """The scale whose softmax has the least cross-entropy to the target distributions."""
    values, target = spread_rows(values), spread_rows(target)
    log_scale = torch.zeros((), dtype=torch.float64)

    def loss() -> Tensor:
        log_probs = (log_scale.exp() * values).log_softmax(1)
        return 0.5 / len(values) * log_scale.square() - (target * log_probs).sum(1).mean()

    minimise(loss, [log_scale], steps=30)
    return log_scale.exp().item()
