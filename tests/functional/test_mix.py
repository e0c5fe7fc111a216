"""Sharpening and mixing."""

from __future__ import annotations

import math

import pytest
import scipy.stats
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from labelproof import functional as fn
from labelproof.errors import BadInput


def rng(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def test_sharpening_by_hand():
    probs = torch.tensor([[0.5, 0.3, 0.2]])
    expected = torch.tensor([[0.25, 0.09, 0.04]]) / 0.38
    torch.testing.assert_close(fn.sharpen(probs, 0.5), expected)
    torch.testing.assert_close(fn.sharpen(probs, 1.0), probs)


def test_zeros_stay_zeros_and_have_a_slope():
    probs = torch.tensor([[0.8, 0.2, 0.0], [1.0, 0.0, 0.0]], requires_grad=True)
    sharp = fn.sharpen(probs, 0.5)
    assert sharp[:, 2].tolist() == fn.sharpen(probs, 3.0)[:, 2].tolist() == [0.0, 0.0]
    assert sharp[1].tolist() == [1.0, 0.0, 0.0]
    torch.testing.assert_close(fn.sharpen(probs, 1.0), probs)
    (sharp**2).sum().backward()
    assert probs.grad.isfinite().all()


def test_a_vanishing_temperature_gives_the_winner():
    assert fn.sharpen(torch.tensor([[0.3, 0.5, 0.2]]), 1e-39).tolist() == [[0.0, 1.0, 0.0]]


@settings(max_examples=50, deadline=None, derandomize=True)
@given(
    st.lists(st.integers(0, 1000), min_size=2, max_size=8).filter(any),
    st.sampled_from([1e-30, 0.01, 0.5, 1.0, 3.0]),
)
def test_sharpening_keeps_the_winner(counts, temperature):
    probs = torch.tensor([counts], dtype=torch.float64) / sum(counts)
    sharp = fn.sharpen(probs, temperature)
    assert sharp.sum().item() == pytest.approx(1)
    assert sharp[0, probs.argmax()] == sharp.max()


@pytest.mark.parametrize("temperature", [0.0, -1.0, math.nan])
def test_temperature_must_be_positive(temperature):
    with pytest.raises(BadInput, match="temperature must be above 0"):
        fn.sharpen(torch.ones(1, 2) / 2, temperature)


def test_mixup_is_what_it_says():
    x = torch.randn(12, 3, 4, 4, generator=rng(1))
    mixed, weight, order = fn.mixup(x, 4.0, rng())
    assert sorted(order.tolist()) == list(range(12))
    assert order.dtype == torch.int64
    assert 0.5 <= weight <= 1
    torch.testing.assert_close(mixed, weight * x + (1 - weight) * x[order])
    targets = torch.eye(12)
    own = fn.mix(targets, weight, order).diagonal()
    assert (own >= weight - 1e-6).all()


def test_mixup_follows_its_generator_alone():
    x = torch.randn(8, 2, generator=rng(1))
    torch.manual_seed(0)
    first = fn.mixup(x, 4.0, rng(3))
    torch.manual_seed(1)
    before = torch.get_rng_state()
    second = fn.mixup(x, 4.0, rng(3))
    assert torch.equal(before, torch.get_rng_state())
    assert torch.equal(first.mixed, second.mixed)
    assert first.weight == second.weight
    generator = rng(3)
    draws = {fn.mixup(x, 4.0, generator).weight for _ in range(5)}
    assert len(draws) == 5


@pytest.mark.parametrize("alpha", [0.2, 0.5, 1.0, 4.0])
def test_weights_are_the_larger_part_of_a_beta_draw(alpha):
    generator = rng(11)
    weights = [fn.mixing_weight(alpha, generator) for _ in range(2000)]
    beta = scipy.stats.beta(alpha, alpha)
    test = scipy.stats.kstest(weights, lambda w: beta.cdf(w) - beta.cdf(1 - w))
    assert test.pvalue > 0.01
    # ¼ E(2b - 1)² = var(b), which the folding at ½ leaves alone
    second = sum((w - 0.5) ** 2 for w in weights) / len(weights)
    assert second == pytest.approx(beta.var(), rel=0.06)


def test_extreme_parameters():
    generator = rng()
    assert all(0.5 <= fn.mixing_weight(1e-3, generator) <= 1 for _ in range(200))
    x = torch.eye(4)
    mixed, weight, _ = fn.mixup(x, 0.0, generator)
    assert weight == 1.0
    assert torch.equal(mixed, x)
    with pytest.raises(BadInput, match="Beta parameter"):
        fn.mixup(x, -1.0, generator)


def test_nothing_mixed_is_nothing_drawn_differently():
    # the same generator gives the same permutation whether or not the weight is 1
    x = torch.eye(6)
    assert torch.equal(fn.mixup(x, 0.0, rng(2)).permutation, fn.mixup(x, 4.0, rng(2)).permutation)


def test_one_example_mixes_with_itself():
    x = torch.tensor([[2.0, 3.0]])
    torch.testing.assert_close(fn.mixup(x, 1.0, rng()).mixed, x)
