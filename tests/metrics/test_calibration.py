"""Calibration against numbers by hand, torchmetrics, scikit-learn and facts of algebra."""

import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.metrics import log_loss
from torchmetrics.functional.classification import multiclass_calibration_error

from labelproof import metrics
from labelproof.errors import BadInput


def random_case(n=500, classes=5, seed=0, scale=2.0):
    rng = torch.Generator().manual_seed(seed)
    logits = scale * torch.randn(n, classes, generator=rng, dtype=torch.float64)
    labels = torch.randint(classes, (n,), generator=rng)
    return logits.softmax(1), labels


def binary(confidences, hits, dtype=torch.float64):
    """Two-class probabilities that predict class 0 with these confidences."""
    top = torch.tensor(confidences, dtype=torch.float64)
    probs = torch.stack([top, 1 - top], 1).to(dtype)
    return probs, 1 - torch.tensor(hits, dtype=torch.int64)


# Six examples in bins (.4, .6], (.6, .8] and (.8, 1] of five.
SIX = binary([0.55, 0.60, 0.70, 0.80, 0.90, 1.00], [1, 0, 1, 1, 0, 1])


def test_six_examples_by_hand():
    # Gaps of sums: |1 - 1.15|, |2 - 1.5|, |1 - 1.9|.
    assert metrics.ece(*SIX, bins=5) == pytest.approx((0.15 + 0.5 + 0.9) / 6)
    assert metrics.mce(*SIX, bins=5) == pytest.approx(0.45)
    assert metrics.brier(*SIX) == pytest.approx(
        2 * (0.45**2 + 0.6**2 + 0.3**2 + 0.2**2 + 0.9**2) / 6
    )
    own = [0.55, 0.40, 0.70, 0.80, 0.10, 1.00]
    assert metrics.nll(*SIX) == pytest.approx(-sum(map(math.log, own)) / 6)


def test_reliability_of_six_examples_by_hand():
    diagram = metrics.reliability(*SIX, bins=5)
    assert diagram.count == (0, 0, 2, 2, 2)
    assert diagram.confidence[2:] == pytest.approx((0.575, 0.75, 0.95))
    assert diagram.accuracy[2:] == pytest.approx((0.5, 1.0, 0.5))
    assert all(map(math.isnan, diagram.confidence[:2] + diagram.accuracy[:2]))
    assert diagram.centres == pytest.approx((0.1, 0.3, 0.5, 0.7, 0.9))


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16])
@pytest.mark.parametrize("bins", [5, 10, 15])
def test_an_edge_belongs_to_the_bin_below(dtype, bins):
    edges = [k / bins for k in range(1, bins + 1) if k / bins > 0.5]
    probs, labels = binary(edges, [1] * len(edges), dtype)
    count = metrics.reliability(probs, labels, bins).count
    assert count == (0,) * (bins - len(edges)) + (1,) * len(edges)
    above = torch.nextafter(torch.tensor(0.6, dtype=torch.float64), torch.tensor(1.0).double())
    assert metrics.reliability(*binary([above.item()], [1]), bins=5).count == (0, 0, 0, 1, 0)


@pytest.mark.parametrize("bins", [1, 10, 15])
def test_ece_and_mce_agree_with_torchmetrics(bins):
    probs, labels = random_case()
    for ours, norm in ((metrics.ece, "l1"), (metrics.mce, "max")):
        theirs = multiclass_calibration_error(
            probs.float(), labels, num_classes=5, n_bins=bins, norm=norm
        )
        assert ours(probs, labels, bins) == pytest.approx(theirs.item(), abs=1e-6)


def test_brier_and_nll_agree_with_their_definitions():
    probs, labels = random_case()
    one_hot = np.eye(5)[labels.numpy()]
    by_definition = np.mean(np.sum((probs.numpy() - one_hot) ** 2, axis=1))
    assert metrics.brier(probs, labels) == pytest.approx(by_definition)
    assert metrics.nll(probs, labels) == pytest.approx(log_loss(labels, probs, labels=range(5)))


def test_brier_and_nll_at_their_ends():
    sure, right, wrong = torch.eye(2), torch.tensor([0, 1]), torch.tensor([1, 0])
    assert metrics.brier(sure, right) == metrics.nll(sure, right) == 0.0
    assert metrics.brier(sure, wrong) == 2.0
    assert metrics.nll(sure, wrong) == pytest.approx(-math.log(1e-12))


def test_classwise_ece_by_loops():
    probs, labels = random_case(n=200, classes=4)
    total = 0.0
    for k in range(4):
        for b in range(15):
            inside = [i for i in range(200) if b / 15 < probs[i, k] <= (b + 1) / 15]
            gap = sum(int(labels[i] == k) - probs[i, k].item() for i in inside)
            total += abs(gap) / 200
    assert metrics.classwise_ece(probs, labels) == pytest.approx(total / 4)


def test_classwise_ece_counts_zero_probabilities():
    sure = torch.eye(3)
    assert metrics.classwise_ece(sure, torch.arange(3)) == 0.0
    # Class 0 is always predicted: classes 1 and 2 have probability 0 and frequency 1/3.
    stuck = torch.tensor([[1.0, 0.0, 0.0]] * 3)
    assert metrics.classwise_ece(stuck, torch.arange(3)) == pytest.approx((2 / 3 + 2 / 3) / 3)


def test_adaptive_ece_by_equal_split():
    probs, labels = random_case(n=157)
    confidence, predicted = probs.max(1)
    order = np.argsort(confidence.numpy())
    hit = (predicted == labels).double().numpy()
    parts = [order[(np.arange(157) * 10 // 157) == b] for b in range(10)]
    assert {len(p) for p in parts} == {15, 16}
    expected = sum(abs(hit[p].sum() - confidence.numpy()[p].sum()) for p in parts) / 157
    assert metrics.adaptive_ece(probs, labels, bins=10) == pytest.approx(expected)


def test_adaptive_ece_shares_ties():
    # All confidences equal: any split into bins must show the one gap there is, 0.75 - 0.5.
    probs, labels = binary([0.75] * 8, [1, 1, 1, 1, 0, 0, 0, 0])
    assert metrics.adaptive_ece(probs, labels, bins=4) == pytest.approx(0.25)
    assert metrics.adaptive_ece(*binary([0.75] * 8, [1] * 6 + [0] * 2), bins=4) == 0.0


def test_adaptive_ece_with_more_bins_than_examples():
    probs, labels = binary([0.6, 0.9], [1, 0])
    assert metrics.adaptive_ece(probs, labels, bins=15) == pytest.approx((0.4 + 0.9) / 2)


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 10**6), st.integers(1, 40), st.floats(0.1, 8.0))
def test_facts_of_ece(seed, bins, scale):
    probs, labels = random_case(n=60, seed=seed, scale=scale)
    gap = abs(probs.amax(1).mean().item() - metrics.accuracy(probs, labels))
    value = metrics.ece(probs, labels, bins)
    assert gap - 1e-12 <= value <= metrics.mce(probs, labels, bins) + 1e-12 <= 1 + 2e-12
    assert metrics.ece(probs, labels, 1) == pytest.approx(gap)
    assert metrics.adaptive_ece(probs, labels, bins) >= gap - 1e-12
    order = torch.randperm(60, generator=torch.Generator().manual_seed(seed))
    for metric in (metrics.ece, metrics.adaptive_ece, metrics.classwise_ece):
        moved = metric(probs[order], labels[order], bins)
        assert moved == pytest.approx(metric(probs, labels, bins))


def test_overconfident_everywhere_means_ece_is_confidence_less_accuracy():
    probs, labels = binary([0.7, 0.75, 0.9, 0.95], [1, 0, 1, 0])
    assert metrics.ece(probs, labels, bins=5) == pytest.approx(0.825 - 0.5)


def test_constant_predictor_with_true_confidence_is_calibrated():
    assert metrics.ece(*binary([0.75] * 4, [1, 1, 1, 0])) == 0.0


def test_labels_drawn_from_the_probabilities_are_calibrated():
    probs, _ = random_case(n=20_000)
    labels = torch.multinomial(probs, 1, generator=torch.Generator().manual_seed(1))[:, 0]
    # The bias of binning is of the order sqrt(M / N) / 2, about 0.014 at its largest here.
    for metric in (metrics.ece, metrics.adaptive_ece, metrics.classwise_ece):
        assert metric(probs, labels) < 0.012
    halved = (probs + torch.full_like(probs, 0.2)) / 2
    assert metrics.ece(halved, labels) > 0.1


@pytest.mark.parametrize(
    "metric",
    [
        metrics.ece,
        metrics.mce,
        metrics.adaptive_ece,
        metrics.classwise_ece,
        metrics.brier,
        metrics.nll,
        metrics.reliability,
    ],
)
def test_logits_are_refused(metric):
    with pytest.raises(BadInput, match="turn logits into probabilities"):
        metric(torch.tensor([[2.0, -1.0]]), torch.tensor([0]))


@pytest.mark.parametrize(
    "metric", [metrics.ece, metrics.adaptive_ece, metrics.classwise_ece, metrics.reliability]
)
def test_bins_must_be_positive(metric):
    with pytest.raises(BadInput, match="at least 1"):
        metric(*SIX, bins=0)


def test_inputs_with_gradients_are_fine():
    logits = torch.randn(8, 3, requires_grad=True)
    labels = torch.zeros(8, dtype=torch.int64)
    assert isinstance(metrics.ece(logits.softmax(1), labels), float)
    assert isinstance(metrics.nll(logits.softmax(1), labels), float)
