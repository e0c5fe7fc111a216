"""Softmax regression against scikit-learn's, and what no fold may know."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from sklearn.linear_model import LogisticRegression
from torch.nn.functional import one_hot

from labelproof import functional as fn
from labelproof import metrics
from labelproof.functional import softmax_regression
from labelproof.functional.softmax_regression import (
    CrossFit,
    cross_fit,
    cross_fit_nested,
    cross_fit_twice,
    eigenbasis,
    folds_of,
    predicts_worse,
    top_variance,
)


def made(size: int = 300, seed: int = 0) -> tuple[torch.Tensor, torch.Tensor]:
    rng = torch.Generator().manual_seed(seed)
    y = torch.arange(size) % 3
    x = torch.randn(size, 5, generator=rng) + 1.5 * torch.eye(3, 5)[y]
    flip = torch.rand(size, generator=rng) < 0.2
    return x, torch.where(flip, (y + 1) % 3, y)


def test_the_fit_is_scikit_learns() -> None:
    x, y = made()
    fold = folds_of(y, 5, torch.Generator().manual_seed(0))
    for penalty in (0.3, 0.03):
        ours = cross_fit(x, y, 3, fold, penalties=(1.0, penalty, penalty, penalty)[1:])
        theirs = LogisticRegression(C=1 / (penalty * len(x)), tol=1e-8, max_iter=1000).fit(x, y)
        want = theirs.predict_proba(x)
        got = (x @ ours.weight + ours.bias).softmax(1).numpy()
        assert np.abs(got - want).max() < 2e-3


@pytest.mark.parametrize("shape", [(40, 12), (12, 40)])
def test_the_eigenbasis_is_orthonormal_and_holds_all_inputs(shape: tuple[int, int]) -> None:
    rng = torch.Generator().manual_seed(3)
    x = torch.randn(shape, generator=rng) * torch.logspace(0, -2, shape[1])
    directions, squares = eigenbasis(x)
    inputs = x @ directions
    assert directions.shape == (shape[1], 12)
    assert torch.allclose(directions.T @ directions, torch.eye(12), atol=1e-5)
    assert torch.allclose(inputs @ directions.T, x, atol=1e-5)
    assert torch.allclose((inputs**2).mean(0), squares, rtol=1e-4)


def test_scores_out_of_fold_are_those_of_a_fit_without_the_fold() -> None:
    x, y = made()
    fold = folds_of(y, 4, torch.Generator().manual_seed(1))
    ours = cross_fit(x, y, 3, fold, penalties=(0.1,))
    for k in range(4):
        seen = (fold != k).numpy()
        model = LogisticRegression(C=1 / (0.1 * seen.sum()), tol=1e-8, max_iter=1000)
        want = model.fit(x.numpy()[seen], y.numpy()[seen]).predict_log_proba(x.numpy()[~seen])
        assert np.abs(ours.log_probs[~torch.from_numpy(seen)].numpy() - want).max() < 5e-3


def test_the_penalty_with_the_best_likelihood_out_of_fold_is_kept() -> None:
    x, y = made(90)
    fold = folds_of(y, 5, torch.Generator().manual_seed(2))
    each = [cross_fit(x, y, 3, fold, penalties=(p,)).likelihood for p in (1.0, 0.1, 0.01)]
    best = cross_fit(x, y, 3, fold, penalties=(1.0, 0.1, 0.01))
    assert abs(best.likelihood - max(each)) < 5e-3


def test_only_kept_examples_are_fitted_to_and_flat_directions_do_no_harm() -> None:
    x, y = made()
    wide = torch.cat([x, x[:, :2], torch.zeros(len(x), 1)], 1)  # copies and an empty feature
    fold = folds_of(y, 3, torch.Generator().manual_seed(0))
    kept = torch.arange(len(y)) % 4 > 0
    fitted = cross_fit(wide, y, 3, fold, kept=kept, penalties=(1e-2,))
    changed = torch.where(kept, y, (y + 1) % 3)
    again = cross_fit(wide, changed, 3, fold, kept=kept, penalties=(1e-2,))
    assert torch.equal(fitted.weight, again.weight)
    gap = (wide @ fitted.weight + fitted.bias).softmax(1)[kept].mean(0) - torch.eye(3)[
        y[kept]
    ].mean(0)
    assert gap.abs().max() < 1e-3  # the bias is not penalised


def test_a_second_fit_leaves_out_what_the_first_ones_doubt() -> None:
    x, y = made(600)
    truth = torch.arange(600) % 3
    fold = folds_of(y, 5, torch.Generator().manual_seed(0))
    twice, once = cross_fit_twice(x, y, 3, fold), cross_fit(x, y, 3, fold).log_probs
    wrong = y != truth
    assert metrics.error_auroc(wrong, -fn.label_margin(twice, y)) > metrics.error_auroc(
        wrong, -fn.label_margin(once, y)
    )
    assert top_variance(torch.diag(torch.tensor([3.0, 1.0]))) == 4.5


def test_folds_spread_every_class() -> None:
    y = torch.tensor([0] * 40 + [1] * 7 + [2] * 2)
    fold = folds_of(y, 4, torch.Generator().manual_seed(0))
    counts = torch.stack([torch.bincount(fold[y == c], minlength=4) for c in range(3)])
    assert (counts.amax(1) - counts.amin(1) <= 1).all()
    assert torch.bincount(fold).tolist() == [13, 12, 12, 12]


def test_a_second_fit_that_predicts_worse_is_left_out() -> None:
    labels = torch.arange(400) % 4
    sure = one_hot(labels, 4).double().mul(4).log_softmax(1)
    wrong = sure.roll(1, 0)
    flat = torch.zeros(400, 4).log_softmax(1).double()
    mixed = torch.where((torch.arange(400) < 40)[:, None], wrong, sure)
    assert predicts_worse(mixed, sure, labels)  # a tenth fewer labels
    assert not predicts_worse(sure, mixed, labels)
    assert not predicts_worse(sure, sure, labels)
    # as many labels, but far less likely
    assert predicts_worse(torch.where(sure > -1, sure - 0.01, sure), sure, labels)
    assert not predicts_worse(flat, flat, labels)


def test_the_nested_fit_is_the_first_alone_where_it_predicts_worse(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    x, y = made(300)
    fold = folds_of(y, 5, torch.Generator().manual_seed(0))
    first = cross_fit(x, y, 3, fold)
    assert not torch.equal(cross_fit_nested(x, y, 3, fold).weight, first.weight)
    asked: list[tuple[torch.Tensor, torch.Tensor]] = []

    def worse(mean: torch.Tensor, own: torch.Tensor, labels: torch.Tensor) -> bool:
        asked.append((mean, own))
        return True

    monkeypatch.setattr(softmax_regression, "predicts_worse", worse)
    found = cross_fit_nested(x, y, 3, fold)
    assert torch.equal(found.weight, first.weight)
    ((mean, own),) = asked
    assert torch.equal(own, first.log_probs)
    assert not torch.equal(mean, own)


@pytest.mark.parametrize("shape", [(40, 12), (12, 40)])
def test_the_unit_of_the_inputs_does_not_decide_which_directions_count(
    shape: tuple[int, int],
) -> None:
    x = torch.randn(shape, generator=torch.Generator().manual_seed(3))
    (usual, squares), (small, smaller) = eigenbasis(x), eigenbasis(1e-3 * x)
    assert small.shape == usual.shape == (shape[1], 12)
    assert torch.allclose(smaller, 1e-6 * squares, rtol=1e-3)


def test_a_regression_is_worse_by_standard_errors() -> None:
    """Of 400 labels, k fewer are sqrt(399 k / (400 - k)) errors: 1.4 for two, 1.7 for three."""
    labels = torch.arange(400) % 4
    sure = one_hot(labels, 4).double().mul(4).log_softmax(1)
    wrong = sure.roll(1, 0)

    def missing(count: int, said: torch.Tensor = sure) -> torch.Tensor:
        return torch.where((torch.arange(400) < count)[:, None], wrong, said)

    assert not predicts_worse(missing(2), sure, labels)
    assert predicts_worse(missing(3), sure, labels)
    # one label more is one error ahead: that all others are less likely does not matter then
    less = torch.where(sure > -1, sure - 0.01, sure)
    assert not predicts_worse(less, missing(1), labels)
    # less likely by about five errors, and by about seven
    for share, worse in ((25, False), (50, True)):
        some = torch.where((torch.arange(400) < share)[:, None], less, sure)
        assert predicts_worse(some, sure, labels) is worse


def test_the_nested_fit_is_the_mean_of_fits_to_all_and_to_kept_labels() -> None:
    x, y = made(300)
    fold = folds_of(y, 5, torch.Generator().manual_seed(0))
    first, found = cross_fit(x, y, 3, fold), cross_fit_nested(x, y, 3, fold)
    kept = (fn.confident(first.log_probs, y) > 0.5).numpy()
    assert 0 < kept.sum() < 300
    model = LogisticRegression(C=1 / (first.penalty * kept.sum()), tol=1e-8, max_iter=1000)
    want = model.fit(x.numpy()[kept], y.numpy()[kept]).predict_proba(x.numpy())
    weight, bias = 2 * found.weight - first.weight, 2 * found.bias - first.bias
    assert np.abs((x @ weight + bias).softmax(1).numpy() - want).max() < 1e-2
    assert found.likelihood == pytest.approx(fn.of_label(found.log_probs, y).mean().item())
    assert torch.allclose(found.log_probs.exp().sum(1), torch.ones(300), atol=1e-5)


def test_penalties_go_from_strong_to_weak() -> None:
    assert list(softmax_regression.PENALTIES) == sorted(softmax_regression.PENALTIES)[::-1]


def test_where_no_label_is_doubted_the_nested_fit_says_what_the_first_says_of_every_fold(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    y = torch.arange(150) % 3
    x = torch.randn(150, 5, generator=torch.Generator().manual_seed(0)) + 6 * torch.eye(3, 5)[y]
    fold = folds_of(y, 5, torch.Generator().manual_seed(0))
    first = cross_fit(x, y, 3, fold, penalties=(0.1,))
    # what no fold fills must neither look like an answer nor give way to the first fit
    monkeypatch.setattr(torch, "empty_like", lambda like: torch.full_like(like, torch.nan))
    monkeypatch.setattr(softmax_regression, "predicts_worse", lambda *_: False)
    found = cross_fit_nested(x, y, 3, fold, fixed=torch.ones(150) > 0, penalties=(0.1,))
    for k in range(5):
        rows = fold == k
        apart = found.log_probs[rows].exp() - first.log_probs[rows].exp()
        assert apart.abs().max() < 0.005


def test_a_second_fit_tries_the_penalty_of_the_first_and_a_third_of_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    x, y = made(90)
    fold = folds_of(y, 3, torch.Generator().manual_seed(0))
    first, tried = cross_fit(x, y, 3, fold), []

    def noted(*told: Any, **more: Any) -> CrossFit:
        tried.append(more.get("penalties"))
        return cross_fit(*told, **more)

    monkeypatch.setattr(softmax_regression, "cross_fit", noted)
    cross_fit_twice(x, y, 3, fold)
    assert tried == [None, pytest.approx([first.penalty, first.penalty / 3])]
