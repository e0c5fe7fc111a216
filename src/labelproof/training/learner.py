"""A network and its optimiser, the unit a method trains."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from labelproof.nets.heads import MultiHead


@dataclass(frozen=True, kw_only=True)
class SGD:
    """Settings of stochastic gradient descent."""

    lr: float
    momentum: float = 0.9
    weight_decay: float = 5e-4


@dataclass
class Learner:
    """A network with its own optimiser."""

    net: MultiHead
    optimiser: torch.optim.Optimizer

    def set_lr(self, lr: float) -> None:
        """Use this learning rate from the next step on."""
        for group in self.optimiser.param_groups:
            group["lr"] = lr
