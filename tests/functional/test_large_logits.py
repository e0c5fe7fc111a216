"""Values and gradients for logits up to ±1000, against arithmetic of five hundred digits."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable

import mpmath
import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from mpmath import mp, mpf
from scipy.special import polygamma
from torch import Tensor

from labelproof import functional as fn
from labelproof.functional.dirichlet import (
    R_SERIES,
    TRIGAMMA_SERIES,
    XQ_SERIES,
    _trigamma,
    flat_divergence,
    log_alpha,
)

DIGITS = 500  # exp(1000) has 435, and its logarithm times itself cancels
ROWS = [
    (0, [0.0, 1000.0, 0.0, 0.0]),
    (1, [1000.0, -1000.0, 999.0, 3.0]),
    (2, [-1000.0, -1000.0, -1000.0, -1000.0]),
    (0, [1000.0, 1000.0, 1000.0, 1000.0]),
    (3, [88.0, -88.0, 87.5, 1000.0]),
    (1, [-30.0, 5.0, -20.0, -10.0]),
    (2, [18.0, 20.0, -3.0, 40.0]),
    (0, [700.0, 710.0, -745.0, 2.0]),
]
GAMMAS = [0.0, 0.1, 2.5]
Exact = Callable[[list[float], int, float], tuple[mpf, list[mpf]]]


def parameters(row: list[float], gamma: float) -> list[mpf]:
    return [1 + mp.exp(mpf(o)) / mpf(gamma or 1.0) for o in row]


def exact_kl(row: list[float], label: int, gamma: float) -> tuple[mpf, list[mpf]]:
    """The divergence and its derivative by each logit."""
    x = parameters(row, gamma)
    x[label] = mpf(1)
    total, classes = mp.fsum(x), len(x)
    kl = mp.loggamma(total) - mp.loggamma(classes)
    kl += mp.fsum((a - 1) * (mp.psi(0, a) - mp.psi(0, total)) - mp.loggamma(a) for a in x)
    pull = (total - classes) * mp.psi(1, total)
    return kl, [(a - 1) * ((a - 1) * mp.psi(1, a) - pull) for a in x]


def exact_nll(row: list[float], label: int, gamma: float) -> tuple[mpf, list[mpf]]:
    """The likelihood term and its derivative by each logit."""
    e = [mp.exp(mpf(o)) for o in row]
    total = mp.fsum(e) + len(e) * mpf(gamma)
    slope = [a / total for a in e]
    slope[label] -= e[label] / (e[label] + mpf(gamma))
    return mp.log(total) - mp.log(e[label] + mpf(gamma)), slope


@functools.cache
def exact_rows(exact: Exact, gamma: float) -> list[tuple[mpf, list[mpf]]]:
    with mp.workdps(DIGITS):
        return [exact(row, label, gamma) for label, row in ROWS]


def check(ours: Tensor, exact: list[mpf], dtype: torch.dtype) -> None:
    relative = 1e-11 if dtype == torch.float64 else 3e-7
    expected = np.array([float(v) for v in exact])
    np.testing.assert_allclose(ours.detach().double().numpy(), expected, rtol=relative, atol=1e-7)
    if dtype == torch.float64:
        np.testing.assert_allclose(ours.detach().numpy(), expected, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("gamma", GAMMAS)
@pytest.mark.parametrize(("loss", "exact"), [(fn.edl_kl, exact_kl), (fn.edl_nll, exact_nll)])
def test_value_and_gradient(loss, exact, gamma, dtype):
    logits = torch.tensor([row for _, row in ROWS], dtype=dtype, requires_grad=True)
    labels = torch.tensor([label for label, _ in ROWS])
    ours = loss(logits, labels, gamma)
    (slope,) = torch.autograd.grad(ours.sum(), logits)
    expected = exact_rows(exact, gamma)
    check(ours, [value for value, _ in expected], dtype)
    check(slope.flatten(), [s for _, slopes in expected for s in slopes], dtype)


@pytest.mark.parametrize("classes", [2, 15, 17])
def test_kl_for_other_numbers_of_classes(classes):
    rng = np.random.default_rng(classes)
    rows = [(rng.normal(size=classes) * scale).tolist() for scale in (0.1, 10, 300)]
    logits = torch.tensor(rows, dtype=torch.float64, requires_grad=True)
    labels = torch.tensor([0, classes - 1, 1])
    ours = fn.edl_kl(logits, labels, 10 / classes)
    (slope,) = torch.autograd.grad(ours.sum(), logits)
    with mp.workdps(DIGITS):
        expected = [
            exact_kl(r, y, 10 / classes) for r, y in zip(rows, labels.tolist(), strict=True)
        ]
    check(ours, [value for value, _ in expected], torch.float64)
    check(slope.flatten(), [s for _, slopes in expected for s in slopes], torch.float64)


def test_special_functions_to_the_last_digits():
    x = torch.linspace(1, 40, 400, dtype=torch.float64)
    np.testing.assert_allclose(_trigamma(x), polygamma(1, x.numpy()), rtol=1e-12)
    z = torch.linspace(-45, 45, 901, dtype=torch.float64)
    np.testing.assert_allclose(log_alpha(z), np.logaddexp(0, z.numpy()), rtol=1e-15)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_second_derivatives_are_finite(dtype):
    # methods that learn through a training step differentiate the gradient again
    logits = torch.tensor([row for _, row in ROWS], dtype=dtype, requires_grad=True)
    labels = torch.tensor([label for label, _ in ROWS])
    loss = fn.edl_loss(logits, labels, 2.5, 0.5).sum()
    (slope,) = torch.autograd.grad(loss, logits, create_graph=True)
    (curvature,) = torch.autograd.grad((slope**2).sum(), logits)
    assert curvature.isfinite().all()


@settings(max_examples=100, deadline=None, derandomize=True)
@given(st.lists(st.floats(-60, 60, width=32), min_size=2, max_size=8), st.sampled_from(GAMMAS))
def test_no_uncertainty_is_negative(row, gamma):
    for values in fn.dirichlet_uncertainty(torch.tensor([row], dtype=torch.float64), gamma):
        assert values.item() >= 0
    assert fn.dirichlet_uncertainty(torch.tensor([row]), gamma)[0].item() <= 1


@pytest.mark.parametrize("classes", [10, 100])
def test_divergence_without_double_precision(classes):
    # what a device that lacks float64 computes: float32 all the way
    rng = torch.Generator().manual_seed(classes)
    z = 6 * torch.randn(64, classes, generator=rng)
    single, double = z.clone().requires_grad_(), z.double().requires_grad_()
    ours, exact = flat_divergence(single), flat_divergence(double)
    assert ours.dtype == torch.float32
    torch.testing.assert_close(ours.double(), exact, rtol=1e-5, atol=3e-4)
    (slope,) = torch.autograd.grad(ours.sum(), single)
    (expected,) = torch.autograd.grad(exact.sum(), double)
    torch.testing.assert_close(slope.double(), expected, rtol=1e-4, atol=2e-5)


def exact_uncertainty(row: list[float], gamma: float) -> tuple[mpf, mpf, mpf]:
    a = parameters(row, gamma)
    total = mp.fsum(a)
    mean = [v / total for v in a]
    expected = mp.psi(0, total + 1)
    expected -= mp.fsum(m * mp.psi(0, v + 1) for m, v in zip(mean, a, strict=True))
    entropy = -mp.fsum(m * mp.log(m) for m in mean)
    return len(a) / total, expected, entropy - expected


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("gamma", GAMMAS)
def test_uncertainty(gamma, dtype):
    ours = fn.dirichlet_uncertainty(torch.tensor([row for _, row in ROWS], dtype=dtype), gamma)
    with mp.workdps(DIGITS):
        exact = [exact_uncertainty(row, gamma) for _, row in ROWS]
    for values, expected in zip(ours, zip(*exact, strict=True), strict=True):
        assert values.dtype == dtype
        assert (values >= 0).all()
        check(values, list(expected), dtype)


def test_uncertainty_of_no_evidence_and_of_samples():
    vacuity, expected, mutual = fn.dirichlet_uncertainty(torch.full((1, 5), -1000.0), 2.0)
    assert vacuity.item() == 1
    assert (expected + mutual).item() == pytest.approx(math.log(5))
    logits, rng = np.array([0.5, -1.0, 2.0]), np.random.default_rng(0)
    draws = rng.dirichlet(1 + np.exp(logits), size=100_000)
    sampled = -(draws * np.log(draws)).sum(1).mean()
    ours = fn.dirichlet_uncertainty(torch.tensor(logits)[None], 1.0)
    assert ours[1].item() == pytest.approx(sampled, abs=3e-3)


def test_the_oracle_itself():
    with mp.workdps(30):
        kl, _ = exact_kl([0.0] * 10, 3, 1.0)
    assert float(kl) == pytest.approx(1.137645, abs=1e-6)
    assert mpmath.mp.dps < DIGITS


def test_the_series_are_those_of_stirling() -> None:
    """Their coefficients are Bernoulli numbers B_2k over 2k (2k - 1), over 2k, and as they are."""
    twice = np.arange(2, 11, 2)
    numbers = np.array([float(mp.bernoulli(int(index))) for index in twice])
    np.testing.assert_allclose(R_SERIES, numbers / (twice * (twice - 1)), rtol=1e-14)
    np.testing.assert_allclose(XQ_SERIES, numbers / twice, rtol=1e-14)
    np.testing.assert_allclose(TRIGAMMA_SERIES, numbers, rtol=1e-14)
