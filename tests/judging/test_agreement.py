"""How good annotators are and how far they agree, by hand and against other distributions."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from scipy.stats import beta

from labelproof.data.votes import Votes
from labelproof.judging import agreement
from labelproof.judging.agreement import (
    agreement_with_others,
    alpha_interval,
    annotator_quality,
    most_confused,
    reliability,
)
from labelproof.judging.annotators import fit_checked
from labelproof.judging.crowd_em import Knobs, em, known_of
from labelproof.judging.summary import worth

pytestmark = pytest.mark.whole  # knobs are looked for as long as for users


def test_known_labels_give_annotators_the_interval_of_jeffreys() -> None:
    table = torch.tensor([[0, 0, 1], [1, 1, 1], [2, 0, 2], [0, 0, 0], [1, 2, -1], [2, 2, -1]])
    votes = Votes(table=table, annotators=("a", "b", "c"))
    truth = torch.tensor([0, 1, 2, 0, 1, 2])
    crowd = fit_checked(votes, 3, told=truth)
    found = annotator_quality(votes, crowd)
    right, labels = np.array([6, 4, 3]), np.array([6, 6, 4])
    assert found.labels.tolist() == labels.tolist()
    assert found.quality.tolist() == pytest.approx(((right + 0.5) / (labels + 1)).tolist())
    ends = beta.ppf([[0.025], [0.975]], right + 0.5, labels - right + 0.5)
    assert np.allclose([found.low, found.high], ends, atol=1e-6)
    assert found.agreement.tolist() == pytest.approx([7 / 10, 6 / 10, 5 / 8])
    unknown = annotator_quality(votes, crowd, trusted=False)
    assert unknown.low.isnan().all()
    assert unknown.high.isnan().all()
    confused = most_confused(votes, crowd)
    assert {(one.annotator, one.true, one.said) for one in confused} == {
        ("b", 2, 0),
        ("b", 1, 2),
        ("c", 0, 1),
    }
    assert all((one.times, one.share) == pytest.approx((1.0, 0.5)) for one in confused)


def test_votes_settle_a_class_by_their_agreement_and_their_number() -> None:
    def settled(rows: list[list[int]]) -> float:
        table = torch.tensor(rows)
        return reliability(Votes(table=table, annotators=tuple("abcd"[: table.shape[1]])), 3)

    assert settled([[0, 0], [1, 1], [2, 2]]) == 1.0
    assert settled([[0, 1], [1, 0], [2, 0]]) == 0.0  # less than chance
    assert settled([[0, -1], [-1, 1]]) == 0.0  # nobody to agree with
    # two of four pairs agree; of 8 labels 4, 2 and 2: 1 - D_o / D_e = 1 - 0.5 / (40 / 56) = 0.3
    assert settled([[0, 0], [1, 1], [0, 2], [0, 2]]) == pytest.approx(2 * 0.3 / 1.3)


def test_a_further_vote_is_worth_less_the_more_votes_are_correlated() -> None:
    table = torch.arange(3).repeat(3, 10).T.contiguous()  # three votes on each of thirty
    votes = Votes(table=table, annotators=("a", "b", "c"))
    crowd = em(known_of(votes, 3), Knobs(temper=0.5, correlation=0.25))
    assert worth(votes, crowd) == pytest.approx(0.5 / 1.5)


def test_the_interval_of_alpha_holds_the_middle_95_of_100_draws(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    votes = Votes(table=torch.tensor([[0, 1], [1, 1]]), annotators=("a", "b"))
    values = iter([0.5, *np.random.default_rng(0).permutation(201).tolist()])  # the votes', draws
    monkeypatch.setattr(agreement, "_alpha", lambda _: next(values))
    assert alpha_interval(votes, 2, draws=201) == pytest.approx((5.0, 195.0))


def test_nobody_to_compare_with_is_no_disagreement() -> None:
    votes = Votes(table=torch.tensor([[0, -1], [-1, 1]]), annotators=("a", "b"))
    assert agreement_with_others(votes, 2).tolist() == [1.0, 1.0]
