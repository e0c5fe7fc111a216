"""How weights and learning rates change over a run: pure functions of the time."""

from __future__ import annotations

import math


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
