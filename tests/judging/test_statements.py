"""What is stated of suspects, noise, classes and trust, by hand."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.special import expit
from scipy.stats import norm

from labelproof.judging.noise_samples import own_evidence, reviewed_curve
from labelproof.judging.numbers import log_softmax
from labelproof.judging.statements import by_class, precision_curve, precision_of, rate_interval
from labelproof.judging.trust import Trust, trust_of, unjudged_classes
from labelproof.judging.wording import (
    accuracy,
    consensus,
    left_alone,
    no_suggestion,
    of_labels,
    precision,
)


def trust(**changes: object) -> Trust:
    usual = {"level": "good", "reasons": (), "agreement": 0.8, "majority": 0.2, "lift": 0.75}
    return Trust(**{**usual, "model_error": 0.1, **changes})  # type: ignore[arg-type]


def around(rate: float, below: float, above: float) -> tuple[float, float]:
    """Ends that lie 1.645 such standard deviations from a rate, in logits."""
    z = math.log(rate / (1 - rate))
    return expit(z - 1.645 * below), expit(z + 1.645 * above)


@pytest.mark.parametrize("count", [50, 1])
def test_the_interval_of_a_precision(count: int) -> None:
    wrong = np.full((4, 100), 0.8)
    mean, interval = precision_of(wrong, np.arange(100) < count) or (0.0, (0.0, 0.0))
    chance = 1 / (50 * 0.16) if count == 50 else 4.0  # never beyond that of one label in two
    ends = around(0.8, math.sqrt(chance + 0.5**2), math.sqrt(chance + 1.4**2))
    assert mean == pytest.approx(0.8)
    assert interval == pytest.approx(ends)
    sure = precision_of(np.ones((4, 100)), np.arange(100) < count)
    assert sure is not None
    assert sure[0] == 1.0


def test_the_interval_of_the_share_of_wrong_labels() -> None:
    free = np.arange(120) < 100
    wrong = np.where(free, 0.2, 0.9)[None].repeat(3, 0)
    sd = math.sqrt(1 / 20 + 0.45**2)  # twenty wrong labels, and what the model gets wrong
    assert rate_interval(wrong, free, trust()) == pytest.approx(around(0.2, sd, sd))
    for misled, more in ((0.2, 1.2), (0.9, 1.5)):
        sd = math.sqrt(1 / 20 + (more * 0.45) ** 2)
        found = rate_interval(wrong, free, trust(misled=misled))
        assert found == pytest.approx(around(0.2, sd, sd))
    assert rate_interval(wrong, free, trust(ambiguous=True, agreement=0.01)) == (0.0, 1.0)


def test_the_curve_is_of_the_labels_that_may_be_suspects() -> None:
    wrong = np.array([[0.5, 0.8, 0.99, 0.0], [0.5, 1.0, 0.99, 0.2]])
    free = np.array([True, True, False, True])
    curve = precision_curve(wrong, free, trust(), listed=1)
    assert [point.suspects for point in curve] == [1, 2, 3]
    assert [point.precision for point in curve] == pytest.approx([0.9, 0.7, 0.5])
    lengths = [
        point.suspects
        for point in precision_curve(np.full((1, 900), 0.5), np.ones(900) > 0, trust(), listed=1)
    ]
    assert lengths[0] == 1
    assert lengths[-1] == 900
    assert 25 <= len(lengths) <= 30


def test_what_is_said_of_a_class() -> None:
    labels = np.repeat([0, 1, 2], [40, 30, 10])
    wrong = np.where(labels == 0, 0.25, 0.02)[None].repeat(2, 0)
    reviewed = np.arange(80) < 8  # of the first class
    suspects = np.arange(80) % 2 == 0
    scores = log_softmax(3.0 * np.eye(3)[np.where(np.arange(80) % 4 == 0, 1, labels)])
    told = by_class(wrong, suspects, labels, scores, reviewed, {2: "why"}, trust(), sure=True)
    first, second, third = told
    assert [one.given for one in told] == [40, 30, 10]
    assert [one.suspects for one in told] == [20, 15, 5]
    assert [one.judged for one in told] == [True, True, False]
    assert first.noise_rate == pytest.approx(0.25)
    sd = math.sqrt(1 / 8 + (1.5 * 0.45) ** 2)  # of 32 labels eight are wrong
    assert first.noise_interval == pytest.approx(around(0.25, sd, sd))
    assert first.precision == pytest.approx(0.25)
    sd = math.sqrt(1 + (1.5 * 0.45) ** 2)  # less than one wrong label is no less sure than one
    assert second.noise_interval == pytest.approx(around(0.02, sd, sd))
    assert second.precision is None  # of fifteen suspects
    assert (third.noise_rate, third.noise_interval, third.reason) == (None, None, "why")
    assert first.agreement == pytest.approx(30 / 40)
    doubtful = by_class(wrong, suspects, labels, scores, reviewed, {}, trust(), sure=False)
    assert doubtful[0].precision is None
    none = by_class(wrong, suspects, labels, scores, reviewed, {}, trust(level="none"), sure=True)
    assert none[0].noise_rate is None


def test_classes_far_smaller_than_others_need_twenty_labels() -> None:
    def left(*counts: int) -> dict[int, str]:
        labels = np.repeat(np.arange(len(counts)), counts)
        return unjudged_classes(log_softmax(5.0 * np.eye(len(counts))[labels]), labels)

    assert left(300, 300, 19) == {2: "only 19 labels"}  # an equal share is 206
    assert left(300, 300, 20) == {}
    assert left(40, 40, 8) == {}  # more than 0.15 of an equal share
    assert left(40, 40, 7) == {2: "only 7 labels"}
    assert left(40, 40, 1) == {2: "only 1 label"}


def test_a_class_is_recognised_beyond_chance_where_labels_are_few() -> None:
    def named(inside: int, auroc: float) -> bool:
        """Whether a class is judged that lies above this share of 1,000 others."""
        labels = np.repeat([0, 1], [1000, inside])
        place = np.concatenate([np.arange(1000.0), np.full(inside, auroc * 1000 - 0.5)])
        other = np.where(labels == 0, 0.0, -9.0)
        return 1 not in unjudged_classes(np.stack([other, place], 1), labels)

    # two standard errors: 0.5 + 2 sqrt(1201 / (12 * 200 * 1000)) = 0.545, at least 0.57
    assert [named(200, auroc) for auroc in (0.565, 0.575)] == [False, True]
    # 0.5 + 2 sqrt(1025 / (12 * 24 * 1000)) = 0.619
    assert [named(24, auroc) for auroc in (0.61, 0.63)] == [False, True]


def test_reasons_for_care() -> None:
    labels = np.arange(1200) % 3
    scores = log_softmax(5.0 * np.eye(3)[labels])

    def level(error: float = 0.0, **more: object) -> str:
        return trust_of(scores, labels, np.full((1200, 3), 1 - error), judged=3, **more).level  # type: ignore[arg-type]

    assert [level(error) for error in (0.29, 0.31, 0.44, 0.46)] == [
        *("good", "caution", "caution", "none")
    ]
    assert level(ambiguous=True) == level(misled=0.51) == "caution"
    assert level(hidden=True) == level(misled=0.49) == "good"


def test_a_model_that_names_one_class_may_still_recognise_the_other() -> None:
    labels = np.repeat([0, 1], [1000, 200])
    rng = np.random.default_rng(0)
    other = rng.normal(size=1200) + 3 * (labels == 1) - 9
    scores = log_softmax(np.stack([np.zeros(1200), other], 1))
    found = trust_of(scores, labels, np.exp(scores), judged=2)
    assert found.lift == pytest.approx(0)
    assert found.majority == pytest.approx(5 / 6)
    assert found.level == "good"
    shuffled = trust_of(scores, rng.permutation(labels), np.exp(scores), judged=2)
    assert shuffled.level == "none"


def test_review_finds_the_curve_that_outcomes_follow() -> None:
    rng = np.random.default_rng(0)
    z = 2 * rng.standard_normal(20_000)
    slope, offset = reviewed_curve(z, rng.random(20_000) < expit(0.6 * z + 1), 0.82)
    assert (slope, offset) == pytest.approx((0.6, 1.0), abs=0.05)
    slope, offset = reviewed_curve(z, rng.random(20_000) < 0.5, 0.82)
    assert (slope, offset) == (0.2, pytest.approx(0.0, abs=0.05))
    assert reviewed_curve(z[:0], z[:0] > 0, 0.82) == pytest.approx((0.82, 0.0), abs=1e-3)


def test_an_own_score_counts_by_the_slope_of_its_ranks() -> None:
    ranks = -norm.ppf((np.arange(2000) + 0.5) / 2000)
    for slope, weight in ((0.3, 0.0), (0.9, 0.4), (1.8, 1.0)):
        wrong = expit(slope * ranks - 1)
        evidence, found = own_evidence(np.arange(2000.0), wrong)
        base = math.log(wrong.mean() / (1 - wrong.mean()))
        assert found == pytest.approx(weight, abs=0.01)
        assert np.allclose(evidence, weight * (slope * ranks - 1 - base), atol=0.1)


def test_five_classes_are_named_and_the_others_counted() -> None:
    def told(count: int) -> str:
        classes = [{"name": str(k), "judged": False, "reason": "few"} for k in range(count)]
        return left_alone({"by_class": classes})[0]

    assert told(5).endswith("3 (few), 4 (few).")
    assert told(7).endswith("3 (few), 4 (few) and 2 more.")
    assert left_alone({"by_class": [{"name": "a", "judged": True, "reason": ""}]}) == []


def test_one_suspect_or_several_in_words() -> None:
    assert no_suggestion(0.49).startswith("probably wrong")
    assert not no_suggestion(0.5).startswith("probably wrong")

    def first(suspects: int, filled: int = 0, level: str = "good") -> str:
        summary = {"suspects": suspects, "suspects_filled": filled, "trust": {"level": level}}
        return of_labels(summary, 200)[0]

    assert first(1) == "1 of 200 labels looks wrong (0.5%)."
    assert first(3) == "3 of 200 labels look wrong (1.5%)."
    assert first(0) == "0 of 200 labels look wrong (0.0%)."
    assert first(1, level="none") == "1 of 200 labels is the first to check (0.5%)."
    assert first(3, level="none") == "3 of 200 labels are the first to check (1.5%)."
    assert first(0, level="none") == "The share of wrong labels cannot be estimated."
    assert "1 looks wrong, and 2 are the next most likely" in first(3, filled=2)
    assert "2 look wrong, and 1 is the next most likely" in first(3, filled=1)


def test_the_mean_of_ten_epochs_needs_ten() -> None:
    summary = {"accuracy": {"last": 0.8, "last10": 0.7, "best": 0.9}}
    told = "Test accuracy 80.0% after the last epoch ({}best 90.0%, chosen on the test set)"
    tested, plain = {"test_accuracy": 0.8}, {"loss": 1.0}
    assert accuracy(summary, [tested] * 9 + [plain]) == told.format("")
    assert accuracy(summary, [tested] * 10) == told.format("mean of the last ten 70.0%, ")


@pytest.mark.parametrize("suspects", [1, 9])
def test_nearly_all_are_wrong_only_where_the_lower_end_says_so(suspects: int) -> None:
    def told(low: float) -> str:
        return precision({"suspects": suspects, "suspect_precision_interval": (low, 0.999)})[0]

    assert "between 60% and 100%" in told(0.6).lower()
    assert told(0.996) == (
        "It is almost certainly wrong."
        if suspects == 1
        else "Nearly all of these 9 labels are wrong."
    )


def test_consensus_and_majority_in_words() -> None:
    assert "majority vote for 1 example. " in consensus({"changed": 1, "given_differs": 0})
    assert "majority vote for 2,000 examples. " in consensus({"changed": 2000, "given_differs": 0})
    for trained, words in (
        (0, "trained on, here the majority votes, and"),
        (1, "trained on (1 is not the majority vote), and"),
        (1234, "trained on (1,234 are not the majority vote), and"),
    ):
        assert words in consensus({"changed": 0, "given_differs": trained})
