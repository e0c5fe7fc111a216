"""Which label to check next: against closed forms and a small simulation."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from labelproof.judging import next_check
from labelproof.judging.next_check import (
    check_order,
    copies_of,
    expected_gain,
    joined,
    posterior_after,
)
from labelproof.judging.noise_model import NoiseModel


def test_gain_is_the_chance_that_the_best_guess_is_wrong() -> None:
    gain = expected_gain(np.array([0.01, 0.45, 0.9]), np.array([0.98, 0.4, 0.9]))
    assert np.allclose(gain, [0.02, 0.55, 0.1])


def test_copies_and_repeated_confusions_are_put_off() -> None:
    gain = np.array([0.5, 0.49, 0.48, 0.1])
    same = np.zeros(4, dtype=np.int64)
    distinct = np.arange(4)
    assert check_order(gain, distinct).tolist() == [0, 1, 2, 3]
    assert check_order(gain, distinct, np.array([0, 0, 1, 2])).tolist() == [0, 2, 3, 1]
    assert check_order(gain, distinct, open_=np.array([False, True, True, True]))[-1] == 0
    # of equal gains, the confusion that has been asked least comes first
    pairs = np.array([0] * 5 + [1])
    assert check_order(np.full(6, 0.3), pairs)[:2].tolist() == [0, 5]
    assert sorted(check_order(gain, same).tolist()) == [0, 1, 2, 3]


def test_copies_have_the_same_scores_and_label() -> None:
    scores = np.array([[1, 2], [1, 2], [1, 2], [3, 4]], dtype=np.float32)
    found = copies_of(scores, np.array([0, 0, 1, 0]))
    assert found[0] == found[1] != found[2]
    assert len(set(found.tolist())) == 3


def test_copies_of_what_is_decided_are_put_off() -> None:
    gain, copies = np.array([0.0, 0.5, 0.4, 0.3]), np.array([0, 0, 1, 2])
    open_ = np.array([False, True, True, True])
    assert check_order(gain, np.arange(4), copies, open_).tolist() == [2, 3, 1, 0]


def test_pairs_join_groups() -> None:
    groups = np.array([0, 0, 1, 2, 3, 4])
    found = joined(groups, np.array([[1, 2], [3, 5]]))
    assert found[0] == found[1] == found[2]
    assert found[3] == found[5]
    assert len(set(found.tolist())) == 3


def _noisy(seed: int = 0) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    rng = np.random.default_rng(seed)
    truth = rng.integers(0, 3, 1200)
    wrong = rng.random(1200) < np.array([0.4, 0.05, 0.05])[truth]  # class 0 goes wrong, to 1
    given = np.where(wrong, (truth + 1) % 3, truth)
    scores = rng.normal(size=(1200, 3))
    scores[np.arange(1200), truth] += 2
    return torch.tensor(scores), torch.tensor(given), torch.tensor(truth)


def test_decisions_make_the_rest_better_known() -> None:
    scores, given, truth = _noisy()
    none = torch.zeros(0, dtype=torch.long)
    before = posterior_after(scores, given, none, none)
    rows = before.max(1).values.argsort()[:150]
    after = posterior_after(scores, given, rows, truth[rows])
    assert after[rows].gather(1, truth[rows][:, None]).min() == 1
    rest = torch.ones(1200, dtype=torch.bool)
    rest[rows] = False

    def score(posterior: torch.Tensor) -> float:
        return posterior[rest].gather(1, truth[rest][:, None]).clamp_min(1e-6).log().mean().item()

    assert score(after) > score(before) - 0.01


def test_checks_by_gain_beat_suspicion_and_chance() -> None:
    scores, given, truth = _noisy(1)
    none = torch.zeros(0, dtype=torch.long)
    posterior = posterior_after(scores, given, none, none)
    clean = posterior.gather(1, given[:, None]).squeeze(1)
    best = posterior.max(1)

    def accuracy(order: torch.Tensor) -> float:
        labels = best.indices.clone()
        labels[order[:100]] = truth[order[:100]]
        return (labels == truth).double().mean().item()

    gain = accuracy(best.values.argsort())
    assert gain > accuracy(clean.argsort()) + 0.01
    assert gain > accuracy(torch.arange(1200)) + 0.01


def test_a_confusion_counts_half_after_five_hundred_checks() -> None:
    gain = np.append(np.full(600, 0.4), 0.21)
    pairs = np.append(np.zeros(600, dtype=np.int64), 1)
    # 0.4 / (1 + r / 500) falls below 0.21 between the ranks 452 and 453
    assert check_order(gain, pairs).tolist().index(600) == 453


def test_a_copy_counts_a_tenth() -> None:
    gain = np.array([0.9, 0.88, 0.1, 0.08])
    order = check_order(gain, np.arange(4), np.array([0, 0, 1, 2]))
    assert order.tolist() == [0, 2, 1, 3]


def test_the_model_is_fitted_to_as_many_examples_as_can_be_and_to_those_decided(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    scores, given, truth = _noisy()
    index, sizes = torch.arange(1100, 1200), []

    class Noted(NoiseModel):
        def __init__(self, scores, labels, told, prior=None) -> None:
            sizes.append((len(scores), int((told >= 0).sum())))
            super().__init__(scores, labels, told, prior)

    monkeypatch.setattr(next_check, "NoiseModel", Noted)
    posterior_after(scores, given, index, truth[index])
    monkeypatch.setattr(next_check, "MOST", 3 * 50)
    posterior_after(scores, given, index, truth[index])
    assert sizes[0] == (1200, 100)
    assert 100 <= sizes[1][0] <= 150
    assert sizes[1][1] == 100
