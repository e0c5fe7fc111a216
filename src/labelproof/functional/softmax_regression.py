"""Softmax regression on all folds at once: scores of labels by models that have not seen them.

    min over W, b of  mean CE(softmax(x W + b), labels) + penalty / 2 |W|²

All folds, and a fit to everything, are solved together by Nesterov's method in the eigenbasis of
the inputs, where Böhning's bound on the curvature (Ann. Inst. Stat. Math. 1992) is diagonal: steps
need no line search. A path of penalties, each begun at the one before, takes seconds.

Shapes: N examples, D features, C classes, K folds.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn.functional import one_hot

from labelproof.functional.select import confident, of_label

PENALTIES = (1.0, 0.3, 0.1, 0.03, 0.01, 0.003, 0.001)
NEAR = (1.0, 1 / 3)  # penalties of a second fit, in those of the first
INNER = 3  # folds within the other folds, to decide which labels are kept
STEPS = 40  # for each penalty
FEWER, LEVEL, FAR_LOWER = 1.5, 0.5, 6.0  # standard errors by which a regression is worse
CLOSE = 1e-4  # a step smaller than this in every weight ends the search
CURVATURE = 0.55  # of the cross-entropy by a logit, at the most 1/2, with some room
Basis = tuple[Tensor, Tensor]  # directions (D, R), and mean squares (R,) along them
FLAT = 1e-6  # directions with less of the largest variance are left out


@dataclass(frozen=True, kw_only=True)
class CrossFit:
    """A regression fitted to everything, and what regressions without each fold say of it."""

    log_probs: Tensor  # (N, C) out of fold
    weight: Tensor  # (D, C) of the fit to everything
    bias: Tensor  # (C,)
    penalty: float
    likelihood: float  # mean log-probability of the labels out of fold


def folds_of(labels: Tensor, count: int, rng: torch.Generator) -> Tensor:
    """A fold for every example, (N,): at random, each class spread as evenly as can be."""
    order = torch.randperm(len(labels), generator=rng)
    order = order[labels[order].argsort(stable=True)]
    fold = torch.empty(len(labels), dtype=torch.int64)
    fold[order] = torch.arange(len(labels)) % count
    return fold


def cross_fit(
    x: Tensor,
    labels: Tensor,
    classes: int,
    fold: Tensor,
    *,
    targets: Tensor | None = None,
    kept: Tensor | None = None,
    penalties: Sequence[float] = PENALTIES,
    basis: Basis | None = None,
) -> CrossFit:
    """Fit with every penalty and keep the one that predicts labels out of fold best.

    The path goes from strong to weak penalties and ends at the first that does worse.

    Args:
        x: (N, D) inputs on a sensible scale, float32.
        labels: (N,) classes whose likelihood out of fold decides.
        classes: C.
        fold: (N,) the fold of each example, 0 to K - 1.
        targets: (N, C) soft targets in place of the labels.
        kept: (N,) bool, examples that are fitted to and whose likelihood counts; all where None.
        penalties: in descending order.
        basis: of the inputs, where it is known.
    """
    goal = one_hot(labels, classes).float() if targets is None else targets.float()
    used = torch.ones(len(x), dtype=torch.bool) if kept is None else kept
    directions, variance = basis or eigenbasis(x)
    inputs, number = x @ directions, int(fold.max()) + 1
    keep = torch.stack([*((fold != k) & used for k in range(number)), used]).float()
    weight = torch.zeros(number + 1, inputs.shape[1], classes)
    bias = torch.zeros(number + 1, classes)
    best: CrossFit | None = None
    for penalty in penalties:
        weight, bias = _solve(inputs, variance, goal, keep, penalty, weight, bias)
        log_probs = torch.empty(len(x), classes)
        for k in range(number):
            rows = fold == k
            log_probs[rows] = (inputs[rows] @ weight[k] + bias[k]).log_softmax(1)
        found = CrossFit(
            log_probs=log_probs,
            weight=directions @ weight[-1],
            bias=bias[-1],
            penalty=penalty,
            likelihood=(goal * log_probs).sum(1)[used].mean().item(),
        )
        if best is not None and found.likelihood <= best.likelihood:
            break
        best = found
    assert best is not None
    return best


def cross_fit_twice(
    x: Tensor,
    labels: Tensor,
    classes: int,
    fold: Tensor,
    fixed: Tensor | None = None,
    targets: Tensor | None = None,
) -> Tensor:
    """Log-probabilities (N, C) out of fold, by regressions on all labels and on the kept ones.

    The second ones are fitted to the labels that the first ones keep (`confident`). The mean of
    both is returned.

    Args:
        x: (N, D).
        labels: (N,).
        classes: C.
        fold: (N,) as `folds_of` gives it.
        fixed: (N,) labels that are known to be right.
        targets: (N, C) soft targets in place of the labels.
    """
    basis = eigenbasis(x)
    first = cross_fit(x, labels, classes, fold, targets=targets, basis=basis)
    kept = confident(first.log_probs, labels) > 0.5
    kept = kept if fixed is None else kept | fixed
    near = [first.penalty * factor for factor in NEAR]
    second = cross_fit(
        x, labels, classes, fold, targets=targets, kept=kept, penalties=near, basis=basis
    )
    return (first.log_probs + second.log_probs) / 2


def cross_fit_nested(
    x: Tensor,
    labels: Tensor,
    classes: int,
    fold: Tensor,
    *,
    fixed: Tensor | None = None,
    targets: Tensor | None = None,
    penalties: Sequence[float] = PENALTIES,
) -> CrossFit:
    """The mean of a regression on all labels and one on the labels that are kept (`confident`).

    The first one alone, where it predicts labels out of fold better than the mean: with few
    examples of a class, or where nothing linear parts the classes, wrong ones are kept.

    Unlike those of `cross_fit_twice`, its log-probabilities out of fold have not seen the fold at
    all: which labels are kept is decided anew, within the other folds, for each of them.

    Args:
        x: (N, D).
        labels: (N,).
        classes: C.
        fold: (N,) as `folds_of` gives it.
        fixed: (N,) labels that are known to be right.
        targets: (N, C) soft targets in place of the labels.
        penalties: in descending order.
    """
    goal = one_hot(labels, classes).float() if targets is None else targets.float()
    basis = eigenbasis(x)
    first = cross_fit(x, labels, classes, fold, targets=goal, penalties=penalties, basis=basis)
    sure = torch.zeros(len(x), dtype=torch.bool) if fixed is None else fixed
    kept = (confident(first.log_probs, labels) > 0.5) | sure
    weight, bias = fit_to(x, goal, kept, first.penalty, basis)
    outside = torch.empty_like(first.log_probs)
    for k in range(int(fold.max()) + 1):
        held, rest = (fold == k).nonzero().squeeze(1), (fold != k).nonzero().squeeze(1)
        inner = folds_of(labels[rest], INNER, torch.Generator().manual_seed(k))
        own, basis = x[rest], eigenbasis(x[rest])
        part = cross_fit(
            own,
            labels[rest],
            classes,
            inner,
            targets=goal[rest],
            penalties=(first.penalty,),
            basis=basis,
        )
        kept = (confident(part.log_probs, labels[rest]) > 0.5) | sure[rest]
        inside = fit_to(own, goal[rest], kept, first.penalty, basis)
        outside[held] = (x[held] @ inside[0] + inside[1]).log_softmax(1)
    log_probs = ((first.log_probs + outside) / 2).log_softmax(1)
    if predicts_worse(log_probs, first.log_probs, labels):
        return first
    return CrossFit(
        log_probs=log_probs,
        weight=(first.weight + weight) / 2,
        bias=(first.bias + bias) / 2,
        penalty=first.penalty,
        likelihood=of_label(log_probs, labels).mean().item(),
    )


def predicts_worse(log_probs: Tensor, others: Tensor, labels: Tensor) -> bool:
    """Whether labels (N,) are predicted clearly worse by the first log-probabilities (N, C).

    Fewer labels are predicted; or about as many, and their likelihood is far lower. In standard
    errors of the mean difference.
    """
    hits = [(said.argmax(1) == labels).double() for said in (others, log_probs)]
    fewer = _standard_errors(hits[0] - hits[1])
    lower = _standard_errors((of_label(others, labels) - of_label(log_probs, labels)).double())
    return fewer > FEWER or (fewer > -LEVEL and lower > FAR_LOWER)


def _standard_errors(differences: Tensor) -> float:
    """The mean of differences (N,) in its standard errors; 0 where all are 0."""
    error = differences.std() / math.sqrt(len(differences))
    return float(differences.mean() / error.clamp_min(1e-12))


def fit_to(
    x: Tensor, goal: Tensor, kept: Tensor, penalty: float, basis: Basis | None = None
) -> tuple[Tensor, Tensor]:
    """Weights (D, C) and biases (C,) of a regression on the targets (N, C) of kept examples."""
    directions, variance = basis or eigenbasis(x)
    zero = torch.zeros(1, directions.shape[1], goal.shape[1]), torch.zeros(1, goal.shape[1])
    weight, bias = _solve(x @ directions, variance, goal, kept.float()[None], penalty, *zero)
    return directions @ weight[0], bias[0]


def top_variance(x: Tensor, most: int = 2000) -> float:
    """Mean square of the inputs (N, D) along the direction in which it is largest."""
    some = x[torch.linspace(0, len(x) - 1, min(len(x), most)).long()]
    return float(torch.linalg.matrix_norm(some, 2)) ** 2 / len(some)


def eigenbasis(x: Tensor) -> Basis:
    """Directions (D, R) in which the inputs (N, D) vary, and their mean squares (R,)."""
    if x.shape[1] > len(x):  # the same from N x N numbers, in place of D x D
        wide = x.double()
        squares, vectors = torch.linalg.eigh(wide @ wide.T / len(x))
        used = _varied(squares)
        lengths = (squares[used] * len(x)).sqrt()
        return (wide.T @ vectors[:, used] / lengths).float(), squares[used].float()
    squares, directions = torch.linalg.eigh((x.T @ x).double() / len(x))
    used = _varied(squares)
    return directions[:, used].float(), squares[used].float()


def _varied(squares: Tensor) -> Tensor:
    """Which of the mean squares, in ascending order, are not negligible."""
    return squares > FLAT * squares[-1].clamp_min(1e-30)


def _solve(
    x: Tensor,
    variance: Tensor,
    targets: Tensor,
    keep: Tensor,
    penalty: float,
    weight: Tensor,
    bias: Tensor,
) -> tuple[Tensor, Tensor]:
    """Weights (K + 1, R, C) and biases (K + 1, C) that minimise every fold's objective."""
    share = (keep / keep.sum(1, keepdim=True).clamp_min(1)).T[:, :, None]  # (N, K + 1, 1)
    stride = (1 / (CURVATURE * variance + penalty))[None, :, None]
    ahead, ahead_bias, pace = weight.clone(), bias.clone(), 1.0
    for _ in range(STEPS):
        slope, slope_bias = _gradient(x, targets, share, ahead, ahead_bias)
        slope = slope + penalty * ahead
        new, new_bias = ahead - stride * slope, ahead_bias - slope_bias / CURVATURE
        uphill = (slope * (new - weight)).sum() + (slope_bias * (new_bias - bias)).sum()
        pace = 1.0 if uphill > 0 else pace  # momentum that leads uphill is dropped
        faster = (1 + math.sqrt(1 + 4 * pace * pace)) / 2
        push = (pace - 1) / faster
        ahead, ahead_bias = new + push * (new - weight), new_bias + push * (new_bias - bias)
        weight, bias, pace = new, new_bias, faster
        if not slope.numel() or (stride * slope).abs().max() < CLOSE:
            break
    return weight, bias


def _gradient(
    x: Tensor, targets: Tensor, share: Tensor, weight: Tensor, bias: Tensor
) -> tuple[Tensor, Tensor]:
    """Gradients of the mean cross-entropy of every fold, (K + 1, R, C) and (K + 1, C)."""
    fits, width, classes = weight.shape
    flat = weight.permute(1, 0, 2).reshape(width, fits * classes)
    logits = (x @ flat).view(len(x), fits, classes) + bias
    error = _softmax(logits).sub_(targets[:, None]).mul_(share)
    slope = (x.T @ error.view(len(x), fits * classes)).view(width, fits, classes)
    return slope.permute(1, 0, 2), error.sum(0)


def _softmax(logits: Tensor) -> Tensor:
    """Softmax along the last axis; of few classes, PyTorch's own takes ten times as long."""
    shares = (logits - logits.amax(-1, keepdim=True)).exp_()
    return shares.div_(shares.sum(-1, keepdim=True))
