"""How sure scores may be, by how often models agree."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from sklearn.metrics import cohen_kappa_score

from labelproof.judging import noise_samples
from labelproof.judging.judgement import Evidence, judge_labels
from labelproof.judging.many_labels import judge_many
from labelproof.judging.noise_model import SHARPER, NoiseModel, Prior
from labelproof.judging.numbers import Floats, Ints, log_softmax
from labelproof.judging.sharpness import (
    ALIKE,
    ALONE,
    AT_FIRST,
    SOME,
    SPREADS,
    UNSEEN,
    Near,
    kappa,
    lowest_pair,
    prior_of,
    prior_of_right,
    right_by_surest,
    right_by_views,
    share_right,
    sharpening,
    some_of,
)

CLASSES = 4


def views_of(
    truth: Ints, given: Ints, rng: np.random.Generator, blurred: float = 1.0, count: int = 3
) -> Floats:
    """Models that see the truth through the same blur and some of their own, fitted to labels."""
    rate = float((given != truth).mean())
    shared = 2.5 * np.eye(CLASSES)[truth] + blurred * rng.standard_normal((len(truth), CLASSES))
    out = []
    for _ in range(count):
        own = shared + 0.7 * rng.standard_normal(shared.shape)
        probs = np.exp(log_softmax(own))
        out.append(np.log((1 - rate) * probs + rate / (CLASSES - 1) * (1 - probs)))
    return np.stack(out)


def labelled(
    rate: float, blurred: float = 1.0, size: int = 2000, seed: int = 0
) -> tuple[Floats, Ints, Ints]:
    rng = np.random.default_rng(seed)
    truth = rng.integers(0, CLASSES, size)
    shift = rng.integers(1, CLASSES, size) * (rng.random(size) < rate)
    given = (truth + shift) % CLASSES
    return views_of(truth, given, rng, blurred), given, truth


def test_agreement_beyond_chance_is_cohens_kappa() -> None:
    rng = np.random.default_rng(0)
    one, other = rng.integers(0, 3, 500), rng.integers(0, 3, 500)
    other[:200] = one[:200]
    assert kappa(one, other, 3) == pytest.approx(cohen_kappa_score(one, other))
    assert kappa(np.zeros(9, int), np.zeros(9, int), 2) == 0  # naming one class is no evidence


def test_the_share_of_right_predictions_by_hand() -> None:
    rng = np.random.default_rng(1)
    labels = rng.integers(0, 4, 400)
    said = np.stack([labels] * 3)
    said[0, :40] = said[1, :40] = (labels[:40] + 1) % 4  # two models that are the same
    said[2, 20:100] = (labels[20:100] + 1) % 4
    stacked = labels.copy()
    stacked[:30] = (labels[:30] + 1) % 4
    k = cohen_kappa_score
    lowest = k(said[0], said[2]) - (k(said[0], labels) + k(said[2], labels)) / 2
    lowest += k(stacked, labels)
    chance = np.bincount(stacked) / 400 @ (np.bincount(labels) / 400)
    right = chance + (1 - chance) * (1 - (UNSEEN + ALIKE / 3) * (1 - lowest))
    assert right_by_views(said, stacked, labels, 4) == pytest.approx(right)


def test_sharpening_makes_scores_as_sure_as_they_are_right() -> None:
    rng = np.random.default_rng(0)
    scores = log_softmax(rng.standard_normal((3000, CLASSES)))
    labels = rng.integers(0, CLASSES, 3000)
    found = sharpening(scores, labels, 0.7)
    given = torch.from_numpy(labels)
    model = NoiseModel(torch.from_numpy(scores), given, torch.full_like(given, -1))
    truth = model.truth(torch.tensor([[found]]).double())[0]
    assert truth.max(1).values.mean().item() == pytest.approx(0.7, abs=0.002)


def test_the_surest_predictions_raise_what_views_say_by_a_third_of_the_way() -> None:
    views, given, _ = labelled(0.2)
    scores, said = log_softmax(views.mean(0)), views.argmax(2)
    by_surest = right_by_surest(scores, given)
    agreement = (scores.argmax(1) == given).mean()
    others = np.stack([said[0], (said[0] + 1) % CLASSES])  # views that never agree
    assert by_surest > agreement
    assert share_right(others, scores, given) == pytest.approx((2 * agreement + by_surest) / 3)


def test_the_surest_predictions_lower_nothing() -> None:
    views, given, truth = labelled(0.0)
    scores, said = log_softmax(views.mean(0)), views.argmax(2)
    unsure = np.argsort(scores.max(1))[:600]
    given[unsure] = (truth[unsure] + 1) % CLASSES  # wrong labels where models are unsure
    by_views = right_by_views(said, scores.argmax(1), given, CLASSES)
    assert right_by_surest(scores, given) < by_views == share_right(said, scores, given)


def test_the_sharpness_follows_from_the_share_of_right_predictions() -> None:
    views, given, _ = labelled(0.2)
    scores, said = log_softmax(views.mean(0)), views.argmax(2)
    right = share_right(said, scores, given)
    found = prior_of(said, scores, given)
    assert found == prior_of_right(scores, given, right)
    assert found.sharpen[0] == sharpening(scores, given, right)
    odds = right / (1 - right)
    fewer, more = (odds * np.exp(off) / (1 + odds * np.exp(off)) for off in (-0.4, 0.4))
    apart = sharpening(scores, given, more) - sharpening(scores, given, fewer)
    assert found.sharpen[1] == pytest.approx(apart / 2)
    assert SPREADS[0] < found.sharpen[1] < SPREADS[1]
    assert prior_of(said[:, :0], scores[:0], given[:0]) == Prior()
    rows = torch.from_numpy(given)
    free = NoiseModel(torch.from_numpy(scores), rows, torch.full_like(rows, -1), AT_FIRST)
    by_labels = float(free.fit(sharpen=True).shared[0, 0])
    assert prior_of(said[:1], scores, given).sharpen == (pytest.approx(by_labels), ALONE)


@pytest.mark.parametrize(("right", "spread"), [(0.02, SPREADS[0]), (0.4, SPREADS[1])])
def test_the_spread_of_the_sharpness_has_bounds(right: float, spread: float) -> None:
    rng = np.random.default_rng(0)
    scores = log_softmax(0.3 * rng.standard_normal((500, CLASSES)))  # a model that knows little
    assert prior_of_right(scores, rng.integers(0, CLASSES, 500), right).sharpen[1] == spread


def test_the_surest_predictions_contradict_as_many_labels_as_are_wrong() -> None:
    rng = np.random.default_rng(0)
    margin = 3 * rng.standard_normal(1000)
    scores = log_softmax(np.stack([margin, -margin], 1))
    labels = (margin < 0).astype(int)
    surest = np.argsort(-np.abs(margin))[:200]
    labels[surest[:50]] ^= 1  # a quarter of these
    labels[np.argsort(np.abs(margin))[:300]] ^= 1
    agreement = 0.65
    # A = q (1 - w) + (1 - q) w with w = 1/4
    assert right_by_surest(scores, labels) == pytest.approx((agreement - 0.25) / (1 - 0.5))
    labels[surest] = (margin[surest] > 0).astype(int)  # all of these: the model itself is wrong
    agreement = float((scores.argmax(1) == labels).mean())
    assert right_by_surest(scores, labels) == max(agreement, min((agreement - 0.45) / 0.1, 1))


def test_right_labels_leave_the_surest_nothing_to_add() -> None:
    views, given, truth = labelled(0.0)
    scores = log_softmax(views.mean(0))
    agreement = float((scores.argmax(1) == truth).mean())
    assert right_by_surest(scores, given) == pytest.approx(agreement, abs=0.01)


@pytest.mark.parametrize("rate", [0.1, 0.3])
def test_with_many_classes_a_wrong_label_seldom_agrees_with_a_wrong_prediction(rate: float) -> None:
    views, given, truth = labelled(rate, blurred=1.5)
    scores = log_softmax(views.mean(0))
    assert right_by_surest(scores, given) == pytest.approx(
        (scores.argmax(1) == truth).mean(), abs=0.06
    )


@pytest.mark.parametrize("rate", [0.0, 0.2, 0.4])
@pytest.mark.parametrize("blurred", [0.7, 1.2])
def test_the_noise_rate_follows_from_agreement(rate: float, blurred: float) -> None:
    views, given, _ = labelled(rate, blurred)
    found = judge_labels(Evidence(views=views, given=given))
    wrong = float(1 - found.p_clean.mean())
    low, high = found.noise_interval
    assert wrong == pytest.approx(rate, abs=0.1)
    assert low - 0.01 <= rate <= high


def test_what_neighbours_say_of_some_counts_in_every_part(monkeypatch: pytest.MonkeyPatch) -> None:
    views, given, _ = labelled(0.3, 1.2)
    rows = np.arange(0, 2000, 3)
    alike, apart = views[0].argmax(1)[rows], views[2].argmax(1)[rows]

    def error(said: Ints) -> float:
        near = Near(rows=rows, said=said)
        return judge_many(Evidence(views=views[:1], given=given, near=near)).trust.model_error

    whole = error(apart)
    assert error(alike) < whole - 0.05
    monkeypatch.setattr("labelproof.judging.many_labels.PART", 1000)
    assert error(apart) == pytest.approx(whole, abs=0.05)


def test_what_a_person_told_moves_the_sharpness() -> None:
    views, given, truth = labelled(0.3, 1.2)
    values = log_softmax(views.mean(0))
    right = float((values.argmax(1) == truth).mean())
    best = sharpening(values, given, right)
    scores, labels = torch.from_numpy(values), torch.from_numpy(given)
    told = torch.full((2000,), -1)
    unknown = NoiseModel(scores, labels, told).fit()
    shares = unknown.shares(unknown.sharper())
    expected = torch.tensor(SHARPER).double().square().mul(-0.5).softmax(0)
    assert torch.allclose(shares, expected)
    told[:400] = torch.from_numpy(truth[:400])
    for away in (-0.8, 0.8):  # far too blunt, far too sharp
        model = NoiseModel(scores, labels, told, Prior(sharpen=(best + away, 0.4))).fit()
        shared = model.sharper()
        mean = float((model.shares(shared) * shared[:, 0]).sum())
        assert abs(mean - best) < 0.45


def test_what_a_person_told_of_any_example_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    views, given, truth = labelled(0.3, 1.2)
    monkeypatch.setattr(noise_samples, "FEWEST", 500)
    monkeypatch.setattr(noise_samples, "NUMBERS", 500 * CLASSES)
    scores, told = log_softmax(views.mean(0)), truth.copy()
    told[np.random.default_rng(0).permutation(2000)[:1000]] = -1
    prior = Prior(sharpen=(0.0, 0.4))
    before = noise_samples.explain(scores, given, np.full(2000, -1), prior=prior).truth
    after = noise_samples.explain(scores, given, told, prior=prior).truth
    right = float((scores.argmax(1) == truth).mean())
    assert abs(after.max(1).mean() - right) < abs(before.max(1).mean() - right) / 2


def test_labels_in_turn_are_sampled_like_others() -> None:
    rng = np.random.default_rng(0)
    given = np.arange(3 * SOME) % 3
    scores = log_softmax(rng.standard_normal((len(given), 3)) + 2 * np.eye(3)[given])
    _, some = some_of(scores, given)
    assert some.bincount().min() > SOME / 4


def test_a_view_that_knows_little_does_not_tell_how_often_the_others_are_right() -> None:
    rng, size, classes = np.random.default_rng(0), 600, 4
    truth = rng.integers(0, classes, size)

    def known(share: float) -> np.ndarray:
        return np.where(rng.random(size) < share, truth, rng.integers(0, classes, size))

    labels, good, other, poor = known(0.75), known(0.95), known(0.95), known(0.1)
    two = right_by_views(np.stack([good, other]), good, labels, classes)
    three = right_by_views(np.stack([good, other, poor]), good, labels, classes)
    assert three == two > 0.9


def test_a_forest_that_errs_by_itself_counts_half():
    assert lowest_pair({(0, 1): 0.5, (0, 2): 0.2, (1, 2): 0.3}, 2) == pytest.approx(0.35)
    assert lowest_pair({(0, 1): 0.1, (0, 2): 0.2, (1, 2): 0.3}, 2) == 0.1
    assert lowest_pair({(0, 1): 0.5, (0, 2): 0.2, (1, 2): 0.3}, None) == 0.2
    assert lowest_pair({(0, 1): 0.5}, 1) == 0.5


def test_views_that_err_alike_are_found_out_by_a_forest():
    rng = np.random.default_rng(0)
    truth = rng.integers(0, 4, 4000)
    hard = rng.random(4000) < 0.3  # where smooth borders are wrong, all in the same way
    smooth = np.where(hard, (truth + 1) % 4, truth)
    alike = np.stack([np.where(rng.random(4000) < 0.05, (s + 1) % 4, s) for s in [smooth] * 3])
    forest = np.where(rng.random(4000) < 0.3, rng.integers(0, 4, 4000), truth)
    labels = np.where(rng.random(4000) < 0.2, rng.integers(0, 4, 4000), truth)
    misled = right_by_views(alike, smooth, labels, 4)
    better = right_by_views(np.stack([*alike, forest]), smooth, labels, 4, forest=3)
    assert misled > 0.85
    assert abs(better - 0.7) < misled - 0.7 - 0.05
