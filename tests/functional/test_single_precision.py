"""The bound on the error of L_kl in float32, which a GPU computes with, against float64."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from labelproof.functional import dirichlet

SIZES = {2: 1000, 10: 500, 100: 80, 1000: 8}
SPREADS = (0.3, 1.0, 3.0, 10.0, 100.0, 333.0)
SHIFTS = (-20.0, -5.0, 0.0, 3.0, 8.0, 20.0)


def logits(classes: int) -> Tensor:
    """Rows of many sizes, (M, C), up to ±1000."""
    rng = torch.Generator().manual_seed(classes)
    drawn = torch.randn(SIZES[classes], classes, generator=rng)
    rows = torch.cat([drawn * spread + shift for spread in SPREADS for shift in SHIFTS])
    return rows.clamp(-1000, 1000)


def one_label(z: Tensor) -> Tensor:
    """KL / C with the evidence of the first class taken away, (M,)."""
    first = torch.zeros(len(z), 1, dtype=torch.int64)
    return dirichlet.flat_divergence(z.scatter(-1, first, -torch.inf)) / z.shape[1]


def soft_label(z: Tensor) -> Tensor:
    """KL / C expected of labels drawn from a distribution, (M,)."""
    rng = torch.Generator().manual_seed(1)
    targets = torch.rand(z.shape, generator=rng).pow(3).to(z)
    many = dirichlet._FlatDivergences.apply(z)  # the form that a GPU uses
    return (targets / targets.sum(1, keepdim=True) * many).sum(1) / z.shape[1]


@pytest.mark.parametrize("loss", [one_label, soft_label])
@pytest.mark.parametrize("classes", SIZES)
def test_single_precision_keeps_the_stated_bound(classes: int, loss) -> None:  # type: ignore[no-untyped-def]
    found = []
    for dtype in (torch.float32, torch.float64):
        z = logits(classes).to(dtype).requires_grad_()
        values = loss(z)
        values.sum().backward()
        assert values.dtype == z.grad.dtype == dtype
        found.append((values.detach().double(), z.grad.double()))
    (value, slope), (exact, exact_slope) = found
    assert ((value - exact).abs() / (1 + exact)).max() < 1e-5
    assert (slope - exact_slope).abs().max() < 1e-4


def test_a_cpu_computes_in_float64_and_a_gpu_in_float32() -> None:
    x = torch.zeros(2, 3, dtype=torch.bfloat16)
    assert dirichlet.for_divergence(x).dtype == torch.float64
    assert dirichlet.for_divergence(x.to("meta")).dtype == torch.float32
