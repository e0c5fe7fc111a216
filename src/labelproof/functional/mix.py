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
    powers = (probs / probs.amax(-1, keepdim=True)).pow(1 / temperature)
    return powers / powers.sum(-1, keepdim=True)


class Mixed(NamedTuple):
    """A mixed batch and the draw that made it."""

    mixed: Tensor  # (B, ...)
    weight: float  # of each row's own input, in [0.5, 1]
    permutation: Tensor  # (B,) int64, which row each was mixed with


def mixup(
    x: Tensor, alpha: float, generator: torch.Generator, order: torch.Generator | None = None
) -> Mixed:
    """Mix every row of a batch with another, with one weight for the whole batch.

    The weight is max(b, 1 - b) with b ~ Beta(α, α), so that each row stays mostly itself.

    Args:
        x: (B, ...) inputs on any device.
        alpha: α > 0; 0 leaves the batch as it is.
        generator: draws the weight; on the CPU, as the weight is a plain number.
        order: draws the permutation; best on the device of `x`. `generator` where None.

    Returns:
        The mixed inputs, the weight, and the permutation (on the device of `x`); give the last two
        to `mix` to treat targets and other views alike.
    """
    weight = mixing_weight(alpha, generator)
    by = generator if order is None else order
    permutation = torch.randperm(len(x), generator=by, device=by.device).to(x.device)
    return Mixed(mix(x, weight, permutation), weight, permutation)


def mix(a: Tensor, weight: float, permutation: Tensor) -> Tensor:
    """weight · a + (1 - weight) · a[permutation], row by row."""
    return a.index_select(0, permutation).lerp_(a, weight)


def low_frequency_mask(
    size: tuple[int, int], share: float, generator: torch.Generator, decay: float = 3.0
) -> Tensor:
    """FMix's mask (H, W): 1 on this share of the pixels, in blobs, else 0.

    Gaussian noise in the frequency domain, divided by frequency^`decay`, becomes an image again;
    its largest values are the mask (Harris et al., 2020, https://arxiv.org/abs/2002.12047).

    Args:
        size: H and W.
        share: of pixels in the mask, in [0, 1]; rounded to whole pixels.
        generator: the only source of randomness.
        decay: how much smoother than noise the image is.
    """
    height, width = size
    rows = torch.fft.fftfreq(height)[:, None]
    frequency = (rows**2 + torch.fft.rfftfreq(width) ** 2).sqrt().clamp(min=1 / max(size))
    noise = torch.randn(*frequency.shape, 2, generator=generator)
    spectrum = torch.view_as_complex(noise) / frequency**decay
    image = torch.fft.irfft2(spectrum, s=size).flatten()
    mask = torch.zeros(height * width)
    mask[image.topk(round(share * height * width)).indices] = 1.0
    return mask.view(height, width)


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
