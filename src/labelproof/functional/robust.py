"""Losses that resist wrong labels and serve more than one method.

Shapes: B batch, C classes.
"""

from __future__ import annotations

from torch import Tensor

from labelproof.functional.dirichlet import at_least_single

CLIP = 1e-4  # as released with ELR; it bounds the logarithm below


def clipped_softmax(logits: Tensor) -> Tensor:
    """Softmax kept within [1e-4, 1 - 1e-4], (B, C); rows may then sum to a little more than 1."""
    return at_least_single(logits).softmax(-1).clamp(CLIP, 1 - CLIP)


def early_learning_penalty(logits: Tensor, targets: Tensor) -> Tensor:
    """The regulariser of ELR, ln(1 - <p, t>): the lower, the more the prediction is as it was.

    Args:
        logits: (B, C).
        targets: (B, C) running averages of earlier predictions, each row summing to less than 1.

    Returns:
        (B,), never above 0; 0 without slope where the target is 0.
    """
    return (1 - (clipped_softmax(logits) * targets).sum(-1)).log()
