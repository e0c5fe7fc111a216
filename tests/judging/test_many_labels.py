"""Very many labels are judged in random parts: what is said of all hardly differs."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from labelproof.judging import many_labels
from labelproof.judging.judgement import Evidence, Judgement, judge_labels
from labelproof.judging.numbers import log_softmax
from labelproof.judging.statements import ClassVerdict, Point
from labelproof.judging.suspects import Rule
from labelproof.judging.trust import Trust

N, C = 6000, 3


@pytest.fixture(scope="module")
def evidence() -> tuple[Evidence, np.ndarray]:
    rng = np.random.default_rng(0)
    true = rng.integers(C, size=N)
    wrong = rng.random(N) < 0.2
    given = np.where(wrong, (true + 1 + rng.integers(C - 1, size=N)) % C, true)
    scores = log_softmax(3 * np.eye(C)[true] + rng.normal(size=(N, C)))
    return Evidence(views=scores[None], given=given), wrong


@pytest.fixture(scope="module")
def whole(evidence) -> Judgement:
    return judge_labels(evidence[0])


def test_parts_say_what_the_whole_says(evidence, whole, monkeypatch):
    told, wrong = evidence
    assert many_labels.judge_many(told).p_clean.tolist() == whole.p_clean.tolist()  # one part
    monkeypatch.setattr(many_labels, "PART", 2000)
    parts = many_labels.judge_many(told)
    assert np.abs(parts.p_clean - whole.p_clean).mean() < 0.02
    assert (parts.suspects == whole.suspects).mean() > 0.98
    assert wrong[parts.suspects].mean() > 0.8
    assert parts.noise_rate == pytest.approx(whole.noise_rate, abs=0.02)
    assert parts.precision == pytest.approx(whole.precision, abs=0.03)
    assert parts.noise_interval[0] < 0.2 < parts.noise_interval[1]
    assert np.abs(parts.transition - whole.transition).max() < 0.03
    assert np.allclose(parts.scores, whole.scores, atol=0.3)
    assert np.allclose(parts.posterior.sum(1), 1)
    for mine, all_ in zip(parts.by_class, whole.by_class, strict=True):
        assert mine.given == all_.given
        assert mine.noise_rate == pytest.approx(all_.noise_rate, abs=0.04)
    assert parts.curve[-1].suspects == N
    assert [point.suspects for point in parts.curve] == sorted(p.suspects for p in parts.curve)


@pytest.mark.parametrize("budget", [1, 20, 300])
def test_a_budget_is_for_all_parts_together(evidence, monkeypatch, budget):
    monkeypatch.setattr(many_labels, "PART", 2000)
    found = many_labels.judge_many(evidence[0], Rule(budget=budget))
    assert found.suspects.sum() == budget
    assert found.p_clean[found.suspects].max() <= found.p_clean[~found.suspects].min()
    assert found.precision > 0.9
    assert found.precision_interval[0] <= found.precision <= found.precision_interval[1]


def test_reviewed_labels_and_rare_classes_are_in_every_part(evidence, whole, monkeypatch):
    monkeypatch.setattr(many_labels, "PART", 2000)
    told = evidence[0]
    fixed = np.zeros(N, dtype=bool)
    fixed[np.flatnonzero(whole.suspects)[:24]] = True
    given = told.given.copy()
    given[::120] = C  # a class of fifty
    views = np.concatenate([told.views, np.full((1, N, 1), -6.0)], 2)
    views[0, ::120, C] = 3.0
    changed = Evidence(views=views, given=given, fixed=fixed, original=given)
    rows = many_labels.split(changed, 3, np.random.default_rng(0))
    needed = set(np.flatnonzero(fixed | (given == C)).tolist())
    assert all(needed <= set(part.tolist()) for part in rows)
    assert sorted({int(i) for part in rows for i in part}) == list(range(N))
    rare = many_labels.judge_many(changed).by_class[C]
    assert rare.judged
    assert rare.given == 50


def test_what_one_part_cannot_state_is_not_stated_of_all():
    assert many_labels._mean([0.5, None], [1, 1]) is None
    assert many_labels._mean([0.2, 0.8], [3, 1]) == pytest.approx(0.35)
    assert many_labels._mean([0.2, 0.8], [0, 0]) is None
    assert many_labels._interval([(0.1, 0.2), None], [1, 1]) is None


def test_a_part_without_suspects_says_nothing_of_their_precision(evidence, monkeypatch) -> None:
    assert many_labels._mean([0.5, None], [3, 0]) == 0.5
    assert many_labels._interval([None, (0.1, 0.2)], [0, 2]) == pytest.approx((0.1, 0.2))
    told, rows = evidence[0], np.split(np.arange(N), 2)
    found = judge_labels(told)
    assert found.precision is not None
    good = found.trust

    def of(level: str, suspects: bool) -> Judgement:
        part = judge_labels(many_labels._part(told, rows[0]))
        none = replace(part, suspects=np.zeros(N // 2, dtype=bool), precision=None)
        part = part if suspects else replace(none, precision_interval=None)
        return replace(part, trust=replace(good, level=level))

    full = of("good", True)
    whole = many_labels.joined([full, of("good", False)], rows, told.given)
    assert whole.precision == full.precision
    assert whole.precision_interval == pytest.approx(full.precision_interval)
    careful = many_labels.joined([full, of("caution", False)], rows, told.given)
    assert careful.precision is None
    assert careful.precision_interval is not None
    nothing = many_labels.joined([full, of("none", False)], rows, told.given)
    assert (nothing.precision, nothing.precision_interval) == (None, None)


@pytest.mark.parametrize("misled", [0.0, 0.45])
def test_a_budget_keeps_the_stated_interval(evidence, monkeypatch, misled) -> None:
    """The curve, by which a budget is stated, knows how far the model was misled."""
    monkeypatch.setattr("labelproof.judging.judgement.misled_by_labels", lambda *_: misled)
    rule = Rule(budget=1800)
    whole = judge_labels(evidence[0], rule)
    found = many_labels.within(judge_labels(evidence[0]), rule, evidence[0])
    assert found.precision_interval == pytest.approx(whole.precision_interval, abs=0.02)


def test_what_makes_any_part_doubtful_counts_for_all() -> None:
    usual = Trust(level="good", reasons=(), agreement=0.8, majority=0.2, lift=0.75, model_error=0.1)
    other = replace(usual, hidden=True, misled=0.4, model_error=0.3)
    found = many_labels._trust([usual, other], [100, 300])
    assert found.level == "good"
    assert found.hidden
    assert found.misled == 0.4
    assert found.model_error == pytest.approx(0.25)
    assert many_labels._trust([usual, replace(other, level="caution")], [1, 1]).level == "caution"


def test_points_and_classes_of_parts_by_hand() -> None:
    points = [
        Point(suspects=10, precision=0.9, low=0.8, high=1.0),
        Point(suspects=30, precision=0.5, low=0.4, high=0.6),
    ]
    whole = many_labels._point(points)
    assert whole.suspects == 40
    assert (whole.precision, whole.low, whole.high) == pytest.approx((0.6, 0.5, 0.7))
    told = ClassVerdict(
        given=100,
        judged=True,
        reason="",
        noise_rate=0.1,
        noise_interval=(0.0, 0.2),
        suspects=10,
        precision=0.8,
        agreement=0.9,
    )
    other = replace(
        told, given=300, noise_rate=0.3, noise_interval=(0.2, 0.6), suspects=30, precision=0.4
    )
    found = many_labels._verdict([told, other], 390, 35)
    assert (found.given, found.suspects, found.judged) == (390, 35, True)
    assert found.noise_rate == pytest.approx(0.25)
    assert found.noise_interval == pytest.approx((0.15, 0.5))
    assert found.precision == pytest.approx(0.5)
    alone = replace(other, judged=False, reason="only 3 labels", noise_rate=None)
    found = many_labels._verdict([told, alone], 390, 35)
    assert (found.judged, found.reason, found.noise_rate) == (False, "only 3 labels", None)
