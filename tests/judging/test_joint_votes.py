"""Votes that go together, against the Dirichlet-multinomial distribution and the order of votes."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from scipy.stats import dirichlet_multinomial

from labelproof.data.votes import LongVotes, Votes
from labelproof.judging import joint_votes
from labelproof.judging.joint_votes import Ballots, ballots

TABLE = torch.tensor([[0, 0, 1], [2, 2, 2], [1, -1, 0], [-1, 2, -1]])
VOTES = Votes(table=TABLE, annotators=("a", "b", "c"))


def cast() -> Ballots:
    return ballots(VOTES.long(), VOTES.given, 3)


def logs_of(matrices: torch.Tensor) -> torch.Tensor:
    """log π (V, C) of every vote, from matrices (A, C, C)."""
    long = VOTES.long()
    return matrices.log()[long.who, :, long.label]


def same_for_all() -> torch.Tensor:
    rows = [[0.7, 0.2, 0.1], [0.3, 0.6, 0.1], [0.05, 0.15, 0.8]]
    matrix = torch.tensor(rows, dtype=torch.float64)
    return matrix.expand(3, 3, 3)


@pytest.mark.parametrize("correlation", [0.05, 0.3, 0.6])
def test_equal_annotators_have_a_dirichlet_multinomial_distribution(correlation: float) -> None:
    matrices, fresh = same_for_all(), (1 - correlation) / correlation
    found = joint_votes.of_all(cast(), logs_of(matrices), correlation)
    counts = torch.stack([(k == TABLE).sum(1) for k in range(3)], 1).numpy()
    for row, count in enumerate(counts):
        whole = [
            dirichlet_multinomial.logpmf(count, fresh * pi.numpy(), count.sum())
            for pi in matrices[0]
        ]
        ours = found[row].numpy()
        assert np.allclose(ours - ours[0], np.array(whole) - whole[0])


@pytest.mark.parametrize("correlation", [0.0, 0.2])
def test_votes_cast_and_a_further_one_make_all_of_them(correlation: float) -> None:
    matrices, long = same_for_all(), VOTES.long()
    last = torch.tensor([2, 5, 7])  # a vote of each of the first three examples
    shown = torch.ones(len(long), dtype=torch.bool)
    shown[last] = False
    before = LongVotes(rows=long.rows[shown], who=long.who[shown], label=long.label[shown])
    further = LongVotes(rows=long.rows[last], who=long.who[last], label=long.label[last])
    logs = logs_of(matrices)
    some = ballots(before, before.rows.bincount(minlength=4), 3)
    rest = joint_votes.of_all(some, logs[shown], correlation)
    one = joint_votes.of_further(some, further, logs[last], correlation)
    whole = joint_votes.of_all(cast(), logs, correlation)
    apart = rest[:3] + one - whole[:3]  # a number an example, the same for each class
    assert torch.allclose(apart, apart[:, :1].expand_as(apart))


def test_without_correlation_votes_multiply_and_with_it_equal_ones_are_worth_less() -> None:
    logs = logs_of(same_for_all())
    free, tied = (joint_votes.of_all(cast(), logs, r) for r in (0.0, 0.3))
    assert torch.allclose(free[1], 3 * same_for_all()[0][:, 2].log())
    assert free[1, 2] - free[1, 0] > tied[1, 2] - tied[1, 0] > 0
    near = joint_votes.of_all(cast(), logs, 1e-6)
    assert torch.allclose(near - near[:, :1], free - free[:, :1], atol=1e-4)


def test_the_order_of_annotators_does_not_matter() -> None:
    matrices = torch.rand(3, 3, 3, generator=torch.Generator().manual_seed(0)).double() + 0.1
    matrices = matrices / matrices.sum(2, keepdim=True)
    first = joint_votes.of_all(cast(), logs_of(matrices), 0.2)
    turned = [2, 0, 1]
    other = Votes(table=TABLE[:, turned], annotators=("c", "a", "b"))
    long = other.long()
    logs = matrices[turned].log()[long.who, :, long.label]
    again = joint_votes.of_all(ballots(long, other.given, 3), logs, 0.2)
    assert torch.allclose(first, again)
