"""Parts of the judge against closed forms: stacking, noise model, sampler, statements, rules."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from itertools import product

import numpy as np
import pytest
import torch
from drawn import drawn
from scipy.optimize import minimize
from scipy.stats import rankdata

from labelproof.errors import BadInput
from labelproof.judging import noise_samples
from labelproof.judging.judgement import Part
from labelproof.judging.noise_model import NoiseModel, Prior
from labelproof.judging.noise_samples import SURER, TEMPER, final_draws, own_evidence, shifted_to
from labelproof.judging.numbers import auroc, log_softmax, logit, mean_ranks, sigmoid
from labelproof.judging.stacking import neighbours, neighbours_in_time, regression, stack
from labelproof.judging.statements import (
    precision_curve,
    precision_of,
    rate_interval,
    stated_precision,
    stated_rate,
    widened,
)
from labelproof.judging.suspects import Rule, chosen_by, likelier_wrong, precise
from labelproof.judging.trust import (
    NO_WITNESS,
    TWO_VOTES,
    UNKNOWN_PEOPLE,
    Trust,
    contradicted,
    doubts,
    misled_by_labels,
    named_instead,
    thin_votes,
    trust_of,
    unjudged_classes,
)


def test_a_view_of_noise_gets_no_weight_and_a_flat_one_is_sharpened() -> None:
    rng = np.random.default_rng(0)
    logits = 2 * rng.standard_normal((4000, 3))
    labels = (logits + rng.gumbel(size=logits.shape)).argmax(1)
    good, noise = log_softmax(logits / 2), log_softmax(rng.standard_normal((4000, 3)))
    weights, scores = stack(np.stack([good, noise]), labels)
    assert weights[0] == pytest.approx(2, rel=0.1)  # the labels follow 2 x the first view
    assert weights[1] < 0.1
    assert np.allclose(np.exp(scores).sum(1), 1)


def test_a_view_that_imitates_wrong_labels_gets_less_than_likelihood_gives_it() -> None:
    rng = np.random.default_rng(2)
    logits = 3 * rng.standard_normal((4000, 3))
    true = (logits + rng.gumbel(size=logits.shape)).argmax(1)
    odd = rng.random(4000) < 0.5  # half of the examples of class 0 are called 1, and it shows
    labels = np.where(odd & (true == 0), 1, true)
    noise = rng.standard_normal((2, 4000, 3))
    knows = log_softmax(logits + noise[0])
    imitates = log_softmax(logits + noise[1] + 3 * odd[:, None] * np.array([-1, 1, 0]))
    views = np.stack([knows, imitates])
    weights, _ = stack(views, labels)

    def lost(w: np.ndarray, q: float) -> float:
        """The objective by numpy; q = 0 is the negative log-likelihood."""
        said = log_softmax(np.tensordot(np.exp(w), views, 1))[np.arange(4000), labels]
        loss = -said if q == 0 else (1 - np.exp(q * said)) / q
        return float(loss.mean() + 0.5 / 4000 * ((w - np.log(0.5)) ** 2).sum())

    likely = minimize(lost, np.log([0.5, 0.5]), (0.0,)).x
    robust = minimize(lost, likely, (0.6,)).x
    assert np.diff(np.log(weights)) == pytest.approx(np.diff(robust), abs=0.02)
    assert np.diff(np.log(weights))[0] < np.diff(likely)[0]
    scales = np.linspace(-2, 2, 401)
    best = scales[np.argmin([lost(robust + scale, 0) for scale in scales])]
    assert np.log(weights).mean() == pytest.approx((robust + best).mean(), abs=0.05)


def test_neighbours_of_many_examples_are_found_where_vectors_are_short() -> None:
    assert neighbours_in_time(20_000, 10_000)
    assert neighbours_in_time(50_000, 256)
    assert not neighbours_in_time(50_000, 768)
    assert not neighbours_in_time(70_000, 2)


def test_equal_views_share_the_weight() -> None:
    rng = np.random.default_rng(1)
    logits = rng.standard_normal((3000, 4))
    labels = (logits + rng.gumbel(size=logits.shape)).argmax(1)
    view = log_softmax(logits)
    one, _ = stack(view[None], labels)
    two, _ = stack(np.stack([view, view]), labels)
    assert two[0] == pytest.approx(two[1], rel=1e-3)
    assert two.sum() == pytest.approx(one[0], rel=0.02)


def test_neighbours_vote_without_the_example_and_its_copies() -> None:
    x = torch.tensor([[1.0, 0.0], [1.0, 0.01], [0.99, 0.0], [0.0, 1.0], [0.01, 1.0], [1.0, 0.0]])
    labels = torch.tensor([0, 0, 1, 1, 1, 2])
    group = torch.tensor([0, 1, 2, 3, 4, 0])  # the last is a copy of the first
    votes = neighbours(x, labels, 3, group)
    assert votes.exp().sum(1) == pytest.approx(1)
    # of the first: all others but its copy, labels 0 1 1 1, and one vote spread over the classes
    assert votes[0].exp().tolist() == pytest.approx([(1 + 1 / 3) / 5, (3 + 1 / 3) / 5, 1 / 15])


def test_the_regression_judges_without_the_fold() -> None:
    rng = torch.Generator().manual_seed(0)
    x = torch.randn(200, 4, generator=rng)
    labels = (x[:, 0] > 0).long()
    fold = torch.arange(200) % 4
    before = regression(x, labels, 2, fold)
    after = regression(x, torch.where(fold == 1, 1 - labels, labels), 2, fold)
    assert before is not None
    assert after is not None
    assert (before.log_probs.argmax(1) == labels).float().mean() > 0.9
    right = after.log_probs[fold == 1].argmax(1) == labels[fold == 1]
    assert right.float().mean() > 0.8


def test_the_likelihood_is_a_distribution_over_labels() -> None:
    data = drawn(size=200, noise=0.3)
    unknown = torch.full((200,), -1)
    shared = torch.tensor([[0.4, -1.0, 0.3, 0.2], [0.0, -2.0, 0.5, -1.0]]).double()
    total = torch.zeros(2, 200).double()
    for label in range(5):
        given = torch.full((200,), label)
        model = NoiseModel(data.scores, given, unknown)
        model.by_class = torch.linspace(-0.3, 0.3, 5).double()
        total += model.joint(shared).sum(2)
    assert torch.allclose(total, torch.ones_like(total))


def test_the_joint_probability_by_hand() -> None:
    scores = torch.tensor([[2.0, 0.0, -1.0], [0.5, 1.0, 0.0]]).double()
    labels, sharpen, rate, slope, copied = torch.tensor([1, 1]), 0.3, -1.0, 0.4, 0.5
    model = NoiseModel(scores, labels, torch.tensor([-1, 1]))
    model.by_class = torch.tensor([0.1, 0.0, -0.2]).double()
    model.table = torch.tensor([[9.0, 1.0, 0.0], [0.0, 9.0, 0.5], [0.2, 0.0, 9.0]]).double()
    joint = model.joint(torch.tensor([[sharpen, rate, slope, copied]]).double())[0]
    p = scores.softmax(1).numpy()
    entropy = -(p * np.log(p)).sum(1)
    unsure = (entropy - entropy.mean()) / entropy.std()
    share = 0.5 * np.log(p.mean(0))
    for row, true in product(range(2), range(3)):
        z = np.exp(sharpen) * (np.log(p[row]) - share) + share
        q = np.exp(z[true]) / np.exp(z).sum()
        wrong = sigmoid(np.array(rate + model.by_class[true].item() + slope * unsure[row]))
        cells = np.exp(model.table[true].numpy()) * (np.arange(3) != true)
        kappa = sigmoid(np.array(copied))
        drawn_ = (1 - kappa) * cells[1] / cells.sum() + kappa * p[row, 1] / (1 - p[row, true])
        value = q * ((1 - wrong) if true == 1 else wrong * drawn_)
        possible = row == 0 or true == 1  # the second was reviewed
        assert joint[row, true].item() == pytest.approx(float(value) * possible)


def test_the_sampler_draws_from_the_density_it_is_given() -> None:
    class Gaussian:
        size, classes = 10, 2
        shared = torch.zeros(1, 4).double()
        centre = torch.tensor([1.0, -2.0, 0.5, 0.0]).double()
        spread = torch.tensor([0.1, 0.2, 0.05, 0.3]).double()

        def density(
            self, rows: torch.Tensor, starts: torch.Tensor
        ) -> Callable[[torch.Tensor], torch.Tensor]:
            def value(shared: torch.Tensor) -> torch.Tensor:
                assert (shared[..., 0] == starts[:, :1]).all()  # so it is computed once
                return -0.5 * ((shared - self.centre) / self.spread).square().sum(2)

            return value

    model = Gaussian()
    model.shared = model.centre[None]
    start = model.centre + torch.tensor([0.15, 0.0, 0.0, 0.0]).double()
    starts = torch.stack([model.centre, start])
    draws = torch.cat(
        [
            noise_samples.sample(model, starts, torch.Generator().manual_seed(s))[1]  # type: ignore[arg-type]
            for s in range(20)
        ]
    )
    assert torch.equal(draws[:, 0], start[0].expand(len(draws)))  # ln a is given, not sampled
    assert torch.allclose(draws[:, 1:].mean(0), model.centre[1:], atol=0.06)
    assert torch.allclose(draws[:, 1:].std(0), model.spread[1:], rtol=0.25)


def test_the_density_for_samples_is_that_of_the_model() -> None:
    data = drawn(size=300, noise=0.3, scale=1.0)
    known = torch.full_like(data.given, -1)
    known[:20] = data.given[:20]
    model = NoiseModel(data.scores, data.given, known)
    starts = model.sharper()[:2]
    rows = torch.stack([torch.arange(0, 300, 2), torch.arange(150)])
    shared = starts[:, None] + torch.tensor([0.0, 0.5, 0.1, -1.0]) * torch.arange(3)[:, None]
    found = model.density(rows, starts)(shared)
    for each, some, told in zip(shared, rows, found, strict=True):
        assert torch.equal(told, model.log_likelihood(each, some) + model.log_prior(each))


def test_samples_are_as_unsure_as_the_data_is_small() -> None:
    spreads = []
    for size in (200, 5000):
        data = drawn(size=size, noise=0.3, scale=1.0)
        sharp = Prior(sharpen=(0.0, 0.01))  # how sharp scores are is known here
        found = noise_samples.explain(
            data.scores.numpy(), data.given.numpy(), np.full(size, -1), prior=sharp
        )
        spreads.append(found.wrong.mean(1).std())
    assert spreads[0] > 1.5 * spreads[1]


def test_own_scores_are_ordered_and_silent_ones_ignored() -> None:
    wrong = sigmoid(np.linspace(-8, 8, 400))
    evidence, weight = own_evidence(1 - wrong, wrong)
    assert weight == 1.0
    assert (np.diff(evidence) > 0).all()
    rng = np.random.default_rng(0)
    assert own_evidence(rng.random(400), wrong)[1] == 0.0
    assert own_evidence(np.ones(20), wrong[:20])[1] == 0.0


def test_tempering_keeps_the_mean_and_the_order() -> None:
    draws = np.random.default_rng(0).random((5, 300)) ** 3
    out = final_draws(draws, np.zeros(300), 0.0, np.full(300, np.nan))
    assert out.mean() == pytest.approx(draws.mean(), abs=1e-4)
    assert (np.argsort(out[0]) == np.argsort(draws[0])).all()
    shift = logit(out) - TEMPER * logit(draws)
    assert np.allclose(shift, shift[0, 0], atol=1e-6)
    rate = draws.mean()  # a model that errs less often than labels are wrong is believed more
    for error, slope in ((0.79 * rate, SURER), (0.81 * rate, TEMPER)):
        out = final_draws(draws, np.zeros(300), 0.0, np.full(300, np.nan), error)
        assert np.ptp(logit(out) - slope * logit(draws)) < 1e-6
    assert sigmoid(np.array([-3.0, 3.0])).sum() == pytest.approx(1)
    assert shifted_to(np.zeros(4), 0.2) == pytest.approx(0.2, abs=1e-3)


def test_review_corrects_labels_with_such_scores() -> None:
    draws = np.full((3, 200), 0.3)
    outcome = np.full(200, np.nan)
    outcome[:50] = 1.0
    out = final_draws(draws, np.zeros(200), 0.0, outcome)
    assert (out[:, :50] == 0).all()  # settled
    assert out[:, 50:].mean() > 0.7


def test_a_label_on_one_half_is_no_suspect_and_precision_is_met_exactly() -> None:
    tie, unfixed = np.array([0.5, 0.5 + 1e-9, 1.0]), np.array([True, True, False])
    assert likelier_wrong(tie, unfixed).tolist() == [False, True, False]
    wrong = np.array([7 / 8, 5 / 8, 9 / 16])
    assert precise(wrong, 0.75) == 2  # (7/8 + 5/8) / 2 is 3/4
    assert precise(wrong, 0.6875) == 3  # the mean of all three is 11/16
    assert precise(wrong, 0.9) == 0
    free, usual = np.array([True, False, True]), np.array([True, False, False])
    assert chosen_by(Rule(), wrong, free, usual) is usual
    assert chosen_by(Rule(budget=2), wrong, free, usual).tolist() == [True, False, True]
    assert chosen_by(Rule(precision=0.8), wrong, free, usual).tolist() == [True, False, False]


@pytest.mark.parametrize("bad", [{"precision": 0}, {"precision": 1.5}, {"budget": 0}])
def test_rules_without_sense_are_refused(bad: dict) -> None:
    with pytest.raises(BadInput, match=r"--(precision|review-budget)"):
        Rule(**bad)


def trust(**changes: object) -> Trust:
    usual = {"level": "good", "reasons": (), "agreement": 0.8, "majority": 0.2, "lift": 0.75}
    return Trust(**{**usual, "model_error": 0.1, **changes})  # type: ignore[arg-type]


def test_one_number_is_stated_only_where_it_can_be_relied_on() -> None:
    wrong, suspects = np.full((4, 1000), 0.8), np.arange(1000) < 100
    free = np.ones(1000, dtype=bool)
    number, interval = stated_precision(wrong, suspects, free, trust())
    assert number == pytest.approx(0.8)
    assert interval is not None
    assert interval[0] < 0.8 < interval[1]
    assert stated_precision(wrong, suspects, np.arange(1000) > 0, trust())[0] is None
    assert stated_precision(wrong, np.arange(1000) < 19, free, trust())[0] is None
    assert stated_precision(wrong, suspects, free, trust(level="caution"))[0] is None
    few = np.where(suspects, 0.8, 0.0)[None].repeat(4, 0)  # 8% of all labels are wrong
    assert stated_precision(few, suspects, free, trust(model_error=0.064))[0] == number
    assert stated_precision(few, suspects, free, trust(model_error=0.065))[0] is None
    alone = np.concatenate([few, np.full((4, 500), 0.4)], 1)  # labels that nobody can judge
    more = np.arange(1500) < 1000
    assert stated_precision(alone, np.arange(1500) < 100, more, trust(model_error=0.065))[0] is None
    assert stated_precision(few, suspects, free, trust(model_error=0.5), voted=True)[0] == number
    assert stated_precision(wrong, suspects, free, trust(misled=0.2))[0] == number
    misled = stated_precision(wrong, suspects, free, trust(misled=0.51))
    assert misled[0] is None
    assert misled[1] is not None
    assert misled[1][0] < interval[0] < interval[1] == misled[1][1]
    nothing = stated_precision(wrong, suspects, free, trust(), none_wrong=True)
    assert nothing == (None, (0.0, interval[1]))
    voted = stated_precision(wrong, suspects, free, trust(), voted=True)[1]
    assert voted is not None
    assert voted[0] < interval[0] < voted[1] < interval[1]
    assert stated_precision(wrong, suspects, free, trust(level="none")) == (None, None)
    doubtful = stated_precision(wrong, suspects, free, trust(ambiguous=True))
    assert doubtful[0] is None
    assert doubtful[1] is not None
    assert doubtful[1][0] == 0
    assert precision_of(wrong, np.zeros(1000, dtype=bool)) is None


@pytest.mark.parametrize(
    ("doubt", "more"), [({}, {}), ({"misled": 0.4}, {}), ({"ambiguous": True}, {}),
                        ({}, {"none_wrong": True}), ({"misled": 0.3}, {"voted": True})]
)  # fmt: skip
def test_the_curve_has_the_interval_that_is_stated(doubt: dict, more: dict) -> None:
    rng = np.random.default_rng(0)
    wrong = np.sort(rng.beta(1, 3, (5, 1500)), 1)[:, ::-1]
    free = np.arange(1500) >= 3
    for point in precision_curve(wrong, free, trust(**doubt), listed=1500, **more)[::5]:
        suspects = free & (np.arange(1500) < 3 + point.suspects)
        interval = stated_precision(wrong, suspects, free, trust(**doubt), **more)[1]
        assert (point.low, point.high) == pytest.approx(interval)
    assert precision_curve(wrong, free, trust(level="none"), listed=9) == []
    ambiguous = precision_curve(wrong, free, trust(ambiguous=True), listed=10)
    assert ambiguous[0].high >= 0.95
    assert ambiguous[-1].high < 0.9  # not more than the samples say of all others


def test_intervals_by_hand() -> None:
    low, high = widened(0.5, np.full(3, 0.5), (1.0, 2.0))
    assert (low, high) == pytest.approx((1 / (1 + math.exp(1.645)), 1 / (1 + math.exp(-3.29))))
    free = np.ones(100, dtype=bool)
    assert rate_interval(np.full((2, 100), 0.02), free, trust())[0] == 0.0
    low, high = rate_interval(np.full((2, 100), 0.02), free, trust(ambiguous=True, agreement=0.7))
    assert (low, high) == (0.0, pytest.approx(0.33))
    assert rate_interval(np.full((2, 100), 0.2), free, trust(level="none")) == (0.0, 1.0)
    usual = rate_interval(np.full((2, 100), 0.4), free, trust())
    misled = rate_interval(np.full((2, 100), 0.4), free, trust(misled=1.0))
    assert misled[0] < usual[0] < 0.4 < usual[1] < misled[1]


def test_models_are_misled_by_many_wrong_labels_that_they_would_choose_themselves() -> None:
    assert (
        misled_by_labels(1.0, 0.25) == misled_by_labels(1.0, 0.1) == misled_by_labels(0.0, 0.5) == 0
    )
    assert misled_by_labels(1.0, 0.4) == misled_by_labels(1.0, 0.9) == 1
    assert misled_by_labels(1.0, 0.325) == pytest.approx(0.5)
    assert misled_by_labels(0.5, 0.5) == pytest.approx(1 / 16)


def test_classes_too_small_or_not_recognised_are_left_alone() -> None:
    labels = np.repeat([0, 1, 2, 3], [300, 300, 7, 60])
    scores = log_softmax(3 * np.eye(5)[labels])
    scores[:, 3] = np.random.default_rng(0).standard_normal(len(labels))
    found = unjudged_classes(scores, labels)
    assert found == {
        2: "only 7 labels",
        3: "held-out models do not recognise it",
        4: "no labels",
    }


def test_contradicted_labels() -> None:
    probs = np.array([[0.1, 0.9], [0.3, 0.7], [0.6, 0.4], [0.25, 0.75], [0.24, 0.76]])
    found = contradicted(np.log(probs), np.zeros(5, int))
    assert found.tolist() == [True, False, False, False, True]


def test_levels_of_trust() -> None:
    rng = np.random.default_rng(0)
    labels = np.arange(1200) % 3
    good = log_softmax(5 * np.eye(3)[labels] + rng.standard_normal((1200, 3)))
    sure = np.exp(good)
    assert trust_of(good, labels, sure, judged=3).level == "good"
    assert trust_of(good[:999], labels[:999], sure[:999], judged=3).level == "caution"
    assert trust_of(good[:59], labels[:59], sure[:59], judged=3).level == "none"
    assert trust_of(good, labels, sure, judged=1).level == "none"
    assert trust_of(good, labels, sure, judged=3, seen=True).level == "caution"
    assert trust_of(good, labels, np.full((1200, 3), 0.54), judged=3).level == "none"
    poor = log_softmax(rng.standard_normal((1200, 3)))
    weak = trust_of(poor, labels, sure, judged=3)
    assert weak.level == "none"
    assert "hardly better" in doubts(weak)[0]
    assert trust_of(poor, labels, sure, judged=3, votes=0.6).level == "none"
    assert trust_of(poor, labels, sure, judged=3, votes=0.8).reasons == (NO_WITNESS,)
    assert doubts(trust()) == []


def test_few_votes_give_intervals_alone() -> None:
    """Two people who share an error agree like two who are right; and who is good, few tell."""
    labels = np.repeat(np.arange(3), 400)
    scores = np.log(np.full((1200, 3), 0.1) + 0.7 * np.eye(3)[labels])
    sure = np.eye(3)[labels]
    assert thin_votes(2.2, 40) == (TWO_VOTES,)
    assert thin_votes(3.0, 5) == (UNKNOWN_PEOPLE,)
    assert thin_votes(2.0, 5) == (TWO_VOTES, UNKNOWN_PEOPLE)
    for thin, level in (((), "good"), ((TWO_VOTES,), "caution")):
        found = trust_of(scores, labels, sure, judged=3, votes=0.8, thin=thin)
        assert (found.level, found.reasons) == (level, thin)


def test_auroc_against_pairs() -> None:
    rng = np.random.default_rng(0)
    positive, score = rng.random(60) < 0.4, rng.integers(0, 8, 60).astype(float)
    pairs = [(a > b) + 0.5 * (a == b) for a in score[positive] for b in score[~positive]]
    assert auroc(positive, score) == pytest.approx(np.mean(pairs))
    assert auroc(np.ones(3, dtype=bool), np.arange(3.0)) == 0.5


def test_the_own_score_does_not_change_how_many_labels_are_wrong_after_review() -> None:
    rng = np.random.default_rng(0)
    draws = np.tile(np.concatenate([np.full(400, 0.1), np.full(100, 0.9)]), (3, 1))
    outcome = np.full(500, np.nan)
    outcome[400:] = rng.random(100) < 0.9
    evidence = np.where(np.isnan(outcome), rng.normal(1.0, 1.0, 500), 0.0)
    out = final_draws(draws, evidence, 1.0, outcome)
    assert out[:, :400].mean() == pytest.approx(0.1, abs=0.03)
    assert (out[:, 400:] == 0).all()
    assert np.corrcoef(out[0, :400], evidence[:400])[0, 1] > 0.8


def test_labels_left_alone_are_ordered_by_held_out_scores_and_the_methods_own() -> None:
    # scores (N, C) rank the given labels 1, 2, 3, the own score 3, 2, 1; the last one was reviewed
    part = Part(
        scores=np.array([[-3.0, 0.0], [-2.0, 0.0], [-1.0, 0.0], [0.0, -9.0]]),
        labels=np.zeros(4, dtype=np.int64),
        truth=np.array([-1, -1, -1, 0]),
        kept=np.array([0, 1]),
        rows=np.zeros(4, dtype=bool),
        alone={},
    )
    np.testing.assert_allclose(part.left_alone(), [0.499 * 3 / 4, 0.499 / 2, 0.499 / 4, 0])
    both = replace(part, own=np.array([0.9, 0.5, 0.1, 0.95]))
    np.testing.assert_allclose(both.left_alone(), [0.499 / 2, 0.499 / 2, 0.499 / 2, 0])


def test_equal_values_share_their_mean_rank() -> None:
    values = np.array([2.0, 1.0, 2.0, 5.0, 1.0, 2.0])
    assert mean_ranks(values).tolist() == rankdata(values).tolist() == [4, 1.5, 4, 6, 1.5, 4]


def test_the_share_of_wrong_labels_is_a_number_only_where_none_are_hidden() -> None:
    wrong = np.full((4, 1000), 0.2)
    assert stated_rate(wrong, trust()) == pytest.approx(0.2)
    assert stated_rate(wrong, trust(hidden=True)) is None
    assert stated_rate(wrong, trust(level="caution")) is None


def test_a_class_that_one_view_alone_finds_likelier_is_named() -> None:
    views = np.log([
        [[0.8, 0.1, 0.1], [0.5, 0.4, 0.1], [0.2, 0.7, 0.1], [0.4, 0.4, 0.2]],
        [[0.7, 0.2, 0.1], [0.2, 0.1, 0.7], [0.6, 0.3, 0.1], [0.4, 0.4, 0.2]],
    ])  # fmt: skip
    together = np.log([[0.8, 0.1, 0.1], [0.4, 0.2, 0.4], [0.4, 0.5, 0.1], [0.4, 0.4, 0.2]])
    found = named_instead(together, views, np.array([0, 0, 0, 0]))
    assert found.tolist() == [-1, 2, 1, -1]  # nobody; the second view; all together; level
