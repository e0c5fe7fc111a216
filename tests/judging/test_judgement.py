"""The judge on scores and labels whose truth is known: recovery, intervals, orders, small sets."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
import torch
from drawn import Drawn, drawn

from labelproof.judging import judgement
from labelproof.judging.judgement import (
    Evidence,
    Judgement,
    judge_labels,
    knowing,
    transition_of,
)
from labelproof.judging.noise_samples import Explained
from labelproof.judging.numbers import Floats, auroc, log_softmax
from labelproof.judging.suspects import Rule


def views(data: Drawn) -> Floats:
    """The scores as they would come from a model fitted to the noisy labels, not to the truth."""
    flat = log_softmax(data.scores.numpy() * 0.6)
    return flat[None]


def judged(data: Drawn, rule: Rule | None = None, **more: object) -> Judgement:
    return judge_labels(Evidence(views=views(data), given=data.given.numpy(), **more), rule)  # type: ignore[arg-type]


@pytest.mark.parametrize("noise", [0.15, 0.3, 0.45])
def test_noise_rate_and_wrong_labels_are_found(noise: float) -> None:
    data = drawn(size=4000, noise=noise, scale=1.0, hard=0.5)
    found = judged(data)
    wrong = data.wrong.numpy()
    assert found.noise_rate == pytest.approx(wrong.mean(), abs=0.05)
    assert found.noise_interval[0] < wrong.mean() < found.noise_interval[1]
    assert auroc(wrong, 1 - found.p_clean) > 0.9
    assert found.trust.level == "good"
    assert found.precision_interval is not None
    low, high = found.precision_interval
    assert low < wrong[found.suspects].mean() < high
    if noise < 0.2:  # the model errs nearly as often
        assert found.precision is None
    else:
        assert found.precision == pytest.approx(wrong[found.suspects].mean(), abs=0.1)


def test_many_wrong_labels_that_the_model_would_choose_are_told_from_those_of_chance() -> None:
    data = drawn(size=3000, noise=0.45, scale=1.0)
    others = data.scores.softmax(1).scatter(1, data.truth[:, None], 0.0)
    chosen = torch.multinomial(others, 1, generator=torch.Generator().manual_seed(1)).squeeze(1)
    learnt = replace(data, given=torch.where(data.wrong, chosen, data.truth))
    assert judged(data).trust.misled < 0.1
    found = judged(learnt)
    assert found.trust.misled > 0.5
    assert found.trust.level == "caution"
    assert any("number of wrong labels is uncertain" in reason for reason in found.trust.reasons)
    assert found.precision is None
    assert found.noise_rate is None
    fixed = np.arange(3000) < 30  # review tells how often such a label is wrong
    assert judged(learnt, original=learnt.given.numpy(), fixed=fixed).trust.misled == 0


def test_intervals_cover_the_truth_at_small_sizes() -> None:
    rates, precisions = [], []
    for seed in range(20):
        data = drawn(size=300, classes=3, noise=0.25, scale=1.0, hard=0.5, seed=seed)
        found, wrong = judged(data), data.wrong.numpy()
        rates.append(found.noise_interval[0] <= wrong.mean() <= found.noise_interval[1])
        assert found.precision is None  # too few to state one number
        assert found.precision_interval is not None
        low, high = found.precision_interval
        precisions.append(low <= wrong[found.suspects].mean() <= high)
    assert sum(rates) >= 18
    assert sum(precisions) >= 17


def test_suspects_are_those_more_likely_wrong_than_right() -> None:
    found = judged(drawn(size=1500, noise=0.3, scale=1.0))
    assert np.array_equal(found.suspects, found.p_clean < 0.5)
    assert 0 < found.suspects.sum() < 1500


def test_the_methods_own_score_counts_where_it_knows_something() -> None:
    data = drawn(size=1500, noise=0.3, scale=1.0)
    wrong = data.wrong.numpy()
    rng = np.random.default_rng(0)
    own = 1 - wrong + 0.35 * rng.standard_normal(len(wrong))
    plain, helped, silent = (
        judged(data),
        judged(data, own_clean=own),
        judged(data, own_clean=rng.random(len(wrong))),
    )
    assert helped.own_weight > 0.05
    assert auroc(wrong, 1 - helped.p_clean) > auroc(wrong, 1 - plain.p_clean)
    assert silent.own_weight == 0
    assert np.allclose(silent.p_clean, plain.p_clean)


def test_without_noise_few_labels_are_doubted_and_no_precision_is_stated() -> None:
    found = judged(drawn(size=1500, noise=0.0, scale=1.0))
    assert found.precision is None or found.suspects.sum() < 45
    assert found.noise_interval[0] == 0.0


def test_twenty_rows_are_not_judged() -> None:
    data = drawn(size=20, classes=3, noise=0.2)
    found = judged(data)
    assert found.trust.level == "none"
    assert not found.suspects.any()
    assert (found.precision, found.noise_rate, found.curve) == (None, None, [])
    assert "too few" in " ".join(found.trust.reasons)


def imbalanced(*counts: int, seed: int = 0) -> tuple[Floats, np.ndarray]:
    """Log-probabilities of classes that are told apart well, and clean labels in these numbers."""
    rng = np.random.default_rng(seed)
    labels = np.repeat(np.arange(len(counts)), counts)
    logits = 4 * np.eye(len(counts))[labels] + rng.standard_normal((len(labels), len(counts)))
    return log_softmax(logits + np.log(counts)), labels


def test_one_example_of_a_class_is_left_alone() -> None:
    scores, labels = imbalanced(649, 1)
    scores[-1] = log_softmax(np.array([5.0, 0.0]))  # nothing recognises a single example
    found = judge_labels(Evidence(views=scores[None], given=labels))
    assert not found.suspects.any()
    assert found.trust.level == "none"
    assert (found.p_clean >= 0.5).all()
    assert [c.judged for c in found.by_class] == [True, False]
    assert found.by_class[1].reason == "only 1 label"
    said = found.scores[np.arange(650), labels]
    one = judge_labels(Evidence(views=scores[None], given=labels, own_clean=-said))
    assert np.ptp(one.p_clean) < 1e-9  # the method's own score ranks labels the other way round
    two = judge_labels(Evidence(views=np.stack([scores] * 2), given=labels, own_clean=-said))
    assert (np.argsort(two.p_clean) == np.argsort(found.p_clean)).all()  # views are enough


def test_three_examples_of_a_class_are_left_alone_and_the_others_judged() -> None:
    scores, labels = imbalanced(649, 151, 3)
    given = labels.copy()
    given[np.random.default_rng(1).choice(800, 60, replace=False)] ^= 1
    given = np.where(labels == 2, 2, given)
    found = judge_labels(Evidence(views=scores[None], given=given))
    assert [c.judged for c in found.by_class] == [True, True, False]
    assert not found.suspects[labels == 2].any()
    assert (found.posterior[labels != 2, 2] == 0).all()  # nobody is moved into it
    assert auroc(given != labels, 1 - found.p_clean) > 0.95
    assert 30 < found.suspects.sum() < 90
    assert found.by_class[1].noise_rate is not None
    assert found.by_class[0].noise_rate is not None
    assert found.by_class[1].noise_rate > found.by_class[0].noise_rate


def test_a_class_whose_labels_are_mostly_wrong_is_judged_where_scores_know_it() -> None:
    """Wrong labels alone bring the AUROC with given labels near one half."""
    scores, truth = imbalanced(700, 200, 100)
    rng, given = np.random.default_rng(2), truth.copy()
    strays = rng.choice(700, 230, replace=False)  # of the largest class, labelled as the rarest
    given[strays] = 2
    found = judge_labels(Evidence(views=scores[None], given=given))
    assert [c.judged for c in found.by_class] == [True, True, True]
    assert found.suspects[strays].mean() > 0.7
    low, high = found.noise_interval
    assert low < 0.23 < high


def test_where_nothing_can_be_trusted_labels_are_ranked_and_none_is_a_suspect() -> None:
    rng = np.random.default_rng(0)
    labels = rng.integers(0, 3, 600)
    scores = log_softmax(0.25 * np.eye(3)[labels] + 0.6 * rng.standard_normal((600, 3)))
    found = judge_labels(Evidence(views=scores[None], given=labels))
    assert found.trust.level == "none"
    assert not found.suspects.any()
    assert (found.p_clean > 0.5).all()
    said = found.scores[np.arange(600), labels]
    assert (np.argsort(found.p_clean) == np.argsort(said)).all()
    budget = judge_labels(Evidence(views=scores[None], given=labels), Rule(budget=10))
    assert set(np.flatnonzero(budget.suspects)) == set(np.argsort(said)[:10])


def test_scores_that_know_nothing_are_not_trusted() -> None:
    rng = np.random.default_rng(0)
    scores = log_softmax(0.1 * rng.standard_normal((800, 4)))
    found = judge_labels(Evidence(views=scores[None], given=rng.integers(0, 4, 800)))
    assert found.trust.level == "none"
    assert found.precision is None
    assert found.noise_rate is None


@pytest.mark.parametrize("with_own", [False, True])
def test_after_review_the_rest_is_still_judged(with_own: bool) -> None:
    data = drawn(size=2000, noise=0.25, scale=1.0, hard=0.5)
    first, truth, given = judged(data), data.truth.numpy(), data.given.numpy()
    done = np.zeros(2000, dtype=bool)
    done[np.argsort(first.p_clean)[:200]] = True
    now = np.where(done, truth, given)
    more = {"fixed": done, "original": given}
    if with_own:  # the method's own score, which was told that reviewed labels are right
        guess = np.random.default_rng(0).normal(4.0 * (given == truth), 1.0)
        more["own_clean"] = np.where(done, 1.0, 1 / (1 + np.exp(-guess)))
    found = judge_labels(Evidence(views=views(data), given=now, **more))
    remaining = (now != truth).mean()
    assert found.noise_rate == pytest.approx(remaining, abs=0.05)
    assert found.noise_interval[0] <= remaining <= found.noise_interval[1]
    assert not found.suspects[done].any()
    assert (found.p_clean[done] == 1).all()
    assert found.suspects.sum() > 50
    assert (now != truth)[found.suspects].mean() > 0.5
    assert np.allclose(found.posterior[done], np.eye(5)[truth[done]])


def test_rules_of_the_user() -> None:
    data = drawn(size=1500, noise=0.3, scale=1.0)
    usual = judged(data)
    precise, budget, both = (
        judged(data, rule)
        for rule in (Rule(precision=0.95), Rule(budget=40), Rule(precision=0.95, budget=10))
    )
    assert (1 - precise.p_clean[precise.suspects]).mean() >= 0.95
    assert precise.suspects.sum() < usual.suspects.sum()
    assert budget.suspects.sum() == 40
    assert usual.p_clean[budget.suspects].max() <= usual.p_clean[~budget.suspects].min()
    assert both.suspects.sum() == 10


def test_if_no_label_may_be_wrong_no_suspect_need_be() -> None:
    data = drawn(size=800, noise=0.02, scale=1.0)
    found = judged(data, Rule(budget=30))
    assert found.noise_interval[0] == 0
    assert found.precision_interval is not None
    assert found.precision_interval[0] == 0
    some = judged(drawn(size=800, noise=0.3, scale=1.0), Rule(budget=30))
    assert some.noise_interval[0] > 0
    assert some.precision_interval is not None
    assert some.precision_interval[0] > 0


def test_the_curve_falls_and_ends_at_the_noise_rate() -> None:
    found = judged(drawn(size=1500, noise=0.3, scale=1.0))
    values = [point.precision for point in found.curve]
    assert values == sorted(values, reverse=True)
    assert [found.curve[0].suspects, found.curve[-1].suspects] == [1, 1500]
    assert values[-1] == pytest.approx(found.noise_rate)
    assert all(point.low < point.precision < point.high for point in found.curve)


@pytest.mark.parametrize("value", [0.0, 1e4, -1e4])
def test_extreme_scores_end_in_numbers(value: float) -> None:
    scores = np.zeros((90, 3))
    scores[:, 0] = value
    found = judge_labels(Evidence(views=log_softmax(scores)[None], given=np.arange(90) % 3))
    assert np.isfinite(found.p_clean).all()
    assert np.isfinite(found.posterior).all()


def test_the_given_label_has_p_clean_and_the_others_share_the_rest() -> None:
    posterior = np.array([[0.5, 0.3, 0.2], [0.0, 1.0, 0.0]])
    free = np.array([True, False])
    found = knowing(posterior, np.array([0, 0]), np.array([0.4, 0.4]), free)
    assert np.allclose(found, [[0.4, 0.36, 0.24], [0.0, 1.0, 0.0]])


def test_a_transition_matrix_by_hand() -> None:
    posterior = np.array([[1.0, 0.0, 0.0], [0.5, 0.5, 0.0], [0.0, 1.0, 0.0], [0.0, 1.0, 0.0]])
    found = transition_of(posterior, np.array([0, 1, 1, 0]))
    assert np.allclose(found, [[2 / 3, 1 / 3, 0], [0.4, 0.6, 0], [0, 0, 1]])


def test_the_same_seed_gives_the_same_judgement() -> None:
    data = drawn(size=300, noise=0.3)
    assert np.array_equal(judged(data).p_clean, judged(data).p_clean)
    assert torch.get_default_dtype() == torch.float32


def explained_as(wrong: Floats, copied: float) -> Callable[..., Explained]:
    """A noise model that believes this of every label (N,)."""

    def explain(scores: Floats, labels: np.ndarray, *_: object, **__: object) -> Explained:
        posterior = np.exp(log_softmax(scores))
        return Explained(
            posterior=posterior,
            wrong=np.stack([wrong, wrong]),
            truth=np.eye(scores.shape[1])[scores.argmax(1)],
            copied=copied,
        )

    return explain


def contradicting(size: int = 1200) -> tuple[Evidence, np.ndarray]:
    """Sure scores, labels of which a tenth is another class, and which those are."""
    truth = np.arange(size) % 3
    against = np.arange(size) % 10 == 0
    scores = log_softmax(4.0 * np.eye(3)[truth])
    return Evidence(views=scores[None], given=np.where(against, (truth + 1) % 3, truth)), against


@pytest.mark.parametrize(("reviewed", "ambiguous"), [(0, True), (9, True), (10, False)])
def test_contradicted_labels_that_hardly_look_wrong_are_ambiguous_until_some_are_reviewed(
    monkeypatch: pytest.MonkeyPatch, reviewed: int, ambiguous: bool
) -> None:
    told, against = contradicting()
    monkeypatch.setattr(judgement, "explain", explained_as(np.where(against, 0.3, 0.01), 0.0))
    fixed = (np.arange(1200) % 10 == 1) & (np.arange(1200) < 10 * reviewed)
    found = judge_labels(replace(told, fixed=fixed, original=told.given))
    assert fixed.sum() == reviewed
    assert found.trust.ambiguous is ambiguous
    assert np.array_equal(found.suspects, against if ambiguous else np.zeros(1200, dtype=bool))


@pytest.mark.parametrize(("share", "ambiguous"), [(0.19, True), (0.21, False)])
def test_a_fifth_of_the_contradicted_labels_must_look_wrong(
    monkeypatch: pytest.MonkeyPatch, share: float, ambiguous: bool
) -> None:
    told, against = contradicting()
    sure = against & (np.arange(1200) < share * 1200)
    wrong = np.where(sure, 0.95, np.where(against, 0.1, 0.01))
    monkeypatch.setattr(judgement, "explain", explained_as(wrong, 0.0))
    assert judge_labels(told).trust.ambiguous is ambiguous


@pytest.mark.parametrize(("copied", "hidden"), [(0.59, False), (0.61, True)])
def test_wrong_labels_that_models_suggest_hide_their_number(
    monkeypatch: pytest.MonkeyPatch, copied: float, hidden: bool
) -> None:
    told, against = contradicting()
    monkeypatch.setattr(judgement, "explain", explained_as(np.where(against, 0.95, 0.01), copied))
    found = judge_labels(told)
    assert found.trust.level == "good"
    assert found.trust.hidden is hidden
    assert (found.noise_rate is None) is hidden


@pytest.mark.parametrize("size", [900, 1200])
def test_few_suspects_are_filled_up_to_the_expected_number_where_care_is_needed(
    monkeypatch: pytest.MonkeyPatch, size: int
) -> None:
    truth = np.arange(size) % 3
    told = Evidence(views=log_softmax(4.0 * np.eye(3)[truth])[None], given=truth)
    wrong = np.where(np.arange(size) < 10, 0.9, 0.2)
    monkeypatch.setattr(judgement, "explain", explained_as(wrong, 0.0))
    found = judge_labels(told)
    if found.trust.level == "caution":  # with fewer than a thousand examples
        assert found.suspects.sum() == pytest.approx(wrong.sum(), abs=1)
    else:
        assert found.suspects.sum() == 10
    assert found.suspects[:10].all()
    assert found.trust.level == ("caution" if size < 1000 else "good")
