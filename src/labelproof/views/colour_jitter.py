"""Random changes of colour, as contrastive methods have them: ColorJitter and greyscale.

Most pictures (0.8) have brightness, contrast, saturation and hue changed, in an order drawn for
each; a fifth then loses its colours. Torchvision's ColorJitter(0.4, 0.4, 0.4, 0.1) does the same.

Shapes: B batch, H and W size; pictures (B, H, W, 3) of levels from 0 to 1.
"""

from __future__ import annotations

import torch
from torch import Tensor

STRENGTH = torch.tensor([0.4, 0.4, 0.4, 0.1])  # of brightness, contrast, saturation, hue
CHANGED, GREY = 0.8, 0.2  # chances
LUMA = (0.299, 0.587, 0.114)


def jitter(x: Tensor, rng: torch.Generator) -> Tensor:
    """Pictures of levels from 0 to 255, changed at random, as float levels."""
    x, count = x.float() / 255, len(x)
    amount = STRENGTH * (2 * torch.rand(count, 4, generator=rng) - 1)
    order = torch.rand(count, 4, generator=rng).argsort(1)
    changed = torch.rand(count, generator=rng) < CHANGED
    for step in range(4):
        for kind, change in enumerate((brightness, contrast, saturation, hue)):
            rows = (changed & (order[:, step] == kind)).nonzero().view(-1)
            here, by = rows.to(x.device), amount[rows, kind].to(x.device).view(-1, 1, 1, 1)
            x[here] = change(x[here], by).clamp(0, 1)
    colourless = (torch.rand(count, generator=rng) < GREY).to(x.device)
    return 255 * torch.where(colourless.view(-1, 1, 1, 1), grey(x), x)


def grey(x: Tensor) -> Tensor:
    """Brightness of each pixel, (B, H, W, 1)."""
    return (x * x.new_tensor(LUMA)).sum(3, keepdim=True)


def brightness(x: Tensor, by: Tensor) -> Tensor:
    """Levels times 1 + by."""
    return x * (1 + by)


def contrast(x: Tensor, by: Tensor) -> Tensor:
    """Levels 1 + by times as far from the picture's mean brightness."""
    return x + by * (x - grey(x).mean((1, 2), keepdim=True))


def saturation(x: Tensor, by: Tensor) -> Tensor:
    """Levels 1 + by times as far from the pixel's brightness."""
    return x + by * (x - grey(x))


def hue(x: Tensor, by: Tensor) -> Tensor:
    """Hues turned by a share of the circle; value and chroma stay."""
    value, chroma = x.amax(3, keepdim=True), x.amax(3, keepdim=True) - x.amin(3, keepdim=True)
    red, green, blue = x[..., :1], x[..., 1:2], x[..., 2:]
    unit = chroma.clamp(min=1e-12)
    sixths = torch.where(value == green, 2 + (blue - red) / unit, 4 + (red - green) / unit)
    sixths = torch.where(value == red, (green - blue) / unit, sixths)
    place = (x.new_tensor([5, 3, 1]) + sixths + 6 * by) % 6
    return value - chroma * torch.minimum(place, 4 - place).clamp(0, 1)
