"""Scores whose true link is known, with labels drawn from them and then made noisy."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True)
class Drawn:
    scores: Tensor  # (N, C) double: the true logits divided by `scale`
    truth: Tensor
    given: Tensor
    scale: float

    @property
    def wrong(self) -> Tensor:
        return self.truth != self.given


def drawn(
    size: int = 6000,
    classes: int = 5,
    noise: float = 0.3,
    scale: float = 2.0,
    hard: float = 0.0,
    seed: int = 0,
) -> Drawn:
    """Truth is drawn from softmax(logits); a wrong label is any other class.

    With `hard` above 0 the noise is heavier where the logits are unsure.
    """
    rng = torch.Generator().manual_seed(seed)
    logits = 3.0 * torch.randn(size, classes, generator=rng, dtype=torch.float64)
    probs = logits.softmax(1)
    truth = torch.multinomial(probs, 1, generator=rng).squeeze(1)
    unsure = (probs.amax(1) < probs.amax(1).median()).double() - 0.5
    rate = noise * (1 + hard * unsure)
    flip = torch.rand(size, generator=rng, dtype=torch.float64) < rate
    moved = (truth + torch.randint(1, classes, (size,), generator=rng)) % classes
    given = torch.where(flip, moved, truth)
    return Drawn(logits / scale, truth, given, scale)
