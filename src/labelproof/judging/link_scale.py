"""How sure predictions may be: the scale of the link, by held-out scores and what the judge found.

Shapes: C classes, N training examples.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor
from torch.nn.functional import one_hot

from labelproof.judging.judgement import Judgement
from labelproof.judging.numbers import minimise

LINK_EXAMPLES = 150  # at which the link goes half of the way to the judge's posterior
MIDDLE = 1.25  # how much surer a link is where nobody can tell wrong labels from hard examples,
FEW = 1000  # up to so many examples, and less with more
MOST = 200_000  # examples that a scale is fitted to
LESS = 0.25  # of that way is not gone where the model was misled
FEWER = 300  # the same where the judge is less sure than the method


def link_scale(
    values: Tensor,
    judged: Judgement,
    labels: Tensor,
    *,
    raw: float,
    cautious: bool,
    seen: bool = False,
) -> float:
    """The scale of the link for held-out scores of what predicts.

    Fitted to the given labels, a scale is right where all labels are, and too small where some are
    wrong. The judge's posterior moves it from there: nearly all of the way (of its logarithm) with
    thousands of examples, half of it with 150, not at all where no noise is sure, and a little less
    where the model was misled. A method that is trained as a Dirichlet is cautious by itself:
    where the judge is unsure, the link is not more so. Where labels that the model contradicts
    may be wrong or hard, it takes a middle way. Where nothing can be trusted, the given labels
    alone decide, or, if networks have seen them, nobody.

    Args:
        values: (N, C) held-out scores.
        judged: what was found of the labels.
        labels: (N,) given labels before any review.
        raw: the scale at which the scores are as sure as the method's own probabilities.
        cautious: whether the method is a Dirichlet.
        seen: whether the scores are of networks that were trained on the labels.
    """
    trust = judged.trust
    if trust.level == "none" and seen:
        return raw
    known = one_hot(spread_rows(labels), values.shape[1]).double()
    scale = given = fit_scale(spread_rows(values), known)
    if trust.level == "none":
        return given
    if trust.ambiguous or judged.noise_interval[0] > 0:
        true = fit_scale(values, torch.from_numpy(judged.posterior))
        way = len(values) / (len(values) + LINK_EXAMPLES) * (1 - LESS * trust.misled)
        scale = given * (true / given) ** way
    unsure = trust.level == "caution" and cautious and scale < raw
    scale = raw if unsure else scale
    few = FEW if trust.ambiguous else FEWER if unsure else 0
    return float(scale * MIDDLE ** min(1.0, few / len(values)))


def own_scale(values: Tensor, own: Tensor) -> float:
    """The scale at which scores (N, C) are as sure on average as probabilities (N, C)."""
    values, own = spread_rows(values), spread_rows(own)
    sure = own.amax(1).mean().item()
    low, high = math.log(1e-3), math.log(1e3)
    for _ in range(40):
        middle = (low + high) / 2
        less = (math.exp(middle) * values).softmax(1).amax(1).mean().item() < sure
        low, high = (middle, high) if less else (low, middle)
    return math.exp(low)


def spread_rows(values: Tensor) -> Tensor:
    """Rows (N, C) spread evenly over very many, all of fewer: one number needs no more."""
    return values[:: -(-len(values) // MOST)]


def fit_scale(values: Tensor, target: Tensor) -> float:
    """The scale whose softmax has the least cross-entropy to the target distributions."""
    values, target = spread_rows(values), spread_rows(target)
    log_scale = torch.zeros((), dtype=torch.float64)

    def loss() -> Tensor:
        log_probs = (log_scale.exp() * values).log_softmax(1)
        return 0.5 / len(values) * log_scale.square() - (target * log_probs).sum(1).mean()

    minimise(loss, [log_scale], steps=30)
    return log_scale.exp().item()
