"""Random waves against the kernel they stand for."""

from __future__ import annotations

import math

import torch

from labelproof.functional.waves import random_waves, with_waves


def test_products_of_waves_are_the_gaussian_kernel() -> None:
    z = torch.randn(30, 4, generator=torch.Generator().manual_seed(1))
    length, count = 1.7, 20_000
    waves = random_waves(4, count, length)
    cosines = torch.cos(z @ waves.frequencies + waves.phases)
    kernel = torch.exp(-torch.cdist(z, z).square() / (2 * length**2))
    assert torch.allclose(2 / count * cosines @ cosines.T, kernel, atol=0.05)


def test_waves_follow_the_vector_and_are_as_large_as_it() -> None:
    z = torch.randn(20_000, 6, generator=torch.Generator().manual_seed(2))
    waves = random_waves(6, 500, 0.5 * math.sqrt(12))
    both = with_waves(z, waves)
    assert both.shape == (20_000, 506)
    assert torch.equal(both[:, :6], z)
    assert both[:, 6:].mean(0).abs().max() < 0.01  # the means are those of normal vectors
    assert 0.6 < both[:, 6:].square().sum(1).mean() / z.square().sum(1).mean() < 1.0


def test_waves_never_change() -> None:
    """Models hold their number and length alone, so these must stay what they are."""
    waves = random_waves(2, 3, 2.0)
    uniform = [0.8444218515250481, 0.7579544029403025, 0.420571580830845]  # of random.Random(0)
    normal = torch.distributions.Normal(0, 1).icdf(torch.tensor(uniform, dtype=torch.float64))
    assert torch.allclose(waves.frequencies[0], (normal / 2).float())
    assert waves.frequencies.shape == (2, 3)
    assert torch.equal(waves.frequencies, random_waves(2, 3, 2.0).frequencies)
