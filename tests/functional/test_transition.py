"""Transition matrices, estimated, declared, applied; lopsided, so that transposing would show."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from labelproof import functional as fn
from labelproof.errors import BadInput

T = torch.tensor([[0.7, 0.2, 0.1], [0.0, 0.9, 0.1], [0.3, 0.0, 0.7]], dtype=torch.float64)


def posteriors(n: int = 3000) -> torch.Tensor:
    """Distributions of the true class, some of them almost certain."""
    rng = torch.Generator().manual_seed(0)
    return (6 * torch.randn(n, 3, generator=rng, dtype=torch.float64)).softmax(1)


@pytest.mark.parametrize("quantile", [0.97, 1.0])
def test_the_estimate_finds_the_matrix_behind_exact_predictions(quantile):
    given = posteriors() @ T
    estimate = fn.anchor_transition(given, quantile)
    assert (estimate - T).abs().max() < 0.02
    torch.testing.assert_close(estimate.sum(1), torch.ones(3).double())


def test_the_quantile_passes_over_outliers():
    given = posteriors() @ T
    given[0] = torch.tensor([1.0, 0.0, 0.0])
    assert fn.anchor_transition(given, 1.0)[0].tolist() == [1.0, 0.0, 0.0]
    assert (fn.anchor_transition(given, 0.97)[0] - T[0]).abs().max() < 0.02


def test_estimating_leaves_the_predictions_alone():
    given = posteriors(50)
    before = given.clone()
    fn.anchor_transition(given, 0.97)
    assert torch.equal(given, before)


def test_few_or_equal_examples_still_have_anchors():
    one = torch.tensor([[0.5, 0.3, 0.2]])
    torch.testing.assert_close(fn.anchor_transition(one, 0.97), one.repeat(3, 1))
    torch.testing.assert_close(fn.anchor_transition(one.repeat(9, 1), 0.5), one.repeat(3, 1))


@pytest.mark.parametrize("size", [2, 5, 34, 35, 200])
def test_anchors_are_those_of_the_percentile_rounded_up(size):
    given = (posteriors(size) @ T).numpy()
    rows = []
    for column in given.T:
        below = column < np.percentile(column, 97, method="higher")
        rows.append(given[np.where(below, column, -1).argmax()])
    expected = torch.from_numpy(np.stack(rows))
    torch.testing.assert_close(fn.anchor_transition(torch.from_numpy(given), 0.97), expected)


def test_declared_matrices_are_checked():
    matrix = fn.declared_transition((0.9, 0.1, 0.2, 0.8), 2)
    torch.testing.assert_close(matrix, torch.tensor([[0.9, 0.1], [0.2, 0.8]]))
    with pytest.raises(BadInput, match="3 x 3 numbers for 3 classes, row after row, but has 4"):
        fn.declared_transition((0.9, 0.1, 0.2, 0.8), 3)
    with pytest.raises(BadInput, match=r"the rows sum to 0\.9, 1, the smallest entry is"):
        fn.declared_transition((0.8, 0.1, 0.2, 0.8), 2)
    with pytest.raises(BadInput, match="the smallest entry is"):
        fn.declared_transition((1.1, -0.1, 0.2, 0.8), 2)


def test_conditioning_draws_to_the_identity_as_little_as_it_must():
    assert torch.equal(fn.conditioned(T, 100.0), T)
    alike = torch.full((3, 3), 1 / 3)
    drawn = fn.conditioned(alike, 100.0)
    torch.testing.assert_close(drawn, 0.9 * alike + 0.1 * torch.eye(3))  # its condition is 10
    assert torch.equal(fn.conditioned(alike, 1.0), torch.eye(3))


def test_probability_of_the_given_label():
    logits = posteriors(7).log()
    labels = torch.arange(7) % 3
    expected = (logits.softmax(1) @ T).gather(1, labels[:, None]).squeeze(1).log()
    torch.testing.assert_close(fn.log_given(logits, labels, T), expected)


def test_impossible_labels_stay_finite():
    certain = torch.tensor([[900.0, 0.0]], requires_grad=True)
    loss = fn.log_given(certain, torch.tensor([1]), torch.eye(2))
    loss.sum().backward()
    assert loss.isfinite().all()
    assert certain.grad.isfinite().all()


def test_bayes_on_the_joint_distribution():
    p = torch.tensor([[0.5, 0.3, 0.2]], dtype=torch.float64)
    joint = p.T * T  # true class by given label
    for y in range(3):
        expected = joint[y, y] / joint[:, y].sum()
        got = fn.true_given(p.log(), torch.tensor([y]), T)
        assert got.item() == pytest.approx(expected.item())
