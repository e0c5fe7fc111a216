"""Accuracy, top-k and the three ways to quote a curve."""

import math

import pytest
import torch
from sklearn.metrics import accuracy_score, top_k_accuracy_score

from labelproof import metrics
from labelproof.errors import BadInput


def random_case(n=400, classes=10, seed=0):
    rng = torch.Generator().manual_seed(seed)
    logits = 2 * torch.randn(n, classes, generator=rng)
    return logits.softmax(1), torch.randint(classes, (n,), generator=rng)


def test_accuracy_and_top_k_agree_with_scikit_learn():
    probs, labels = random_case()
    assert metrics.accuracy(probs, labels) == accuracy_score(labels, probs.argmax(1))
    for k in (1, 3, 5):
        expected = top_k_accuracy_score(labels, probs, k=k, labels=range(10))
        assert metrics.top_k_accuracy(probs, labels, k) == pytest.approx(expected, abs=1e-12)


def test_ties_go_to_the_lower_index():
    probs = torch.full((4, 4), 0.25)
    labels = torch.arange(4)
    assert metrics.accuracy(probs, labels) == 0.25
    assert [metrics.top_k_accuracy(probs, labels, k) for k in (1, 2, 3)] == [0.25, 0.5, 0.75]


def test_top_5_of_at_most_five_classes_is_one():
    for classes in (2, 5):
        assert metrics.top_k_accuracy(*random_case(classes=classes), 5) == 1.0
    assert metrics.top_k_accuracy(*random_case(classes=6), 5) < 1.0


def test_accuracy_takes_logits_and_infinite_ones():
    logits = torch.tensor([[3.0, -math.inf], [-2.0, 5.0], [-math.inf, 0.0]])
    assert metrics.accuracy(logits, torch.tensor([0, 1, 0])) == pytest.approx(2 / 3)


def test_last_ten_are_exactly_the_last_ten():
    curve = [0.9, *[0.1] * 4, *(i / 10 for i in range(10))]
    record = metrics.best_last(curve)
    assert record.last == 0.9
    assert record.last10 == pytest.approx(0.45, abs=1e-15)
    assert record.best == 0.9
    assert metrics.best_last([0.99, *curve]).last10 == record.last10
    assert metrics.best_last([0.99, *curve]).best == 0.99


def test_short_curve_averages_what_there_is():
    assert metrics.best_last([0.2, 0.6, 0.4]) == metrics.BestLast(
        last=0.4, last10=pytest.approx(0.4), best=0.6
    )


@pytest.mark.parametrize(
    ("probs", "labels", "named"),
    [
        (torch.rand(3), torch.zeros(3), r"\(3,\) and \(3,\)"),
        (torch.rand(3, 2), torch.zeros(4), r"\(3, 2\) and \(4,\)"),
        (torch.rand(0, 2), torch.zeros(0), "at least one example"),
        (torch.rand(3, 2), torch.tensor([0, 1, 2]), r"0\.\.1"),
        (torch.rand(3, 2), torch.tensor([0, 1, -1]), "from -1 to 1"),
        (torch.tensor([[math.nan, 1.0]]), torch.tensor([0]), "NaN"),
    ],
)
def test_input_that_does_not_fit_is_refused(probs, labels, named):
    with pytest.raises(BadInput, match=named):
        metrics.accuracy(probs, labels)


def test_empty_curve_is_refused():
    with pytest.raises(BadInput, match="empty"):
        metrics.best_last([])
