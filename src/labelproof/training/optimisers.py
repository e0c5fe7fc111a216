"""PyTorch's optimisers without the import of its compiler, which takes more than a second.

`torch.optim` wraps what its optimisers do, so that `torch.compile` leaves it alone. The first use
of such a wrapper imports the compiler. Here the functions inside are called, which do the same.
"""

from __future__ import annotations

from inspect import unwrap
from typing import Any

import torch
from torch.optim import LBFGS, SGD, Adam, Optimizer

ADD_GROUP = unwrap(Optimizer.add_param_group)
STATE, LOAD = unwrap(Optimizer.state_dict), unwrap(Optimizer.load_state_dict)
SGD_STEP, ADAM_STEP = unwrap(SGD.step), unwrap(Adam.step)


class _Light(Optimizer):
    """What all optimisers share."""

    def add_param_group(self, param_group: dict[str, Any]) -> None:
        """Optimise these weights, too."""
        ADD_GROUP(self, param_group)

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Forget all gradients."""
        for weight in (weight for group in self.param_groups for weight in group["params"]):
            if set_to_none or weight.grad is None:
                weight.grad = None
            else:
                weight.grad = torch.zeros_like(weight.grad)

    def state_dict(self) -> dict[str, Any]:
        """All that a copy needs to go on."""
        state: dict[str, Any] = STATE(self)
        return state

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Go on from there."""
        LOAD(self, state_dict)


class LightSGD(_Light, SGD):
    """Gradient descent with momentum."""

    @torch.no_grad()
    def step(self, closure: None = None) -> None:  # type: ignore[override]
        """One step down the gradients."""
        SGD_STEP(self, closure)


class LightAdam(_Light, Adam):
    """Adam."""

    @torch.no_grad()
    def step(self, closure: None = None) -> None:  # type: ignore[override]
        """One step down the gradients."""
        ADAM_STEP(self, closure)


class LightLBFGS(_Light, LBFGS):
    """L-BFGS."""
