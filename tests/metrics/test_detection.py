"""Detection of wrong labels against pair counting, scikit-learn and torchmetrics, ties included."""

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.metrics import (
    average_precision_score,
    precision_recall_fscore_support,
    roc_auc_score,
)
from torchmetrics.functional.classification import binary_auroc

from labelproof import metrics
from labelproof.errors import BadInput

WRONG = torch.tensor([True, False, True, False, False])
SUSPICION = torch.tensor([0.9, 0.9, 0.5, 0.1, 0.5])

# Few levels, so that most examples are tied with others.
tied_cases = st.lists(st.tuples(st.booleans(), st.integers(0, 4)), min_size=2, max_size=40).filter(
    lambda rows: len({wrong for wrong, _ in rows}) == 2
)


def test_auroc_and_ap_by_hand():
    # Pairs (wrong, right): .9 against .9 .1 .5 wins 1/2 + 1 + 1, .5 against them 0 + 1 + 1/2.
    assert metrics.error_auroc(WRONG, SUSPICION) == pytest.approx(4 / 6)
    # At .9 precision 1/2 and recall 1/2, at .5 precision 2/4 and recall 1.
    assert metrics.error_ap(WRONG, SUSPICION) == pytest.approx(0.5)


@settings(max_examples=60, deadline=None)
@given(tied_cases)
def test_auroc_is_the_share_of_pairs_won_and_ap_that_of_scikit_learn(rows):
    wrong = torch.tensor([w for w, _ in rows])
    suspicion = torch.tensor([float(s) for _, s in rows])
    pairs = [(a > b) + (a == b) / 2 for a in suspicion[wrong] for b in suspicion[~wrong]]
    won = float(sum(pairs)) / len(pairs)
    assert metrics.error_auroc(wrong, suspicion) == pytest.approx(won)
    assert won == pytest.approx(roc_auc_score(wrong, suspicion))
    expected = average_precision_score(wrong, suspicion)
    assert metrics.error_ap(wrong, suspicion) == pytest.approx(expected)


def test_auroc_agrees_with_torchmetrics_on_many_examples():
    rng = torch.Generator().manual_seed(0)
    wrong = torch.rand(20_000, generator=rng) < 0.2
    suspicion = torch.rand(20_000, generator=rng) + 0.3 * wrong
    theirs = binary_auroc(suspicion / 2, wrong.long()).item()
    assert metrics.error_auroc(wrong, suspicion) == pytest.approx(theirs, abs=1e-5)


def test_auroc_only_sees_the_order():
    value = metrics.error_auroc(WRONG, SUSPICION)
    assert metrics.error_auroc(WRONG, SUSPICION.log()) == value
    assert metrics.error_auroc(WRONG, -SUSPICION) == pytest.approx(1 - value)
    assert metrics.error_auroc(~WRONG, -SUSPICION) == pytest.approx(value)


def test_perfect_and_useless_suspicion():
    assert metrics.error_auroc(WRONG, WRONG.float()) == metrics.error_ap(WRONG, WRONG.float()) == 1
    assert metrics.error_auroc(WRONG, torch.zeros(5)) == 0.5
    assert metrics.error_ap(WRONG, torch.zeros(5)) == pytest.approx(0.4)


def test_infinite_suspicion_ranks_first():
    suspicion = torch.tensor([math.inf, 0.0, math.inf, -math.inf, 1.0])
    assert metrics.error_auroc(WRONG, suspicion) == 1.0


def test_one_kind_of_label_alone_is_undefined():
    none, every = torch.zeros(5, dtype=torch.bool), torch.ones(5, dtype=torch.bool)
    assert math.isnan(metrics.error_auroc(none, SUSPICION))
    assert math.isnan(metrics.error_auroc(every, SUSPICION))
    assert math.isnan(metrics.error_ap(none, SUSPICION))
    assert metrics.error_ap(every, SUSPICION) == 1.0


@pytest.mark.parametrize(("k", "value"), [(1, 1.0), (2, 0.5), (3, 2 / 3), (4, 0.5), (9, 0.4)])
def test_precision_at_k_breaks_ties_by_index(k, value):
    assert metrics.precision_at_k(WRONG, SUSPICION, k) == pytest.approx(value)


def test_precision_at_k_of_many_ties_takes_the_first():
    wrong = torch.arange(10_000) < 100
    assert metrics.precision_at_k(wrong, torch.zeros(10_000), 100) == 1.0
    assert metrics.precision_at_k(wrong.flip(0), torch.zeros(10_000), 100) == 0.0


@pytest.mark.parametrize("k", [0, -1])
def test_precision_of_nothing_is_undefined(k):
    assert math.isnan(metrics.precision_at_k(WRONG, SUSPICION, k))


def test_detection_agrees_with_scikit_learn():
    rng = torch.Generator().manual_seed(0)
    wrong, flagged = torch.rand(2, 300, generator=rng) < torch.tensor([[0.3], [0.4]])
    found = metrics.detection(wrong, flagged)
    expected = precision_recall_fscore_support(wrong, flagged, average="binary")[:3]
    assert tuple(found.values()) == pytest.approx(expected)
    assert list(found) == ["precision", "recall", "f1"]


def test_detection_by_hand_and_at_its_ends():
    flagged = torch.tensor([True, True, False, False, True])
    assert metrics.detection(WRONG, flagged) == pytest.approx(
        {"precision": 1 / 3, "recall": 1 / 2, "f1": 2 / 5}
    )
    nothing = torch.zeros(5, dtype=torch.bool)
    missed = metrics.detection(WRONG, nothing)
    assert math.isnan(missed["precision"])
    assert (missed["recall"], missed["f1"]) == (0.0, 0.0)
    assert all(map(math.isnan, metrics.detection(nothing, nothing).values()))


@pytest.mark.parametrize(
    ("wrong", "suspicion", "named"),
    [
        (WRONG, SUSPICION[:3], r"\(5,\) and \(3,\)"),
        (WRONG[None], SUSPICION[None], r"\(1, 5\)"),
        (WRONG[:0], SUSPICION[:0], "at least one example"),
        (WRONG, torch.tensor([0.1, math.nan, 0.2, 0.3, 0.4]), "NaN"),
    ],
)
def test_input_that_does_not_fit_is_refused(wrong, suspicion, named):
    for metric in (metrics.error_auroc, metrics.error_ap):
        with pytest.raises(BadInput, match=named):
            metric(wrong, suspicion)
    with pytest.raises(BadInput, match=named):
        metrics.precision_at_k(wrong, suspicion, 2)
