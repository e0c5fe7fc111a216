"""The link and the noise, fitted without true labels to data whose truth is known."""

from __future__ import annotations

import math

import pytest
import torch
from drawn import drawn

from cases import CASES
from labelproof import metrics
from labelproof.data.task import Audit
from labelproof.judging import calibrate, calibrated
from labelproof.judging.calibration import (
    fit_scale,
    joined,
    posteriors,
    rescaled,
    transition_matrix,
)
from labelproof.judging.label_table import knowing_label
from labelproof.judging.link import Link
from labelproof.judging.noise_model import fit_noise_model
from labelproof.judging.suspects import suspect_table, suspect_threshold, transition_error
from tiny import CPU, blobs


@pytest.mark.parametrize(
    ("noise", "scale", "hard", "off", "missed"),
    [
        (0.15, 2.0, 0.0, 0.12, 0.04),
        (0.4, 2.0, 0.0, 0.12, 0.04),
        (0.4, 0.5, 0.0, 0.12, 0.04),
        (0.0, 0.5, 0.0, 0.2, 0.1),  # unsure examples are taken for mislabelled ones
        (0.3, 1.0, 1.0, 0.25, 0.06),  # noise that follows uncertainty looks like confidence
    ],
)
def test_scale_and_noise_are_found_without_true_labels(
    noise: float, scale: float, hard: float, off: float, missed: float
) -> None:
    data = drawn(noise=noise, scale=scale, hard=hard)
    posterior = posteriors(data.scores, data.given, None)
    found = fit_scale(data.scores, posterior)
    right = posterior.gather(1, data.given[:, None]).squeeze(1)
    assert found == pytest.approx(scale, rel=off)
    assert 1 - right.mean().item() == pytest.approx(data.wrong.double().mean().item(), abs=missed)
    raw = metrics.ece(data.scores.softmax(1), data.truth)
    probs = Link(scale=found)(data.scores)
    assert metrics.ece(probs, data.truth) < (0.03 if off < 0.2 else 0.06)
    assert scale == 1.0 or metrics.ece(probs, data.truth) < raw / 2


@pytest.mark.parametrize("noise", [0.6, 0.72])
@pytest.mark.parametrize("scale", [0.5, 1.0, 4.0])
def test_many_wrong_labels_do_not_look_right(noise: float, scale: float) -> None:
    data = drawn(size=20_000, classes=10, noise=noise, scale=scale)
    posterior = posteriors(data.scores, data.given, None)
    right = posterior.gather(1, data.given[:, None]).squeeze(1)
    assert 1 - right.mean().item() == pytest.approx(noise, abs=0.04)
    assert metrics.error_auroc(data.wrong, 1 - right) > 0.8
    assert fit_scale(data.scores, posterior) == pytest.approx(scale, rel=0.15)


def test_the_posterior_that_a_label_is_right_can_be_relied_on() -> None:
    data = drawn(noise=0.3)
    posterior = posteriors(data.scores, data.given, None)
    right = posterior.gather(1, data.given[:, None]).squeeze(1)
    both = torch.stack([right, 1 - right], 1)
    assert metrics.ece(both, data.wrong.long()) < 0.04
    assert metrics.error_auroc(data.wrong, -right) > 0.9


def test_the_transition_matrix_is_found() -> None:
    data = drawn(size=12000, classes=3, noise=0.3)
    moved = torch.where(data.truth == 0, data.truth, data.given)  # class 0 is never mislabelled
    posterior = posteriors(data.scores, moved, None)
    error = transition_error(transition_matrix(posterior, moved), data.truth, moved)
    assert error is not None
    assert error < 0.06
    assert transition_matrix(posterior, moved)[0, 0] > 0.93


def test_a_transition_matrix_by_hand() -> None:
    posterior = torch.tensor([[1.0, 0.0, 0.0], [0.5, 0.5, 0.0], [0.0, 1.0, 0.0]]).double()
    found = transition_matrix(posterior, torch.tensor([0, 1, 1]))
    expected = torch.tensor([[2 / 3, 1 / 3, 0], [0, 1, 0], [0, 0, 1]])
    assert torch.allclose(found, expected)
    half = torch.tensor([[0.5, 0.5], [0.0, 1.0]])
    truth, given = torch.tensor([0, 0, 1]), torch.tensor([0, 0, 1])
    assert transition_error(half, truth, given) == pytest.approx(0.25)
    assert transition_error(half, None, given) is None


def test_confirmed_labels_are_right_and_help_the_others() -> None:
    data = drawn(size=2000, noise=0.4)
    fixed = torch.zeros(2000, dtype=torch.bool)
    fixed[::2] = True
    given = torch.where(fixed, data.truth, data.given)
    posterior = posteriors(data.scores, given, fixed)
    right = posterior.gather(1, given[:, None]).squeeze(1)
    assert torch.allclose(right[fixed], torch.ones(1000).double())
    wrong = (given != data.truth)[~fixed]
    assert (1 - right[~fixed]).mean().item() == pytest.approx(
        wrong.double().mean().item(), abs=0.06
    )


def test_the_likelihood_is_a_distribution_over_labels() -> None:
    data = drawn(size=500, noise=0.3)
    model = fit_noise_model(data.scores, data.given)
    total = sum(model.joint(data.scores, torch.full((500,), label)).sum(1) for label in range(5))
    assert torch.allclose(torch.as_tensor(total), torch.ones(500).double())


@pytest.mark.parametrize("size", [2, 5, 30])
def test_few_examples_end_in_numbers(size: int) -> None:
    data = drawn(size=size, classes=3)
    posterior = posteriors(data.scores, data.given, None)
    assert posterior.isfinite().all()
    assert math.isfinite(fit_scale(data.scores, posterior))


@pytest.mark.parametrize("value", [0.0, 1e4, -1e4])
def test_extreme_scores_end_in_numbers(value: float) -> None:
    scores = torch.zeros(40, 3).double()
    scores[:, 0] = value
    given = torch.arange(40) % 3
    posterior = posteriors(scores, given, None)
    assert posterior.isfinite().all()
    assert math.isfinite(fit_scale(scores, posterior))


def test_rescaling_keeps_the_order_and_meets_the_mean() -> None:
    data = drawn(noise=0.3)
    right = posteriors(data.scores, data.given, None).gather(1, data.given[:, None]).squeeze(1)
    clean = data.scores.softmax(1).gather(1, data.given[:, None]).squeeze(1).float()
    mapped = rescaled(clean, right)
    order = clean.argsort()
    assert (mapped[order].diff() >= 0).all()
    assert mapped.mean().item() == pytest.approx(right.mean().item(), abs=0.01)
    both = joined(clean, right)
    assert metrics.error_auroc(data.wrong, -both) >= metrics.error_auroc(data.wrong, -clean)


def test_a_threshold_by_hand() -> None:
    clean = torch.tensor([0.05, 0.15, 0.45, 0.3, 0.6])
    # 1 - clean of those below 0.5, from the worst: .95 .85 .7 .55
    assert suspect_threshold(clean, 0.7) == 0.5
    assert suspect_threshold(clean, 0.8) == pytest.approx(0.45)
    assert suspect_threshold(clean, 0.85) == pytest.approx(0.3)
    assert suspect_threshold(clean, 0.99) == pytest.approx(0.05)
    assert suspect_threshold(torch.ones(6)) == 0.5


def test_the_precision_that_is_stated_holds() -> None:
    data = drawn(size=8000, noise=0.25)
    right = posteriors(data.scores, data.given, None).gather(1, data.given[:, None]).squeeze(1)
    for precision in (0.7, 0.8, 0.9):
        told = right < suspect_threshold(right, precision)
        assert told.sum() > 300
        assert (1 - right[told]).mean() >= precision - 1e-9
        assert data.wrong[told].double().mean() >= precision - 0.04


@pytest.mark.parametrize("name", ["ce", "dpc", "coteaching", "edl", "elr_plus"])
def test_a_run_is_calibrated_and_its_accuracy_stays(name: str) -> None:
    problem = blobs(240, noise=0.3)
    result = problem.train(CASES[name])
    found = calibrate(result, problem.trunk)
    judged = calibrated(result, found, problem.audit)
    assert judged.test_probabilities is not None
    assert result.test_probabilities is not None
    same = judged.test_probabilities.argmax(1) == result.test_probabilities.argmax(1)
    assert same.all()
    assert torch.allclose(judged.probabilities.sum(1), torch.ones(240), atol=1e-5)
    assert found.link.of == ("logits" if name in ("dpc", "edl") else "log-probabilities")
    assert ((judged.clean >= 0) & (judged.clean <= 1)).all()
    assert suspect_table(judged).suspect.dtype == torch.bool


def test_true_labels_and_test_data_change_nothing() -> None:
    problem = blobs(120)
    result = problem.train(CASES["dpc"], audit=Audit())
    other = problem.train(CASES["dpc"])
    first, second = (calibrate(r, problem.trunk, "quick") for r in (result, other))
    assert torch.equal(first.clean, second.clean)
    assert first.link == second.link
    assert result.device == CPU


@pytest.mark.parametrize(
    "bad", [{"scale": 0.0}, {"scale": -1.0}, {"scale": math.nan}, {"of": "hearts"}]
)
def test_an_impossible_link_is_refused(bad: dict) -> None:
    with pytest.raises(ValueError, match="a link"):
        Link(**bad)


def test_the_given_label_has_its_clean_probability_and_the_others_share_the_rest() -> None:
    probs = torch.tensor([[0.7, 0.2, 0.1], [0.999, 0.0006, 0.0004], [1.0, 0.0, 0.0]]).double()
    clean = torch.tensor([0.4, 0.1, 1.0]).double()
    found = knowing_label(probs, torch.tensor([0, 0, 0]), clean)
    expected = torch.tensor([[0.4, 0.4, 0.2], [0.1, 0.54, 0.36], [1.0, 0.0, 0.0]]).double()
    assert torch.allclose(found, expected)
    sure = torch.tensor([[1.0, 0.0, 0.0]]).double()  # all others underflowed
    found = knowing_label(sure, torch.tensor([0]), torch.tensor([0.2]).double())
    assert torch.allclose(found, torch.tensor([[0.2, 0.4, 0.4]]).double())
