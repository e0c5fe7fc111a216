"""Very many labels are judged in random parts: what is said of all hardly differs."""

from __future__ import annotations

import numpy as np
import pytest

from labelproof.judging import many_labels
from labelproof.judging.judgement import Evidence, judge_labels
from labelproof.judging.numbers import log_softmax
from labelproof.judging.suspects import Rule

N, C = 6000, 3


@pytest.fixture(scope="module")
def evidence() -> tuple[Evidence, np.ndarray]:
    rng = np.random.default_rng(0)
    true = rng.integers(C, size=N)
    wrong = rng.random(N) < 0.2
    given = np.where(wrong, (true + 1 + rng.integers(C - 1, size=N)) % C, true)
    scores = log_softmax(3 * np.eye(C)[true] + rng.normal(size=(N, C)))
    return Evidence(views=scores[None], given=given), wrong


def test_parts_say_what_the_whole_says(evidence, monkeypatch):
    told, wrong = evidence
    whole = judge_labels(told)
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


def test_a_budget_is_shared_by_the_parts(evidence, monkeypatch):
    monkeypatch.setattr(many_labels, "PART", 2000)
    found = many_labels.judge_many(evidence[0], Rule(budget=300))
    assert found.suspects.sum() == 300


def test_what_one_part_cannot_state_is_not_stated_of_all():
    assert many_labels._mean([0.5, None], [1, 1]) is None
    assert many_labels._mean([0.2, 0.8], [3, 1]) == pytest.approx(0.35)
    assert many_labels._mean([0.2, 0.8], [0, 0]) is None
    assert many_labels._interval([(0.1, 0.2), None], [1, 1]) is None
