"""Sharpened targets and mixed batches, as MixMatch and its descendants use them.

`mixup` draws one weight and one permutation for a batch; `mix` applies the same draw to whatever
else belongs to the batch: soft targets, a second view.

Shapes: B batch, C classes.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from labelproof.errors import BadInput
from labelproof.functional.dirichlet import at_least_single


def sharpen(probs: Tensor, temperature: float) -> Tensor:
    """Distributions p^(1/T) / Σ p^(1/T): the same for T = 1, ever closer to one-hot as T falls.

    Args:
        probs: (B, C) rows with at least one entry above 0.
        temperature: T > 0.

    Returns:
        (B, C); the order of the classes is kept and zeros stay zeros.
    """
    if not temperature > 0:
        raise BadInput(f"The sharpening temperature must be above 0, not {temperature}.")
    probs = at_least_single(probs)
    logs = probs.clamp(min=torch.finfo(probs.dtype).tiny).log()
    logs = (logs - logs.amax(-1, keepdim=True)) / temperature
    return logs.masked_fill(probs <= 0, -math.inf).softmax(-1)


class Mixed(NamedTuple):
    """A mixed batch and the draw that made it."""

    mixed: Tensor  # (B, ...)
    weight: float  # of each row's own input, in [0.5, 1]
    permutation: Tensor  # (B,) int64, which row each was mixed with


def mixup(x: Tensor, alpha: float, generator: torch.Generator) -> Mixed:
    """Mix every row of a batch with another, with one weight for the whole batch.

    The weight is max(b, 1 - b) with b ~ Beta(α, α), so that each row stays mostly itself.

    Args:
        x: (B, ...) inputs on any device.
        alpha: α > 0; 0 leaves the batch as it is.
        generator: the only source of randomness.

    Returns:
        The mixed inputs, the weight, and the permutation (on the device of `x`); give the last two
        to `mix` to treat targets and other views alike.
    """
    weight = mixing_weight(alpha, generator)
    order = torch.randperm(len(x), generator=generator, device=generator.device)
    permutation = order.to(x.device)
    return Mixed(mix(x, weight, permutation), weight, permutation)


def mix(a: Tensor, weight: float, permutation: Tensor) -> Tensor:
    """weight · a + (1 - weight) · a[permutation], row by row."""
    return weight * a + (1 - weight) * a[permutation]


def mixing_weight(alpha: float, generator: torch.Generator) -> float:
    """max(b, 1 - b) with b ~ Beta(α, α), in [0.5, 1]; 1 for α = 0."""
    if not 0 <= alpha < math.inf:
        raise BadInput(f"The Beta parameter of mixup must be 0 or a positive number, not {alpha}.")
    # torch has no Beta draw that takes a generator, so it seeds one that numpy has
    seed = torch.randint(2**63 - 1, (), generator=generator, device=generator.device)
    if alpha == 0:
        return 1.0
    b = float(np.random.default_rng(int(seed)).beta(alpha, alpha))
    return max(b, 1 - b)
