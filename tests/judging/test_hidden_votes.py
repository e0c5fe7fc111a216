"""Votes that are hidden from a fit and predicted by it."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from labelproof.data.votes import Votes, vote_shares
from labelproof.judging import hidden_votes
from labelproof.judging.annotators import fit_crowd
from labelproof.judging.crowd_em import Knobs, em, known_of
from labelproof.judging.hidden_votes import SHARE, splits


def votes_of(size: int, people: int, each: int, classes: int, right: float, seed: int = 0):
    """Votes of people who are all right equally often, wrong ones at random; and the truth."""
    rng = np.random.default_rng(seed)
    truth = rng.integers(0, classes, size)
    said = np.where(
        rng.random((size, people)) < right, truth[:, None], rng.integers(0, classes, (size, people))
    )
    said[np.argsort(rng.random((size, people)), axis=1) >= each] = -1
    return Votes(table=torch.tensor(said), annotators=tuple(map(str, range(people)))), truth


def test_every_vote_is_hidden_once_and_the_rest_is_shown() -> None:
    votes, _ = votes_of(60, 7, 5, 3, 0.8)
    known = known_of(votes, 3)
    parts = splits(known)
    assert len(parts) == SHARE
    seen = torch.zeros_like(votes.table)
    for part in parts:
        hidden, shown = part.hidden, part.shown
        assert len(hidden) == 60  # of five votes on each example one
        assert hidden.rows.unique().numel() == 60
        seen[hidden.rows, hidden.who] += 1
        table = votes.table.clone()
        table[hidden.rows, hidden.who] = -1
        left = Votes(table=table, annotators=votes.annotators)
        assert torch.equal(shown.start, vote_shares(left, 3))
        assert torch.equal(shown.given, left.given)
    assert torch.equal(seen, (votes.table >= 0).long())


def test_many_votes_need_one_split(monkeypatch: pytest.MonkeyPatch) -> None:
    votes, _ = votes_of(60, 7, 5, 3, 0.8)
    monkeypatch.setattr(hidden_votes, "ENOUGH", 50)
    assert len(splits(known_of(votes, 3))) == 1


@pytest.mark.parametrize("correlation", [0.0, 0.3])
def test_a_hidden_vote_is_predicted_through_its_annotators_matrix(correlation: float) -> None:
    votes, _ = votes_of(40, 4, 3, 3, 0.8)
    part = splits(known_of(votes, 3))[0]
    crowd = em(part.shown, Knobs(correlation=correlation))
    row, who, label = (int(column[0]) for column in vars(part.hidden).values())
    others = votes.table[row].clone()
    others[who] = -1
    alike, before = int((others == label).sum()), int((others >= 0).sum())
    said = crowd.confusion[who, :, label]
    if correlation:
        fresh = (1 - correlation) / correlation
        said = (fresh * said + alike) / (fresh + before)
    by_hand = (crowd.posterior[row] * said).sum().log()
    assert part.predict(crowd)[0].item() == pytest.approx(by_hand.item())


def test_weak_votes_of_few_people_are_not_believed_too_much() -> None:
    """Matrices of one's own explain two weak votes an example well, and mean nothing."""
    for seed in range(3):
        votes, truth = votes_of(600, 8, 2, 10, 0.45, seed)
        crowd = fit_crowd(votes, 10)
        right = (crowd.consensus.numpy() == truth).mean()
        assert crowd.posterior.max(1).values.mean() < right + 0.2
        assert crowd.strength >= 10
