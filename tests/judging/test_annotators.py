"""Consensus of several annotators, against crowd-kit, cleanlab and known matrices."""

from __future__ import annotations

from functools import cache

import numpy as np
import pandas as pd
import pytest
import torch

from labelproof.data.votes import Votes, majority, outvoted, tied, vote_shares
from labelproof.judging import annotators
from labelproof.judging.agreement import (
    alpha_interval,
    annotator_quality,
    doubt,
    krippendorff_alpha,
    label_quality,
    most_confused,
)
from labelproof.judging.annotators import fit_checked, fit_crowd
from labelproof.judging.crowd_em import Crowd, Knobs, agreeing_scale, em, known_of
from labelproof.judging.vote_labels import labels_from_votes

pytestmark = pytest.mark.whole  # knobs are looked for as long as for users


def crowd_of(
    seed: int, *, size: int = 1500, people: int = 12, each: int = 4, classes: int = 4
) -> tuple[Votes, torch.Tensor, torch.Tensor, torch.Tensor]:
    """Votes of annotators with known matrices, the truth, scores of a fair classifier."""
    rng = np.random.default_rng(seed)
    truth = rng.integers(0, classes, size)
    matrices = np.stack([_matrix(rng, classes, rng.uniform(0.5, 0.95)) for _ in range(people)])
    table = np.full((size, people), -1)
    for row in range(size):
        for who in rng.permutation(people)[:each]:
            table[row, who] = rng.choice(classes, p=matrices[who, truth[row]])
    scores = rng.normal(size=(size, classes))
    scores[np.arange(size), truth] += 1.5
    votes = Votes(table=torch.tensor(table), annotators=tuple(f"p{i}" for i in range(people)))
    return votes, torch.tensor(truth), torch.tensor(scores), torch.tensor(matrices)


def _matrix(rng: np.random.Generator, classes: int, right: float) -> np.ndarray:
    wrong = rng.dirichlet(np.ones(classes), size=classes)
    np.fill_diagonal(wrong, 0)
    return wrong / wrong.sum(1, keepdims=True) * (1 - right) + right * np.eye(classes)


def _accuracy(found: torch.Tensor, truth: torch.Tensor) -> float:
    return (found == truth).double().mean().item()


def test_majority_and_its_ties() -> None:
    table = torch.tensor([[2, 2, 1], [1, 0, -1], [-1, -1, -1], [2, 1, 0]])
    votes = Votes(table=table, annotators=("a", "b", "c"))
    assert majority(votes, 3).tolist() == [2, 0, 1, 0]  # the lowest code; the commonest for nobody
    assert tied(votes, 3).tolist() == [False, True, True, True]
    likely = torch.tensor([[1.0, 0, 0], [0.4, 0.6, 0], [0, 0, 1.0], [0.1, 0.2, 0.7]])
    assert majority(votes, 3, likely).tolist() == [2, 1, 1, 2]  # a clear majority stays
    assert outvoted(votes, torch.tensor([1, 1, 0, 2]), 3).tolist() == [True, False, False, False]
    assert vote_shares(votes, 3)[2].tolist() == pytest.approx([1 / 3] * 3)


def test_dawid_skene_as_crowd_kit_has_it() -> None:
    crowdkit = pytest.importorskip("crowdkit.aggregation")
    votes, truth, _, _ = crowd_of(0)
    long = votes.long()
    columns = {"task": long.rows, "worker": long.who, "label": long.label}
    frame = pd.DataFrame({name: values.numpy() for name, values in columns.items()})
    theirs = crowdkit.DawidSkene(n_iter=100).fit_predict_proba(frame).sort_index()[[0, 1, 2, 3]]
    ours = em(known_of(votes, 4), Knobs(strength=None))
    same = ours.consensus.numpy() == theirs.to_numpy().argmax(1)
    assert same.mean() > 0.99  # ours has a little smoothing
    assert np.abs(ours.posterior.numpy() - theirs.to_numpy()).mean() < 0.01
    assert _accuracy(ours.consensus, truth) > _accuracy(majority(votes, 4), truth) + 0.02


def test_matrices_are_found_again() -> None:
    votes, _, scores, matrices = crowd_of(1, size=4000, people=8)
    crowd = fit_crowd(votes, 4, scores)
    assert (crowd.confusion - matrices).abs().mean() < 0.025
    assert torch.allclose(crowd.confusion.sum(2), torch.ones(8, 4).double())
    assert torch.allclose(crowd.posterior.sum(1), torch.ones(4000).double())


def test_classifier_and_annotators_together_are_better_than_either() -> None:
    votes, truth, scores, _ = crowd_of(2, each=3)
    alone = fit_crowd(votes, 4)
    both = fit_crowd(votes, 4, scores)
    assert alone.scale == 0
    assert 0.5 < both.scale < 2  # the scores are right by construction but for their scale
    assert _accuracy(both.consensus, truth) > _accuracy(alone.consensus, truth) + 0.01
    assert _accuracy(both.consensus, truth) > _accuracy(scores.argmax(1), truth) + 0.05
    sure = both.posterior.max(1).values.mean().item()
    assert abs(sure - _accuracy(both.consensus, truth)) < 0.02  # and it knows how good it is


def test_no_worse_than_cleanlab_on_crowds_of_many_shapes() -> None:
    multiannotator = pytest.importorskip("cleanlab.multiannotator")
    shapes = ({"people": 2, "each": 2}, {"people": 200, "each": 3}, {"people": 5, "each": 5})
    for seed, shape in enumerate(shapes):
        votes, truth, scores, _ = crowd_of(seed, **shape)
        table = votes.table.double().numpy()
        table[table < 0] = np.nan
        told = multiannotator.get_label_quality_multiannotator(
            table, scores.softmax(1).numpy(), verbose=False
        )
        theirs = torch.tensor(told["label_quality"]["consensus_label"].to_numpy())
        ours = fit_crowd(votes, 4, scores).consensus
        assert _accuracy(ours, truth) >= _accuracy(theirs, truth)


def test_spammers_and_adversaries_are_seen_through() -> None:
    votes, truth, scores, _ = crowd_of(5, people=20, each=5)
    table = votes.table.clone()
    rng = torch.Generator().manual_seed(0)
    spam = torch.randint(0, 4, table.shape, generator=rng)
    table[:, :6] = torch.where(table[:, :6] < 0, -1, spam[:, :6])
    table[:, 6:9] = torch.where(table[:, 6:9] < 0, -1, ((truth + 1) % 4)[:, None])
    bad = Votes(table=table, annotators=votes.annotators)
    crowd = fit_crowd(bad, 4, scores)
    assert _accuracy(crowd.consensus, truth) > _accuracy(majority(bad, 4), truth) + 0.1
    found = annotator_quality(bad, crowd)
    assert found.quality[:6].max() < 0.45
    assert found.quality[6:9].max() < 0.15
    worst = most_confused(bad, crowd, most=1)[0]
    assert worst.annotator in votes.annotators[6:9]
    assert worst.said == (worst.true + 1) % 4


def test_intervals_of_quality_hold() -> None:
    inside, total = 0, 0
    for seed in range(4):
        votes, truth, scores, _ = crowd_of(seed, size=800, people=15, each=4)
        found = annotator_quality(votes, fit_crowd(votes, 4, scores))
        long = votes.long()
        for who in range(15):
            mine = long.who == who
            real = (long.label[mine] == truth[long.rows[mine]]).double().mean()
            inside += bool(found.low[who] <= real <= found.high[who])
            total += 1
    assert inside / total > 0.9


def test_quality_of_a_label_is_its_posterior() -> None:
    votes, _, scores, _ = crowd_of(6, size=200)
    crowd = fit_crowd(votes, 4, scores)
    quality = label_quality(votes, crowd)
    assert quality.isnan().equal(votes.table < 0)
    row, who = (votes.table >= 0).nonzero()[0].tolist()
    assert quality[row, who] == crowd.posterior[row, votes.table[row, who]]


def test_one_vote_each_still_gives_an_answer() -> None:
    votes, truth, scores, _ = crowd_of(7, people=3, each=1)
    crowd = fit_crowd(votes, 4, scores)
    assert crowd.knobs.correlation == 0
    assert _accuracy(crowd.consensus, truth) >= _accuracy(majority(votes, 4), truth)


def test_the_scale_of_scores_is_found_again() -> None:
    scores = torch.randn(500, 5, generator=torch.Generator().manual_seed(0)).double()
    assert agreeing_scale(scores, (2.7 * scores).softmax(1), 1.0) == pytest.approx(2.7, rel=1e-4)


def test_a_usual_scale_holds_where_examples_are_few() -> None:
    """Sure answers on separable scores would have the scale grow without end."""
    scores = torch.randn(60, 3, generator=torch.Generator().manual_seed(0)).double()
    sure = torch.eye(3).double()[scores.argmax(1)]
    assert agreeing_scale(scores, sure, 1.0) > 50
    assert agreeing_scale(scores, sure, 1.0, usual=1.0) < 20
    many = scores.repeat(200, 1)
    soft = (2.7 * many).softmax(1)
    assert agreeing_scale(many, soft, 1.0, usual=1.0) == pytest.approx(2.7, rel=1e-3)


def test_matrices_are_pulled_together_as_far_as_annotators_are_alike() -> None:
    rng = np.random.default_rng(0)
    truth = rng.integers(0, 3, 900)
    alike = np.where(rng.random((900, 6)) < 0.7, truth[:, None], rng.integers(0, 3, (900, 6)))
    names = tuple("abcdef")
    strict = fit_crowd(Votes(table=torch.tensor(alike), annotators=names), 3).knobs.strength
    apart, _, _, _ = crowd_of(9, size=900, people=6, each=6, classes=3)
    assert fit_crowd(apart, 3).knobs.strength < strict


def test_a_part_of_many_votes_chooses_as_all_of_them_do(monkeypatch: pytest.MonkeyPatch) -> None:
    votes, truth, scores, _ = crowd_of(13, size=3000, people=30, each=4)
    told = torch.where(torch.arange(3000) < 50, truth, -1)
    whole = fit_crowd(votes, 4, scores, told)
    monkeypatch.setattr(annotators, "MOST", 4000)
    part = fit_crowd(votes, 4, scores, told)
    assert part.posterior.shape == (3000, 4)
    assert (part.consensus == whole.consensus).double().mean() > 0.98
    assert part.posterior[:50].max(1).values.min() == 1


def test_a_rare_class_stays_rare() -> None:
    """Annotators who always say one class must not make it a common one."""
    rng = np.random.default_rng(0)
    truth = rng.choice(3, 1500, p=[0.8, 0.17, 0.03])
    votes = np.where(rng.random((1500, 8)) < 0.75, truth[:, None], rng.integers(0, 3, (1500, 8)))
    votes[:, 6:] = 2
    votes[rng.random(votes.shape) < 0.3] = -1
    votes[(votes < 0).all(1), 0] = 0
    crowd = fit_crowd(Votes(table=torch.tensor(votes), annotators=tuple("abcdefgh")), 3)
    assert (crowd.consensus == 2).double().mean() < 0.06
    assert _accuracy(crowd.consensus, torch.tensor(truth)) > 0.95


def test_shared_errors_make_the_consensus_less_sure() -> None:
    """Where votes and classifier err on the same examples, the posterior must not double-count."""
    rng = np.random.default_rng(1)
    truth, lure = rng.integers(0, 4, 3000), rng.integers(0, 4, 3000)
    seems = np.where(rng.random(3000) < 0.15, lure, truth)  # what everybody sees
    table = np.where(rng.random((3000, 3)) < 0.85, seems[:, None], rng.integers(0, 4, (3000, 3)))
    hard = (seems != truth)[:, None] & (rng.random((3000, 3)) < 0.5)
    table = np.where(hard, truth[:, None], table)
    scores = rng.normal(size=(3000, 4))
    scores[np.arange(3000), seems] += 1.5
    votes = Votes(table=torch.tensor(table), annotators=("a", "b", "c"))
    crowd = fit_crowd(votes, 4, torch.tensor(scores))
    assert crowd.knobs.temper < 1 or crowd.knobs.correlation > 0
    sure = crowd.posterior.max(1).values.mean().item()
    assert abs(sure - _accuracy(crowd.consensus, torch.tensor(truth))) < 0.05


def lured(
    seed: int, *, size: int, people: int, each: int, skill: tuple[float, float], follow: float
) -> tuple[Votes, torch.Tensor, torch.Tensor]:
    """People of different skill who often fall for the same wrong class of an example."""
    rng = np.random.default_rng(seed)
    truth, lure = rng.integers(0, 5, size), rng.integers(0, 5, size)
    hard = rng.normal(size=(size, 1))
    skilled = rng.uniform(*skill, people)
    right = rng.random((size, people)) < 1 / (1 + np.exp(hard - np.log(skilled / (1 - skilled))))
    chance = rng.integers(0, 5, (size, people))
    said = np.where(rng.random((size, people)) < follow, lure[:, None], chance)
    table = np.where(right, truth[:, None], said)
    off = rng.random((size, people)).argsort(1) >= each
    scores = rng.normal(size=(size, 5)) - 0.3 * hard * np.eye(5)[truth]
    scores[np.arange(size), truth] += 2
    names = tuple(f"p{i}" for i in range(people))
    table = torch.tensor(np.where(off, -1, table))
    return Votes(table=table, annotators=names), torch.tensor(truth), torch.tensor(scores)


def test_many_weak_votes_do_not_shout_the_classifier_down() -> None:
    """The classifier tells how far votes go together; the votes alone would count all of them."""
    votes, truth, scores = lured(0, size=1500, people=60, each=20, skill=(0.2, 0.6), follow=0.5)
    crowd = fit_crowd(votes, 5, scores)
    assert crowd.knobs.correlation > 0.02
    free = em(known_of(votes, 5, scores), Knobs())
    assert _accuracy(crowd.consensus, truth) > _accuracy(free.consensus, truth) + 0.01
    sure = crowd.posterior.max(1).values.mean().item()  # too sure: these follow each other more
    assert abs(sure - _accuracy(crowd.consensus, truth)) < 0.05


@pytest.mark.parametrize(("size", "seeds"), [(2000, 3), (10_000, 1)])
def test_intervals_of_quality_hold_where_errors_are_shared(size: int, seeds: int) -> None:
    """More labels do not make surer of what no vote can tell."""
    inside = []
    for seed in range(seeds):
        votes, truth, scores = lured(
            seed, size=size, people=3, each=3, skill=(0.7, 0.9), follow=0.5
        )
        found = annotator_quality(votes, fit_crowd(votes, 5, scores))
        real = (votes.table == truth[:, None]).double().mean(0)
        inside += ((found.low <= real) & (real <= found.high)).tolist()
        assert (found.high - found.low).max() < 0.17
    assert sum(inside) >= 3 * seeds - 1


@cache
def unchecked() -> tuple[Votes, torch.Tensor, torch.Tensor, Crowd]:
    """People who share errors, and what follows before anything is checked."""
    made = lured(1, size=2000, people=10, each=2, skill=(0.6, 0.9), follow=0.5)
    votes, _, scores = made
    return *made, fit_crowd(votes, 5, scores)


@pytest.mark.parametrize("doubtful", [True, False])
def test_checks_do_not_count_as_disagreement(doubtful: bool) -> None:
    """What a person tells is knowledge: annotators' intervals do not widen by it."""
    votes, truth, scores, before = unchecked()
    checked = before.posterior.max(1).values.argsort()[:300] if doubtful else torch.arange(300)
    told = torch.full((2000,), -1)
    told[checked] = truth[checked]
    after = fit_checked(votes, 5, scores, told)
    assert doubt(votes, after) <= doubt(votes, before)
    widths = [
        (q.high - q.low).mean() for q in (annotator_quality(votes, c) for c in (before, after))
    ]
    assert widths[1] <= widths[0] * (1.0 if doubtful else 1.01)  # a rate nearer 1/2 spreads more


def test_an_annotator_does_not_confirm_themselves() -> None:
    """One label of one person says nothing of that person beyond what others say."""
    votes, truth, scores, _ = crowd_of(11, size=1000, people=1000, each=1)
    table = votes.table.clone()
    table[:, :3] = truth[:, None]  # three people who are always right
    crowd = fit_crowd(Votes(table=table, annotators=votes.annotators), 4, scores)
    assert _accuracy(crowd.consensus, truth) > 0.99


def test_what_is_told_for_sure_stays_and_teaches() -> None:
    rng = np.random.default_rng(0)
    truth = rng.integers(0, 4, 600)
    table = np.where(rng.random((600, 5)) < 0.9, truth[:, None], rng.integers(0, 4, (600, 5)))
    table[:, :3] = ((truth + 1) % 4)[:, None]  # three of five are wrong in the same way
    votes = Votes(table=torch.tensor(table), annotators=tuple("abcde"))
    told = torch.full((600,), -1)
    told[:200] = torch.tensor(truth[:200])
    crowd = fit_crowd(votes, 4, told=told)
    assert crowd.posterior[:200].max(1).values.min() == 1
    assert _accuracy(fit_crowd(votes, 4).consensus, torch.tensor(truth)) < 0.1
    assert _accuracy(crowd.consensus, torch.tensor(truth)) > 0.9


def test_alpha_in_closed_form_and_as_the_package_has_it() -> None:
    # Krippendorff's own example of nominal data with blanks: alpha = 0.743 (2011, section C)
    rows = [
        [1, 2, 3, 3, 2, 1, 4, 1, 2, -1, -1, -1],
        [1, 2, 3, 3, 2, 2, 4, 1, 2, 5, -1, 3],
        [-1, 3, 3, 3, 2, 3, 4, 2, 2, 5, 1, -1],
        [1, 2, 3, 3, 2, 4, 4, 1, 2, 5, 1, -1],
    ]
    table = torch.tensor(rows).T.contiguous()
    votes = Votes(table=table, annotators=("a", "b", "c", "d"))
    alpha = krippendorff_alpha(votes, 6)
    assert alpha == pytest.approx(0.743, abs=5e-4)
    low, high = alpha_interval(votes, 6) or (0.0, 0.0)
    assert low < alpha < high
    package = pytest.importorskip("krippendorff")
    data = np.where(table.T < 0, np.nan, table.T.double().numpy())
    theirs = package.alpha(reliability_data=data, level_of_measurement="nominal")
    assert alpha == pytest.approx(theirs, abs=1e-12)


def test_alpha_of_perfect_chance_and_no_overlap() -> None:
    same = torch.tensor([[0, 0], [1, 1], [2, 2]])
    assert krippendorff_alpha(Votes(table=same, annotators=("a", "b")), 3) == 1.0
    apart = torch.tensor([[0, -1], [-1, 1]])
    assert krippendorff_alpha(Votes(table=apart, annotators=("a", "b")), 3) is None
    one_class = torch.zeros(3, 2, dtype=torch.long)
    assert krippendorff_alpha(Votes(table=one_class, annotators=("a", "b")), 3) is None
    rng = torch.Generator().manual_seed(0)
    random = torch.randint(0, 3, (20_000, 2), generator=rng)
    alpha = krippendorff_alpha(Votes(table=random, annotators=("a", "b")), 3)
    assert abs(alpha or 1) < 0.02


def test_held_out_votes_choose_between_majority_and_consensus() -> None:
    votes, truth, _, _ = crowd_of(8, people=6, each=4)
    chosen = labels_from_votes(votes, 4)
    assert chosen.how == "consensus"
    assert _accuracy(chosen.labels, truth) > _accuracy(majority(votes, 4), truth)
    rng = np.random.default_rng(0)
    alike = np.where(rng.random((300, 3)) < 0.8, truth[:300, None], rng.integers(0, 4, (300, 3)))
    single = Votes(table=votes.table[:, :1].clamp_min(0), annotators=("a",))
    assert labels_from_votes(single, 4).how == "majority"
    same = labels_from_votes(Votes(table=torch.tensor(alike), annotators=("a", "b", "c")), 4)
    assert "log-probability" in same.why
