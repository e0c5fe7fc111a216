"""The mirrored mixture: EM against direct maximisation of its likelihood, and what it is for."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize
from scipy.stats import norm

from labelproof.errors import BadInput
from labelproof.functional import mirrored_gaussians, two_gaussians


def margins(share_wrong: float, mean: float = 4.0, std: float = 2.5, n: int = 20_000):
    rng = np.random.default_rng(0)
    wrong = rng.random(n) < share_wrong
    certainty = rng.normal(mean, std, n)
    return torch.from_numpy(np.where(wrong, -certainty, certainty)), torch.from_numpy(wrong)


def test_posterior_is_that_of_the_most_likely_mixture():
    m, _ = margins(0.3)
    x = m.numpy()

    def loss(p):
        mean, std, share = p[0], np.exp(p[1]), 1 / (1 + np.exp(-p[2]))
        density = (1 - share) * norm.pdf(x, mean, std) + share * norm.pdf(x, -mean, std)
        return -np.log(density).mean()

    best = minimize(loss, (2.0, 0.5, -1.0), method="Nelder-Mead", options={"maxiter": 2000}).x
    mean, std, share = best[0], np.exp(best[1]), 1 / (1 + np.exp(-best[2]))
    right = (1 - share) * norm.pdf(x, mean, std)
    oracle = right / (right + share * norm.pdf(x, -mean, std))
    assert np.abs(mirrored_gaussians(m).numpy() - oracle).max() < 2e-3


@pytest.mark.parametrize("share", [0.1, 0.2, 0.4])
def test_it_finds_the_share_of_wrong_labels(share):
    m, wrong = margins(share)
    clean = mirrored_gaussians(m)
    assert (1 - clean.mean()).item() == pytest.approx(wrong.double().mean().item(), abs=0.01)


def test_it_keeps_right_labels_where_two_free_gaussians_do_not():
    m, _ = margins(0.0, mean=3.5, std=3.0)  # an eighth of these margins is negative
    assert (mirrored_gaussians(m) > 0.5).double().mean() > 0.99
    assert (two_gaussians(m) > 0.5).double().mean() < 0.9


@settings(max_examples=50, deadline=None, derandomize=True)
@given(st.lists(st.floats(-1e3, 1e3), min_size=1, max_size=30))
def test_any_margins_give_monotone_probabilities(values):
    m = torch.tensor(values, dtype=torch.float64)
    clean = mirrored_gaussians(m)
    assert ((clean >= 0) & (clean <= 1)).all()
    ordered = clean[m.argsort(stable=True)]
    assert (ordered.diff() >= -1e-12).all()


def test_scale_does_not_matter_and_the_type_is_kept():
    m, _ = margins(0.2, n=500)
    assert torch.allclose(mirrored_gaussians(m), mirrored_gaussians(m * 1000), atol=1e-9)
    assert mirrored_gaussians(m.float()).dtype == torch.float32


def test_equal_positive_margins_are_all_clean():
    assert (mirrored_gaussians(torch.full((5,), 2.0)) > 0.99).all()
    assert (mirrored_gaussians(torch.zeros(3)) > 0.99).all()


def test_infinite_margins_are_refused():
    with pytest.raises(BadInput, match="1 of 2 scores"):
        mirrored_gaussians(torch.tensor([1.0, float("inf")]))


@pytest.mark.parametrize("outlier", [1.0, 30.0, 300.0])
def test_the_posterior_agrees_with_the_mixture_it_implies(outlier):
    # EM has come to rest: estimating the mixture from the posterior gives the posterior back
    m, _ = margins(0.25, mean=1.0, std=0.4, n=4000)
    m[0] = outlier
    clean = mirrored_gaussians(m, steps=2000)
    mean = ((2 * clean - 1) * m).mean()
    spread = m.square().mean() - mean.square()
    share = (1 - clean).mean()
    again = torch.sigmoid(2 * mean * m / spread + torch.log((1 - share) / share))
    assert (again - clean).abs().max() < 1e-3


@pytest.mark.parametrize("scale", [1e-200, 1e-3, 1e200])
def test_the_unit_of_the_margins_does_not_matter(scale):
    m, _ = margins(0.25, n=500)
    assert torch.allclose(mirrored_gaussians(scale * m), mirrored_gaussians(m), atol=1e-6)
