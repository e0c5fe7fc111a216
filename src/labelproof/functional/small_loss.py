"""The small-loss rule and the schedules that Co-teaching and Co-teaching+ share.

Shapes: B batch.
"""

from __future__ import annotations

import math
from typing import Literal

import torch
from torch import Tensor


def forget_rate(
    epoch: int,
    rate: float,
    length: int,
    exponent: float = 1.0,
    form: Literal["released", "paper"] = "released",
) -> float:
    """Share of a batch that is left out in `epoch`: it rises from 0 to `rate`.

    Args:
        epoch: counted from 0.
        rate: τ, the share of wrong labels, assumed known.
        length: T_k, epochs until the rise is over.
        exponent: c.
        form: "released" rises in a straight line to τ^c at epoch T_k - 1 and is τ from T_k on;
            "paper" is τ min(T^c / T_k, 1).
    """
    if form == "paper":
        return rate * min(math.pow(epoch, exponent) / max(length, 1), 1.0)
    if epoch >= length:
        return rate
    return math.pow(rate, exponent) * epoch / max(length - 1, 1)


def small_loss(losses: Tensor, forget: float) -> Tensor:
    """Indices of the floor((1 - forget) B) smallest losses; of all where that would be none.

    Args:
        losses: (B,).
        forget: share to leave out.

    Returns:
        (n,) int64, smallest loss first.
    """
    count = math.floor((1 - forget) * len(losses) + 1e-9)  # 0.1 x 10 must be 1 in binary as well
    order = torch.argsort(losses.detach(), stable=True)
    return order[: count or len(losses)]


def late_decay(base: float, epoch: int, epochs: int, start: float) -> float:
    """`base` until the share `start` of the epochs, then straight towards 0 at the end."""
    first = round(start * epochs)
    return base if epoch < first else base * (epochs - epoch) / (epochs - first)
