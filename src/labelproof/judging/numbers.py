"""Small numerical tools of the judge: logits, softmax, fitting, ranks."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from labelproof.training.optimisers import LightLBFGS

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]

STEPS = 80  # of L-BFGS, at the most


def log_softmax(scores: Floats) -> Floats:
    """Scores (..., C) as log-probabilities."""
    out: Floats = scores - scores.max(-1, keepdims=True)
    out -= np.log(np.exp(out).sum(-1, keepdims=True))
    return out


def logit(probs: Floats) -> Floats:
    """ln p / (1 - p), finite."""
    p = np.clip(probs, 1e-9, 1 - 1e-9)
    out: Floats = np.log(p) - np.log1p(-p)
    return out


def sigmoid(values: Floats) -> Floats:
    """1 / (1 + exp(-v)), without overflow."""
    out: Floats = 0.5 * (1 + np.tanh(0.5 * np.asarray(values)))
    return out


def mean_ranks(values: Floats) -> Floats:
    """Rank of each value from 1 on; equal values share their mean rank."""
    from scipy.stats import rankdata  # slow to import

    ranks: Floats = rankdata(values)
    return ranks


def auroc(positive: Bools, score: Floats) -> float:
    """Probability that a positive scores above a negative; one half if either is missing."""
    hits = int(positive.sum())
    if hits in (0, len(positive)):
        return 0.5
    ranks = mean_ranks(score)
    return float((ranks[positive].sum() - hits * (hits + 1) / 2) / (hits * (len(score) - hits)))


def minimise(loss: Callable[[], Tensor], free: Sequence[Tensor], steps: int = STEPS) -> None:
    """Bring `loss` down by moving the tensors `free`, by L-BFGS; they end without a gradient."""
    for tensor in free:
        tensor.requires_grad_()
    optimiser = LightLBFGS(
        list(free), max_iter=steps, line_search_fn="strong_wolfe", tolerance_change=1e-9
    )

    def closure() -> Tensor:
        optimiser.zero_grad()
        value = loss()
        value.backward()  # type: ignore[no-untyped-call]
        return value

    with torch.enable_grad():
        optimiser.step(closure)  # type: ignore[no-untyped-call]
    for tensor in free:
        tensor.requires_grad_(False)
