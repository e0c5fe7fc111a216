"""Mean and spread of the training inputs, read in chunks; published ones of the named sets."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from labelproof.data.examples import Inputs, Repeated

Colour = tuple[float, float, float]

# Mean and standard deviation of each channel, of pixels in [0, 1], as the recipes have them.
PUBLISHED: dict[str, tuple[Colour, Colour]] = {
    "cifar10": ((0.4914, 0.4822, 0.4465), (0.2023, 0.1994, 0.2010)),
    "cifar100": ((0.507, 0.487, 0.441), (0.267, 0.256, 0.276)),
    "imagenet": ((0.485, 0.456, 0.406), (0.229, 0.224, 0.225)),
}

CHUNK = 2**22  # numbers held in double precision at a time


def image_statistics(
    inputs: Inputs, sample: int = 10_000
) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Mean and standard deviation of each channel, of pixels in [0, 1].

    Args:
        inputs: Images.
        sample: At most this many images, evenly spaced over the set, are read.

    Returns:
        Mean and standard deviation, a number a channel; 1 for the deviation of a constant one.
    """
    inputs = _once(inputs)
    count = min(len(inputs), sample)
    mean, std = _moments(inputs, torch.arange(count) * len(inputs) // count)
    spread = torch.where(std == 0, 255.0, std)
    return tuple((mean / 255).tolist()), tuple((spread / 255).tolist())


def vector_statistics(inputs: Inputs) -> tuple[Tensor, Tensor]:
    """Mean and standard deviation of each feature over all vectors, (D,) float32 each."""
    inputs = _once(inputs)
    mean, std = _moments(inputs, torch.arange(len(inputs)))
    # What is left of a constant feature is rounding, and must not be divided by.
    return mean.float(), torch.where(std <= 1e-7 * mean.abs(), 0.0, std).float()


def _once(inputs: Inputs) -> Inputs:
    """Each of a few that stand for many, once: repeated, their statistics are the same."""
    return inputs.x if isinstance(inputs, Repeated) else inputs


def _moments(inputs: Inputs, index: Tensor) -> tuple[Tensor, Tensor]:
    """Mean and standard deviation over all but the last axis, in double precision.

    Chunks are merged by their means and squared deviations (Chan, Golub and LeVeque), which stays
    exact where a feature's mean is large beside its spread.
    """
    width = inputs.shape[-1]
    total, mean, squares = 0, torch.zeros(width).double(), torch.zeros(width).double()
    for part in torch.split(index, max(1, CHUNK // math.prod(inputs.shape))):
        values = inputs.take(part).double().reshape(-1, width)
        centre, count = values.mean(0), len(values)
        gap, total = centre - mean, total + count
        squares += (values - centre).square().sum(0) + gap.square() * (count * (1 - count / total))
        mean = mean + gap * (count / total)
    return mean, (squares / total).sqrt()
