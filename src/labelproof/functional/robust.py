"""Losses that resist wrong labels and serve more than one method.

Shapes: B batch, C classes.
"""

from __future__ import annotations

from torch import Tensor
from torch.nn.functional import one_hot

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


def label_noise(labels: Tensor, u: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
    """The noise of SOP in given labels: U = u² on the given class, V = v² on every other one.

    Args:
        labels: (B,) int64 class ids.
        u: (B, 1) and
        v: (B, C), factors learned for each example.

    Returns:
        U and V, both (B, C), kept within [0, 1] and without slope beyond.
    """
    given = one_hot(labels, v.shape[-1]).to(v.dtype)
    return (u**2 * given).clamp(0, 1), (v**2 * (1 - given)).clamp(0, 1)


def with_noise(probs: Tensor, plus: Tensor, minus: Tensor) -> Tensor:
    """What SOP expects of the given labels: p + U - V, made a distribution again, (B, C)."""
    noisy = (probs + plus - minus).clamp(min=CLIP)
    return (noisy / noisy.sum(-1, keepdim=True)).clamp(CLIP, 1)


def noise_gap(logits: Tensor, labels: Tensor, plus: Tensor, minus: Tensor) -> Tensor:
    """Squared distance of prediction and noise from the given label, ||h + U - V - y||², (B,).

    h is the predicted class as a one-hot row, so that only the noise has a slope.
    """
    given = one_hot(labels, logits.shape[-1])
    hard = one_hot(logits.argmax(-1), logits.shape[-1])
    return (hard + plus - minus - given).square().sum(-1)


def descended(rows: Tensor, lr: float) -> Tensor:
    """Leaf `rows` one step of plain gradient descent later; as they were if nothing moved them."""
    slope = rows.grad
    return rows.detach() if slope is None else rows.detach() - lr * slope
