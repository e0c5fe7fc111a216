"""Margins, the two-Gaussian split and its relatives, against scikit-learn and scipy."""

from __future__ import annotations

import math

import numpy as np
import pytest
import scipy.stats
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.mixture import GaussianMixture
from torch import Tensor

from labelproof import functional as fn
from labelproof.errors import BadInput
from labelproof.functional import select


def mixture(seed: int, size: int, low: float, high: float, share: float, stds=(1.0, 1.0)) -> Tensor:
    rng = np.random.default_rng(seed)
    upper = rng.random(size) < share
    values = np.where(upper, rng.normal(high, stds[1], size), rng.normal(low, stds[0], size))
    return torch.as_tensor(values)


def sklearn_posterior(values: Tensor) -> np.ndarray:
    x = values.numpy().reshape(-1, 1)
    x = (x - x.min()) / (x.max() - x.min())
    model = GaussianMixture(2, max_iter=10, tol=1e-2, reg_covar=5e-4, random_state=0).fit(x)
    return model.predict_proba(x)[:, model.means_.argmax()]


MIXTURES = [
    mixture(0, 5000, 0, 5, 0.5),
    mixture(1, 5000, -4, 4, 0.8, (2.0, 1.0)),
    mixture(2, 5000, -3, 6, 0.2, (1.0, 2.5)),
    mixture(3, 3000, 0, 3, 0.6),
    mixture(4, 300, -10, 10, 0.55, (3.0, 3.0)),
    mixture(12, 5000, 0, 4, 0.1, (2.0, 0.5)),
    mixture(14, 4000, 0, 5, 0.9, (5.0, 1.0)),
]


CUTS = range(1, 2000)


def test_margin_by_hand_and_by_loop():
    logits = torch.tensor([[3.0, 1.0, 2.0], [3.0, 1.0, 2.0], [0.0, 0.0, -1.0]])
    assert fn.label_margin(logits, torch.tensor([0, 2, 1])).tolist() == [1.0, -1.0, 0.0]
    rng = torch.Generator().manual_seed(0)
    logits = torch.randn(50, 7, generator=rng)
    labels = torch.randint(7, (50,), generator=rng)
    by_loop = [
        row[y].item() - max(v.item() for j, v in enumerate(row) if j != y)
        for row, y in zip(logits, labels, strict=True)
    ]
    margin = fn.label_margin(logits, labels)
    assert margin.tolist() == pytest.approx(by_loop)
    assert torch.equal(margin > 0, logits.argmax(1) == labels)


def test_margin_of_two_classes_and_of_half_precision():
    logits = torch.tensor([[5.0, -2.0]], dtype=torch.bfloat16)
    margin = fn.label_margin(logits, torch.tensor([1]))
    assert margin.dtype == torch.float32
    assert margin.item() == -7


@pytest.mark.parametrize("values", MIXTURES)
def test_selection_agrees_with_scikit_learn(values):
    ours, theirs = fn.two_gaussians(values).numpy(), sklearn_posterior(values)
    assert ((ours > 0.5) == (theirs > 0.5)).mean() >= 0.995
    assert np.abs(ours - theirs).mean() < 0.01


@pytest.mark.parametrize("seed", [9, 10, 11])
def test_from_the_same_start_scikit_learn_gives_the_same_digits(seed):
    values = mixture(seed, 2000, 0, 2, 0.3, (1.0, 2.0))
    x = fn.min_max(values).sort().values
    # the best split in two, found by trying them all
    errors = [x[:k].var(correction=0) * k + x[k:].var(correction=0) * (2000 - k) for k in CUTS]
    cut = CUTS[int(np.argmin(errors))]
    parts = (x[:cut], x[cut:])
    model = GaussianMixture(
        2,
        max_iter=10,
        tol=1e-2,
        reg_covar=5e-4,
        weights_init=[len(part) / 2000 for part in parts],
        means_init=[[part.mean().item()] for part in parts],
        precisions_init=[[[1 / (part.var(correction=0).item() + 5e-4)]] for part in parts],
    ).fit(x[:, None].numpy())
    posterior = model.predict_proba(fn.min_max(values)[:, None].numpy())[:, model.means_.argmax()]
    np.testing.assert_allclose(fn.two_gaussians(values).numpy(), posterior, atol=1e-10)


def test_fit_recovers_the_modes():
    fit = fn.fit_two_gaussians(mixture(0, 20_000, -4, 4, 0.7, (1.0, 1.5)))
    assert fit.means == pytest.approx((-4, 4), abs=0.1)
    assert fit.stds == pytest.approx((1.0, 1.5), abs=0.15)
    assert fit.weights == pytest.approx((0.3, 0.7), abs=0.02)


def test_posterior_is_bayes_rule_in_the_units_of_the_values():
    fit = fn.TwoGaussians(means=(-1.0, 2.0), stds=(0.5, 1.5), weights=(0.4, 0.6))
    values = torch.linspace(-6, 6, 25, dtype=torch.float64)
    lower = 0.4 * scipy.stats.norm(-1.0, 0.5).pdf(values.numpy())
    upper = 0.6 * scipy.stats.norm(2.0, 1.5).pdf(values.numpy())
    expected = torch.as_tensor(upper / (lower + upper))
    torch.testing.assert_close(fit.posterior(values), expected)
    # the wider component takes over on the far side, as the docstring warns
    assert fit.posterior(values)[0] > 0.9


@pytest.mark.parametrize("split", [fn.two_gaussians, fn.mirrored_gaussians])
@pytest.mark.parametrize("gap", [0.5, 2.0, 7.0])
@pytest.mark.parametrize("share", [0.05, 0.6, 0.95])
def test_histogram_agrees_with_exact_fit(monkeypatch, split, gap, share):
    values = mixture(5, 21_000, -gap / 2, gap / 2, share, (1.5, 1.0)).float()
    coarse = split(values)
    monkeypatch.setattr(select, "EXACT_UP_TO", 10**9)
    exact = split(values)
    assert not torch.equal(coarse, exact)  # the histogram was in use
    assert ((coarse > 0.5) == (exact > 0.5)).double().mean() >= 0.999
    assert (coarse - exact).abs().max() < 1e-3


def test_blocks_make_no_difference(monkeypatch):
    values = mixture(7, 5000, -3, 4, 0.6, (1.5, 1.0))
    whole = fn.two_gaussians(values), fn.mirrored_gaussians(values)
    monkeypatch.setattr(select, "BLOCK", 100)
    torch.testing.assert_close(fn.two_gaussians(values), whole[0])
    torch.testing.assert_close(fn.mirrored_gaussians(values), whole[1])


def test_histogram_of_far_outliers_and_few_points(monkeypatch):
    monkeypatch.setattr(select, "EXACT_UP_TO", 0)
    assert fn.two_gaussians(torch.tensor([0.0, 0.0, 7.0])).tolist() == pytest.approx([0, 0, 1])
    values = mixture(6, 4000, -1, 1, 0.5, (0.2, 0.2))
    values[0] = 50.0
    assert fn.two_gaussians(values).isfinite().all()


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ([3.0], [1.0]),
        ([2.0] * 9, [1.0] * 9),
        ([1.0, 2.0], [0.0, 1.0]),
        ([5.0, 4.0, 4.0], [1.0, 0.0, 0.0]),
        ([0.0, 1e-30], [0.0, 1.0]),
    ],
)
def test_degenerate_sets(values, expected):
    assert fn.two_gaussians(torch.tensor(values)).tolist() == pytest.approx(expected)


def test_one_mode_gives_an_answer():
    posterior = fn.two_gaussians(mixture(7, 2000, 0, 0, 0.5))
    assert posterior.isfinite().all()
    assert posterior.min() >= 0
    assert posterior.max() <= 1


@settings(max_examples=60, deadline=None, derandomize=True)
@given(st.lists(st.floats(width=32, allow_nan=False, allow_infinity=False), min_size=1))
def test_any_finite_values_are_split(values):
    x = torch.tensor(values)
    posterior = fn.two_gaussians(x)
    assert posterior.shape == x.shape
    assert ((posterior >= 0) & (posterior <= 1)).all()
    assert math.isfinite(fn.excess_kurtosis(x))
    scaled = fn.min_max(x)
    assert ((scaled >= 0) & (scaled <= 1)).all()


@pytest.mark.parametrize(("shift", "scale"), [(100.0, 1.0), (0.0, 1e-6), (-7.0, 1e6)])
def test_split_does_not_depend_on_units(shift, scale):
    values = MIXTURES[1]
    moved = fn.two_gaussians(shift + scale * values)
    torch.testing.assert_close(moved, fn.two_gaussians(values), rtol=1e-5, atol=1e-6)


def test_split_does_not_depend_on_the_random_state_or_on_order():
    values = MIXTURES[2]
    torch.manual_seed(0)
    first = fn.two_gaussians(values)
    torch.manual_seed(1)
    assert torch.equal(fn.two_gaussians(values), first)
    order = torch.randperm(len(values))
    torch.testing.assert_close(fn.two_gaussians(values[order]), first[order])


def test_start_is_the_best_two_means():
    values = torch.tensor([0.0, 0.1, 0.15, 0.6, 0.7, 1.0], dtype=torch.float64)
    members = select._best_split(values, torch.ones(6, dtype=torch.float64))
    errors = [
        sum(((part - part.mean()) ** 2).sum().item() for part in (values[:k], values[k:]))
        for k in range(1, 6)
    ]
    assert members[:, 0].sum().item() == 1 + int(np.argmin(errors))
    assert torch.equal(members.sum(1), torch.ones(6, dtype=torch.float64))


@pytest.mark.parametrize("score", [fn.two_gaussians, fn.excess_kurtosis, fn.min_max])
def test_unusable_scores_are_refused(score):
    values = torch.tensor([1.0, math.nan, 2.0, math.inf])
    with pytest.raises(BadInput, match="2 of 4 scores are NaN or infinite, the first at index 1"):
        score(values)
    with pytest.raises(BadInput, match="N >= 1"):
        score(torch.zeros(0))
    with pytest.raises(BadInput, match=r"not \(2, 2\)"):
        score(torch.zeros(2, 2))


def test_type_is_kept_and_no_gradient_flows():
    values = MIXTURES[0][:50].float().requires_grad_()
    for ours in (fn.two_gaussians(values), fn.min_max(values)):
        assert ours.dtype == torch.float32
        assert not ours.requires_grad
    assert fn.two_gaussians(values.detach().double()).dtype == torch.float64
    assert fn.two_gaussians(values.detach().half()).dtype == torch.float32


@pytest.mark.parametrize("values", MIXTURES)
def test_kurtosis_agrees_with_scipy(values):
    expected = scipy.stats.kurtosis(values.numpy())
    assert fn.excess_kurtosis(values) == pytest.approx(expected, abs=1e-9)


def test_kurtosis_tells_modes_by_their_share():
    # two points: 1 / (p (1 - p)) - 6, so 1.2 stands at a share of a sixth
    for share in (0.45, 0.05):
        values = torch.cat([torch.zeros(int(1000 * share)), torch.ones(1000 - int(1000 * share))])
        assert fn.excess_kurtosis(values) == pytest.approx(1 / (share * (1 - share)) - 6)
    assert fn.excess_kurtosis(torch.full((5,), 3.0)) == 0.0


def test_min_max():
    assert fn.min_max(torch.tensor([-2.0, 0.0, 6.0])).tolist() == [0.0, 0.25, 1.0]
    assert fn.min_max(torch.tensor([4.0, 4.0])).tolist() == [1.0, 1.0]


def test_confident_keeps_by_the_mean_of_each_class() -> None:
    probs = torch.tensor(
        [[0.9, 0.1], [0.7, 0.3], [0.2, 0.8], [0.6, 0.4], [0.3, 0.7], [0.1, 0.9], [0.4, 0.6]]
    )
    labels = torch.tensor([0, 0, 0, 0, 1, 1, 1])
    # levels by hand: class 0 (0.9 + 0.7 + 0.2 + 0.6) / 4 = 0.6, class 1 (0.7 + 0.9 + 0.6) / 3
    kept = fn.confident(probs.log(), labels, fewest=1) > 0.5
    assert kept.tolist() == [True, True, False, True, True, True, True]
    swapped = torch.tensor([0, 0, 0, 0, 1, 1, 1, 1])
    more = torch.cat([probs, torch.tensor([[0.95, 0.05]])])
    clean = fn.confident(more.log(), swapped, fewest=1)
    assert clean[-1] < 0.5  # class 0 counts for it, its own does not
    assert clean[-1] == clean.min()
    assert (fn.confident(more.log(), swapped, fewest=5) > 0.5).all()  # too few to drop any


def test_confident_agrees_with_cleanlab_on_what_is_off_the_diagonal() -> None:
    from cleanlab.count import compute_confident_joint

    rng = torch.Generator().manual_seed(0)
    labels = torch.randint(4, (400,), generator=rng)
    probs = (2 * torch.eye(4)[labels] + 1.5 * torch.randn(400, 4, generator=rng)).softmax(1)
    _, issues = compute_confident_joint(
        labels.numpy(), probs.numpy(), calibrate=False, return_indices_of_off_diagonals=True
    )
    dropped = (fn.confident(probs.log(), labels) < 0.5).nonzero().squeeze(1).tolist()
    assert dropped == sorted(issues)


def test_the_prior_penalty_takes_any_prior() -> None:
    probs = torch.tensor([[0.7, 0.2, 0.1], [0.3, 0.4, 0.3]])
    prior = torch.tensor([0.6, 0.3, 0.1])
    want = torch.distributions.kl_divergence(
        torch.distributions.Categorical(probs=prior),
        torch.distributions.Categorical(probs=probs.mean(0)),
    )
    assert torch.allclose(fn.prior_penalty(probs, prior), want)
    uniform = torch.full((3,), 1 / 3)
    assert torch.allclose(fn.prior_penalty(probs), fn.prior_penalty(probs, uniform))


def test_only_rare_classes_are_repeated() -> None:
    labels = torch.tensor([0] * 640 + [1] * 128 + [2] * 40 + [3] * 10)
    index = torch.arange(len(labels)) + 7

    def counts(balance: float) -> list[int]:
        rng = torch.Generator().manual_seed(0)
        drawn = fn.repeated(index, labels, balance, rng)
        return torch.bincount(labels[drawn - 7]).tolist()

    assert counts(0.0) == [640, 128, 40, 10]
    assert counts(0.5) == [640, 128, 160, 80]  # a fifth of the largest is not rare yet
    assert counts(1.0) == [640, 128, 640, 640]
    assert not len(fn.repeated(index[:0], labels[:0], 0.5, torch.Generator()))
    single = torch.tensor([0] * 16 + [1])  # comes four times
    drawn = fn.repeated(torch.arange(17), single, 0.5, torch.Generator())
    assert drawn.tolist() == [*range(16), 16, 16, 16, 16]


def test_a_class_counts_where_its_probability_is_its_mean() -> None:
    probs = torch.tensor([[0.75, 0.25]]).expand(8, 2)  # the mean of each class, exactly
    labels = torch.arange(8) % 2
    assert ((fn.confident(probs.log(), labels) > 0.5) == (labels == 0)).all()


def test_shares_of_labels_have_half_a_label_more_of_each_class() -> None:
    shares = fn.label_shares(torch.tensor([0, 0, 2]), 3)
    assert shares.tolist() == pytest.approx([2.5 / 4.5, 0.5 / 4.5, 1.5 / 4.5])


def test_a_class_without_labels_counts_for_nobody() -> None:
    probs = torch.tensor([[0.2, 0.1, 0.7], [0.1, 0.2, 0.7]]).repeat(6, 1)
    labels = torch.arange(12) % 2
    assert (fn.confident(probs.log(), labels) > 0.5).all()
