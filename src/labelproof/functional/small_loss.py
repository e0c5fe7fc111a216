"""The small-loss rule of Co-teaching, and schedules of learning rates and weights.

Shapes: B batch.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
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


def ramp(epoch: float, start: float, length: float = 16.0) -> float:
    """Straight from 0 at epoch `start` to 1 at `start` + `length`, flat on both sides.

    Args:
        epoch: the time, with its fraction: epoch + step / steps.
        start: when the rise begins, as a rule the end of the warm-up.
        length: how many epochs it takes; 0 is a step at `start`.
    """
    if length <= 0:
        return float(epoch >= start)
    return min(max((epoch - start) / length, 0.0), 1.0)


def sigmoid_ramp(step: float, length: float) -> float:
    """exp(-5 (1 - t)²), t = `step` / `length` kept in [0, 1]: from 0.0067 to 1; 1 for no length."""
    if length <= 0:
        return 1.0
    t = min(max(step / length, 0.0), 1.0)
    return math.exp(-5.0 * (1.0 - t) ** 2)


def step_decay(
    base: float, epoch: float, milestones: tuple[int, ...], factor: float = 0.1
) -> float:
    """`base` times `factor` for every milestone reached; the milestone itself is already lower."""
    return base * factor ** sum(epoch >= milestone for milestone in milestones)


def smallest_per_class(losses: Tensor, labels: Tensor, count: Callable[[int], int]) -> Tensor:
    """The smallest losses of every class that has labels, (N,) bool.

    `count` tells how many there are of a class with so many examples; at least one is taken.
    """
    kept = torch.zeros(len(losses), dtype=torch.bool, device=losses.device)
    for label in torch.bincount(labels).nonzero().squeeze(1):
        places = (labels == label).nonzero().squeeze(1)
        order = losses[places].argsort(stable=True)
        kept[places[order[: max(1, count(len(places)))]]] = True
    return kept


def stair_decay(
    base: float, epoch: float, epochs: int, shares: Sequence[float], factor: float = 0.1
) -> float:
    """`step_decay` with milestones at these shares of all epochs."""
    return step_decay(base, epoch, tuple(round(share * epochs) for share in shares), factor)


def cosine_decay(base: float, epoch: float, epochs: float, floor: float = 0.0) -> float:
    """Half a cosine from `base` at epoch 0 to `floor` at epoch `epochs` and after."""
    t = min(max(epoch / epochs, 0.0), 1.0) if epochs > 0 else 1.0
    return floor + (base - floor) * 0.5 * (1.0 + math.cos(math.pi * t))


def one_cycle(base: float, epoch: float, epochs: float, peak: float = 0.25) -> float:
    """Straight from a fifth of `base` to `base` at this share of the epochs, then straight to 0."""
    t = min(max(epoch / epochs, 0.0), 1.0) if epochs > 0 else 1.0
    if t < peak:
        return base * (0.2 + 0.8 * t / peak)
    return base * (1.0 - t) / (1.0 - peak)
