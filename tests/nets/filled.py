"""Weights and a picture by formula, so that two implementations of a network can be compared."""

from __future__ import annotations

import torch
from torch import Tensor, nn

KINDS = (nn.Conv2d, nn.BatchNorm2d, nn.Linear)


def wave(shape: torch.Size, number: int) -> Tensor:
    """Numbers between -1 and 1 that depend on the place of the module among its kind."""
    steps = torch.arange(shape.numel(), dtype=torch.float64)
    return torch.sin(steps * (0.37 + 0.013 * number) + number).view(shape)


@torch.no_grad()
def fill(net: nn.Module) -> nn.Module:
    """Every weight and statistic set; a module counts by its place among those of its kind."""
    for kind in KINDS:
        for number, module in enumerate(m for m in net.modules() if type(m) is kind):
            if isinstance(module, nn.BatchNorm2d):
                module.weight.copy_(1 + 0.3 * wave(module.weight.shape, number))
                module.running_mean.copy_(0.2 * wave(module.weight.shape, number + 1))
                module.running_var.copy_(1 + 0.5 * wave(module.weight.shape, number + 2) ** 2)
            else:
                width = module.weight[0].numel()
                module.weight.copy_(2 * wave(module.weight.shape, number) / width**0.5)
            if module.bias is not None:
                module.bias.copy_(0.1 * wave(module.bias.shape, number + 3))
    return net


def picture(side: int) -> Tensor:
    """One picture, (1, 3, side, side) in double precision."""
    return wave(torch.Size((1, 3, side, side)), 5)
