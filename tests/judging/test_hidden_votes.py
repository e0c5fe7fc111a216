"""Votes that are hidden from a fit and predicted by it."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch

from labelproof.data.votes import Votes, majority, vote_shares
from labelproof.judging import annotators, hidden_votes
from labelproof.judging.annotators import fit_crowd
from labelproof.judging.crowd_em import Knobs, Known, em, known_of
from labelproof.judging.hidden_votes import SHARE, splits

pytestmark = pytest.mark.whole  # knobs are looked for as long as for users


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


@pytest.mark.parametrize("follow", [False, True])
def test_a_hidden_vote_is_predicted_through_its_annotators_matrix(follow: bool) -> None:
    votes, _ = votes_of(40, 4, 3, 3, 0.8)
    part = splits(known_of(votes, 3))[0]
    crowd = em(part.shown, Knobs(correlation=0.25))
    row, who, label = (int(column[0]) for column in vars(part.hidden).values())
    said = crowd.confusion[who, :, label]
    if follow:  # ρ = 1/4 is an urn that counts the matrix three times
        others = votes.table[row].clone()
        others[who] = -1
        said = (3 * said + (others == label).sum()) / (3 + (others >= 0).sum())
    by_hand = (crowd.posterior[row] * said).sum().log()
    assert part.predict(crowd, follow=follow)[0].item() == pytest.approx(by_hand.item())


def test_many_votes_that_follow_each_other_still_have_a_consensus() -> None:
    """Votes predict each other best without any class where all err on the same examples."""
    rng = np.random.default_rng(0)
    truth, hard = rng.integers(0, 2, 108), rng.normal(size=(108, 1)) * 1.2
    right = rng.random((108, 39)) < 1 / (1 + np.exp(hard - 0.4))
    table = torch.tensor(np.where(right, truth[:, None], 1 - truth[:, None]))
    votes = Votes(table=table, annotators=tuple(map(str, range(39))))
    crowd = fit_crowd(votes, 2)
    same = (crowd.consensus == majority(votes, 2)).double().mean()
    assert same > 0.85
    assert crowd.posterior.max(1).values.mean() > 0.7


def test_weak_votes_of_few_people_are_not_believed_too_much() -> None:
    """Matrices of one's own explain two weak votes an example well, and mean nothing."""
    for seed in range(3):
        votes, truth = votes_of(600, 8, 2, 10, 0.45, seed)
        crowd = fit_crowd(votes, 10)
        right = (crowd.consensus.numpy() == truth).mean()
        assert crowd.posterior.max(1).values.mean() < right + 0.2
        assert crowd.knobs.strength >= 10


def sparse_crowd(lured: float) -> tuple[Votes, torch.Tensor, torch.Tensor]:
    """Three votes on each of 300 examples by 200 people, the truth, and scores of a classifier.

    On a share of the examples most people fall for the same wrong class.
    """
    size, people, classes, rng = 300, 200, 4, np.random.default_rng(0)
    truth = rng.integers(0, classes, size)
    lure = (truth + rng.integers(1, classes, size)) % classes
    hard = rng.random((size, 1)) < lured
    right = rng.random((size, people)) < np.where(hard, 0.35, 0.8)
    wrong = np.where(hard, lure[:, None], rng.integers(0, classes, (size, people)))
    said = np.where(right, truth[:, None], wrong)
    said[np.argsort(rng.random((size, people)), axis=1) >= 3] = -1
    votes = Votes(table=torch.tensor(said), annotators=tuple(map(str, range(people))))
    scores = rng.normal(size=(size, classes)) + 2.5 * np.eye(classes)[truth]
    return votes, torch.tensor(truth), torch.tensor(scores).log_softmax(1)


def test_a_classifier_tells_how_far_votes_of_a_sparse_crowd_are_correlated(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """With few votes a person, other votes do not tell: they fall for the same wrong class."""
    votes, _, scores = sparse_crowd(lured=0.0)
    assert fit_crowd(votes, 4, scores).knobs.correlation <= 0.01
    votes, truth, scores = sparse_crowd(lured=0.2)
    told = fit_crowd(votes, 4, scores)
    monkeypatch.setattr(annotators, "_by_witness", lambda _: (Knobs(), False))
    untold = fit_crowd(votes, 4, scores)
    assert told.knobs.correlation >= 0.06 > untold.knobs.correlation
    right = [(crowd.consensus == truth).double().mean() for crowd in (told, untold)]
    assert right[0] > right[1] + 0.01


def many_votes(each: int = 8) -> tuple[Votes, torch.Tensor, torch.Tensor]:
    """Votes of good people on 400 examples, the truth, and scores of a weak classifier."""
    votes, truth = votes_of(400, 20, each, 4, 0.8)
    rng = np.random.default_rng(1)
    scores = rng.normal(size=(400, 4)) + 0.6 * np.eye(4)[truth]
    return votes, torch.tensor(truth), torch.tensor(scores).log_softmax(1)


def search_once(known: Known, monkeypatch: pytest.MonkeyPatch) -> None:
    """Fits of the same votes, scores and all, need not look for the best values again."""
    found = annotators._search(known)
    monkeypatch.setattr(annotators, "_search", lambda _: found)


def test_many_votes_win_over_a_weak_classifier(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever the classifier says of their correlation."""
    votes, truth, scores = many_votes()
    settled = Knobs(correlation=0.6)
    monkeypatch.setattr(annotators, "_by_witness", lambda _: (settled, True))
    search_once(known_of(votes, 4, scores), monkeypatch)
    crowd = fit_crowd(votes, 4, scores)
    assert crowd.knobs.correlation < 0.6
    right = (crowd.consensus == truth).double().mean()
    assert right >= (majority(votes, 4) == truth).double().mean() - 0.005
    monkeypatch.setattr(annotators, "_agreeing", lambda _, best: best)
    assert right > (fit_crowd(votes, 4, scores).consensus == truth).double().mean() + 0.01


@pytest.mark.parametrize("how", ["weak", "none", "as good as the votes"])
def test_a_good_classifier_is_not_overruled(how: str) -> None:
    votes, truth, scores = many_votes()
    if how == "as good as the votes":
        scores = 9.0 * torch.eye(4)[truth].double()
    known = known_of(votes, 4, None if how == "none" else scores)
    hiding = annotators.Hiding(parts=splits(known), settled=True)
    found = hiding.tried(Knobs(correlation=0.6), [None] * len(hiding.parts))
    worse = replace(found, agreed=found.agreed - 1)  # so that the majority is ahead of it
    assert annotators._majority_ahead(hiding.parts, worse) == (how != "as good as the votes")


def test_weak_votes_overrule_nothing() -> None:
    votes, _ = votes_of(400, 20, 8, 4, 0.4)
    hiding = annotators.Hiding(parts=splits(known_of(votes, 4)), settled=False)
    found = hiding.tried(Knobs(), [None] * len(hiding.parts))
    worse = replace(found, agreed=found.agreed - 1)
    assert not annotators._majority_ahead(hiding.parts, worse)


@pytest.mark.parametrize("learnt", [False, True])
def test_weak_votes_overrule_a_classifier_that_learnt_nothing(
    learnt: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Such a classifier is foretold best where votes do not count at all."""
    votes, code = votes_of(400, 20, 10, 4, 0.5)
    truth, rng = torch.tensor(code), np.random.default_rng(1)
    noise = torch.tensor(rng.normal(size=(400, 4)))
    scores = (noise + 3 * learnt * torch.eye(4)[truth]).log_softmax(1)
    hiding = annotators.Hiding(parts=splits(known_of(votes, 4, scores)), settled=True)
    found = hiding.tried(Knobs(correlation=0.6), [None] * len(hiding.parts))
    worse = replace(found, agreed=found.agreed - 1)
    assert annotators._majority_ahead(hiding.parts, worse) != learnt
    if not learnt:
        monkeypatch.setattr(annotators, "_by_witness", lambda _: (Knobs(correlation=0.6), True))
        right = (fit_crowd(votes, 4, scores).consensus == truth).double().mean()
        assert right > (majority(votes, 4) == truth).double().mean() - 0.02


def test_hidden_votes_are_counted_by_example() -> None:
    votes, _ = votes_of(40, 4, 3, 3, 0.8)
    part = splits(known_of(votes, 3))[0]
    labels = torch.zeros(40, dtype=torch.long)
    wanted = [0] * 40
    for row, said in zip(part.hidden.rows.tolist(), part.hidden.label.tolist(), strict=True):
        wanted[row] += said == 0
    assert part.agreed(labels).tolist() == wanted


def ambiguous() -> tuple[Votes, torch.Tensor]:
    """Ten votes of anybody; a third of the examples is called `1` by two in five, else `2`."""
    rng = np.random.default_rng(0)
    truth = rng.integers(0, 3, 600)
    unclear = (truth == 2) & (rng.random(600) < 0.6)
    shares = 0.9 * np.eye(3)[truth] + 0.1 / 3
    shares[truth == 1] = (0.05, 0.55, 0.4)
    shares[unclear] = (0.05, 0.35, 0.6)
    said = (rng.random((600, 10, 1)) > shares.cumsum(1)[:, None]).sum(2)
    return Votes(table=torch.tensor(said), annotators=tuple("abcdefghij")), torch.tensor(truth)


def test_an_ambiguous_class_draws_few_examples_of_another(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    votes, truth = ambiguous()
    search_once(known_of(votes, 3), monkeypatch)
    crowd = fit_crowd(votes, 3)
    monkeypatch.setattr(annotators, "_agreeing", lambda _, best: best)
    found = crowd.consensus, fit_crowd(votes, 3).consensus, majority(votes, 3)
    ours, drawn, plain = ((labels == truth).double().mean() for labels in found)
    assert crowd.knobs.even
    assert ours > drawn + 0.05
    assert ours > plain - 0.03
