"""Parts of the EM of annotators and classifier, by hand and against scipy."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from scipy.optimize import brentq, minimize_scalar
from scipy.special import expit, logit, softmax

from labelproof.data.votes import Votes
from labelproof.judging import crowd_em
from labelproof.judging.annotators import fit_checked
from labelproof.judging.crowd_em import Knobs, agreeing_scale, em, expected_counts, known_of

pytestmark = pytest.mark.whole  # knobs are looked for as long as for users

TABLE = torch.tensor([[0, 0], [1, -1], [0, 1], [1, 1], [-1, 0]])
VOTES = Votes(table=TABLE, annotators=("a", "b"))
POSTERIOR = torch.tensor([[0.9, 0.1], [0.2, 0.8], [0.5, 0.5], [0.0, 1.0], [0.7, 0.3]]).double()


def test_votes_are_counted_by_the_posterior_of_their_example() -> None:
    counts = expected_counts(VOTES.long(), POSTERIOR, 2)
    # the first said 0 of the examples 0 and 2, and 1 of the examples 1 and 3
    assert counts[0].tolist() == [pytest.approx([1.4, 0.2]), pytest.approx([0.6, 1.8])]
    assert counts[1].tolist() == [pytest.approx([1.6, 0.5]), pytest.approx([0.4, 1.5])]


def test_an_example_is_judged_by_counts_without_it() -> None:
    counts = expected_counts(VOTES.long(), POSTERIOR, 2) + 1
    logs = crowd_em.vote_logs(VOTES.long(), counts, POSTERIOR)
    whole = crowd_em.vote_logs(VOTES.long(), counts, None)
    # the first vote is a's, of class 0: 2.4 of 3.6 and 1.6 of 4.4, without 0.9 and 0.1
    assert logs[0].exp().tolist() == pytest.approx([1.5 / 2.7, 1.5 / 4.3])
    assert whole[0].exp().tolist() == pytest.approx([2.4 / 3.6, 1.6 / 4.4])


def test_even_votes_count_by_how_often_their_annotator_is_right() -> None:
    counts = expected_counts(VOTES.long(), POSTERIOR, 2)
    logs = crowd_em.even_logs(VOTES.long(), counts, POSTERIOR, 3.0)
    # a is right in 1.4 + 1.8 of 4 votes, b in 1.6 + 1.5 of 4; the first vote is a's, right by 0.9
    everybody = (3.2 + 3.1 + 1) / (8 + 2)
    right = (3.2 - 0.9 + 6 * everybody) / (4 - 1 + 6)
    assert logs[0].exp().tolist() == pytest.approx([right, 1 - right])
    assert logs.exp().sum(1).tolist() == pytest.approx([1.0] * len(logs))


def test_tempered_scores_give_way_to_the_shares_of_the_classes() -> None:
    scores = torch.randn(5, 2, generator=torch.Generator().manual_seed(0)).double()
    shares = np.log((POSTERIOR.sum(0).numpy() + 1) / 7)
    alone, nothing = crowd_em._prior(known_of(VOTES, 2), POSTERIOR, 1.0, 0.4)
    assert alone.numpy() == pytest.approx(shares[None])
    assert nothing == 0.0
    for temper in (1.0, 0.4):
        known = known_of(VOTES, 2, scores)
        prior, scale = crowd_em._prior(known, POSTERIOR, 1.0, temper)
        sure = np.log(softmax(scale * scores.numpy(), axis=1))
        assert prior.numpy() == pytest.approx(temper * sure + (1 - temper) * shares)


def test_the_scale_has_a_prior_where_one_is_usual() -> None:
    rng = np.random.default_rng(0)
    scores, target = rng.normal(size=(12, 3)), softmax(2 * rng.normal(size=(12, 3)), axis=1)

    def loss(log_scale: float, usual: float) -> float:
        said = np.log(softmax(np.exp(log_scale) * scores, axis=1))
        return -(target * said).sum(1).mean() + (log_scale - np.log(usual)) ** 2 / 24

    for usual in (0.3, 3.0):
        found = agreeing_scale(torch.tensor(scores), torch.tensor(target), 1.0, usual)
        best = minimize_scalar(loss, (-1, 1), args=(usual,)).x
        assert np.log(found) == pytest.approx(best, abs=1e-3)


def test_a_matrix_has_the_annotators_own_rate_and_everybodys_errors() -> None:
    pooled = torch.tensor([[0.8, 0.15, 0.05], [0.1, 0.7, 0.2], [0.2, 0.2, 0.6]]).double()
    counts = torch.tensor([[[9.0, 1.0, 0.0], [2.0, 5.0, 1.0], [0.0, 0.0, 3.0]]]).double()
    found = crowd_em.own_rate(counts, pooled)[0].numpy()
    right, total = logit(np.diag(pooled)), counts[0].sum(1).numpy()
    # where the slope of the likelihood of 17 right votes, and of a N(0, 1) prior, is 0
    shift = brentq(lambda s: 17 - (total * expit(right + s)).sum() - s, -8, 8)
    assert np.diag(found) == pytest.approx(expit(right + shift), abs=1e-6)
    assert found.sum(1) == pytest.approx(1)
    # wrong votes for 1 and 2 of a true 0: one of each by habit, and three times the pooled ones
    assert found[0, 1] / found[0, 2] == pytest.approx((1 + 0.45) / (1 + 0.15))


def test_em_ends_where_another_step_changes_nothing() -> None:
    rng = np.random.default_rng(0)
    truth = rng.integers(0, 3, 300)
    said = np.where(rng.random((300, 4)) < 0.7, truth[:, None], rng.integers(0, 3, (300, 4)))
    crowd = em(
        known_of(Votes(table=torch.tensor(said), annotators=tuple("abcd")), 3), Knobs(strength=None)
    )
    posterior = crowd.posterior.numpy()
    step = np.tile(np.log((posterior.sum(0) + 1) / 303), (300, 1))
    for who in range(4):
        counts = np.stack([posterior[said[:, who] == v].sum(0) for v in range(3)], 1)
        counts += np.eye(3) + 0.1  # pseudo-votes
        matrix = counts / counts.sum(1, keepdims=True)
        assert crowd.confusion[who].numpy() == pytest.approx(matrix, abs=1e-3)
        step += np.log(matrix)[:, said[:, who]].T
    assert softmax(step, axis=1) == pytest.approx(posterior, abs=2e-3)


def test_the_first_class_can_be_told_too() -> None:
    told = torch.tensor([-1, 0, -1, -1, -1])
    crowd = fit_checked(VOTES, 2, told=told)
    assert crowd.posterior[1].tolist() == [1.0, 0.0]
    assert crowd.untold is not None
    assert crowd.untold.posterior[1, 1] > 0.5
    assert fit_checked(VOTES, 2, told=torch.full((5,), -1)).untold is None
