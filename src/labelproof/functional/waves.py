"""Random waves: cosines of vectors that let a linear model bend (Rahimi and Recht, NeurIPS 2007).

    φ(z) = sqrt(2 D / R) (cos(z W / ℓ + b) - m),  W normal, b uniform on [0, 2π]

cos(...)ᵀcos(...) is exp(-|z - z'|² / 2 ℓ²) on average but for a factor: a softmax regression on the
waves is a kernel machine. The factor D makes all waves together as large as D standardised
features; m is the mean of the cosines for normal z.

Shapes: B batch, D features, R waves.
"""

from __future__ import annotations

import math
import random
from typing import NamedTuple

import torch
from torch import Tensor


class Waves(NamedTuple):
    """What makes waves of vectors."""

    frequencies: Tensor  # W / ℓ, (D, R)
    phases: Tensor  # b, (R,)
    means: Tensor  # m, (R,)


def random_waves(width: int, count: int, length: float) -> Waves:
    """Waves of vectors (B, D): the same ones at every call.

    They come from Python's generator, whose numbers no version changes, so a saved model need not
    hold them.
    """
    rng = random.Random(0)
    drawn = [[rng.random() for _ in range(count)] for _ in range(width + 1)]
    uniform = torch.tensor(drawn, dtype=torch.float64).view(width + 1, count)
    frequencies = torch.special.ndtri(uniform[:-1].clamp_min(1e-12)) / length
    phases = 2 * math.pi * uniform[-1]
    means = phases.cos() * (-frequencies.square().sum(0) / 2).exp()
    return Waves(frequencies.float(), phases.float(), means.float())


def with_waves(z: Tensor, waves: Waves) -> Tensor:
    """Vectors (B, D) with their waves behind them, (B, D + R)."""
    size = math.sqrt(2 * z.shape[-1] / len(waves.phases))
    return torch.cat(
        [z, size * (torch.cos(z @ waves.frequencies + waves.phases) - waves.means)], -1
    )
