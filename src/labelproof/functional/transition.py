"""Transition matrices of class-dependent noise: T_ij is the probability that class i is labelled j.

Estimated from the predictions of a network that was trained on the given labels, they correct a
loss (Patrini and others, CVPR 2017) and tell how likely a given label is the true one.

Shapes: B batch, C classes, N training examples.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor

from labelproof.errors import BadInput
from labelproof.functional.dirichlet import at_best_double


def anchor_transition(probs: Tensor, quantile: float) -> Tensor:
    """Estimate the transition matrix from the surest example, the anchor, of every class.

    Args:
        probs: (N, C) predicted distributions of the given label, N >= 1.
        quantile: for each class the anchor is the surest example below this quantile of its
            probability, so that a few outliers do no harm; 1 takes the surest of all.

    Returns:
        (C, C), row i the prediction for the anchor of class i; rows sum to 1.
    """
    columns = at_best_double(probs.detach())
    if quantile < 1:
        # the quantile, rounded up to an example; torch.quantile stops at 2^24 numbers
        limit = columns.kthvalue(math.ceil(quantile * (len(columns) - 1)) + 1, dim=0).values
        below = columns.masked_fill(columns >= limit, -1.0)
        # with no example below, the surest of all stands in
        columns = torch.where((below >= 0).any(0), below, columns)
    rows = at_best_double(probs.detach())[columns.argmax(0)]
    return (rows / rows.sum(1, keepdim=True)).to(probs.dtype)


def declared_transition(values: Sequence[float], classes: int) -> Tensor:
    """The (C, C) matrix a user declares, row after row.

    Raises:
        BadInput: if it has another size, a negative entry, or a row that does not sum to 1.
    """
    if len(values) != classes**2:
        raise BadInput(
            f"transition needs {classes} x {classes} numbers for {classes} classes, "
            f"row after row, but has {len(values)}."
        )
    matrix = torch.tensor(values, dtype=torch.float32).reshape(classes, classes)
    sums = matrix.sum(1)
    if matrix.min() < 0 or (sums - 1).abs().max() > 1e-3:
        shown = ", ".join(f"{total:.4g}" for total in sums.tolist()[:10])
        raise BadInput(
            "every row of transition must be probabilities that sum to 1, the chances of each "
            f"given label for a class; the rows sum to {shown}, the smallest entry is "
            f"{matrix.min()}."
        )
    return matrix / sums[:, None]


def conditioned(transition: Tensor, limit: float) -> Tensor:
    """a I + (1 - a) T with the least a of 0, 0.1, ... 1 whose condition number is at most `limit`.

    An estimate in which two classes are labelled almost alike has an inverse of huge entries.
    """
    identity = torch.eye(len(transition), dtype=transition.dtype, device=transition.device)
    mixes = (torch.lerp(transition, identity, step / 10) for step in range(10))
    return next((t for t in mixes if torch.linalg.cond(t.cpu().double()) <= limit), identity)


def log_given(logits: Tensor, labels: Tensor, transition: Tensor) -> Tensor:
    """ln (p T)_y, the logarithm of the probability of the given label, (B,).

    Args:
        logits: (B, C) of the true class.
        labels: (B,) int64 given class ids.
        transition: (C, C).
    """
    floor = math.log(1e-12)  # a class that cannot be labelled so must not make it infinite
    log_column = transition.to(logits.dtype).log().clamp(min=floor).T[labels]
    return (logits.log_softmax(-1) + log_column).logsumexp(-1)


def true_given(logits: Tensor, labels: Tensor, transition: Tensor) -> Tensor:
    """Probability that the given label is the true one, by Bayes p_y T_yy / (p T)_y; (B,)."""
    index = labels.unsqueeze(-1)
    log_p = logits.log_softmax(-1).gather(-1, index).squeeze(-1)
    stays = transition.diagonal().to(logits.dtype)[labels]
    ratio = stays * (log_p - log_given(logits, labels, transition)).exp()
    return ratio.clamp(0, 1)  # rounding must not lead beyond
