"""Random waves: cosines of vectors that let a linear model bend (Rahimi and Recht, NeurIPS 2007).

    φ(z) = sqrt(2 D / R) cos(z W / ℓ + b),  W normal, b uniform on [0, 2π]

φ(z)ᵀφ(z') is D exp(-|z - z'|² / 2 ℓ²) on average: a softmax regression on the waves is a kernel
machine. The factor D makes all waves together as large as D standardised features.

Shapes: B batch, D features, R waves.
"""

from __future__ import annotations

import math
import random

import torch
from torch import Tensor


def random_waves(width: int, count: int, length: float) -> tuple[Tensor, Tensor]:
    """Frequencies W / ℓ (D, R) and phases b (R,): the same ones at every call.

    They come from Python's generator, whose numbers no version changes, so a saved model need not
    hold them.
    """
    rng = random.Random(0)
    drawn = [[rng.random() for _ in range(count)] for _ in range(width + 1)]
    uniform = torch.tensor(drawn, dtype=torch.float64)
    normal = torch.special.ndtri(uniform[:-1].clamp_min(1e-12))
    return (normal / length).float(), (2 * math.pi * uniform[-1]).float()


def with_waves(z: Tensor, frequencies: Tensor, phases: Tensor) -> Tensor:
    """Vectors (B, D) with their waves behind them, (B, D + R)."""
    size = math.sqrt(2 * z.shape[1] / len(phases))
    return torch.cat([z, size * torch.cos(z @ frequencies + phases)], 1)
