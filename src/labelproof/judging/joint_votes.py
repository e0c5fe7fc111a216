"""How likely several votes on one example are together, where people err in the same way.

Annotators fall for the same lures, so two equal wrong votes are likelier than chance has it. Given
the true class t, a vote follows an earlier one on its example with a probability that grows with
their number (a Pólya urn): with s = (1 - r) / r for a correlation r, the vote v of annotator a has

    P(v | t, m of n earlier votes are v) = (s π_a[t, v] + m) / (s + n)

All votes together then have a Dirichlet-multinomial distribution. For annotators with different
matrices, π is the geometric mean of those who said the same, so the order of votes does not matter.
Without correlation this is the product of π.

Shapes: N examples, C classes, V votes, P pairs of an example and a class that somebody named.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from labelproof.data.votes import LongVotes


@dataclass(frozen=True, kw_only=True)
class Ballots:
    """Which votes say the same of the same example."""

    rows: Tensor  # (V,) the example of a vote
    given: Tensor  # (N,) votes an example
    pair: Tensor  # (V,) the pair of a vote
    pair_rows: Tensor  # (P,) the example of a pair
    same: Tensor  # (P,) votes of a pair
    keys: Tensor  # (P,) number of a pair, rising


def ballots(votes: LongVotes, given: Tensor, classes: int) -> Ballots:
    """Group votes by example and class."""
    keys, pair = torch.unique(votes.rows * classes + votes.label, return_inverse=True)
    same = torch.bincount(pair, minlength=len(keys)).double()
    return Ballots(
        rows=votes.rows,
        given=given.double(),
        pair=pair,
        pair_rows=keys.div(classes, rounding_mode="floor"),
        same=same,
        keys=keys,
    )


def of_all(cast: Ballots, logs: Tensor, correlation: float) -> Tensor:
    """log P(votes | true class), (N, C), up to a number an example.

    Args:
        cast: who said the same.
        logs: (V, C) log π of every vote for each true class.
        correlation: r, from 0 up to but without 1.
    """
    out = logs.new_zeros(len(cast.given), logs.shape[1])
    if not correlation:
        return out.index_add_(0, cast.rows, logs)
    return out.index_add_(0, cast.pair_rows, _rising(*_means(cast, logs), correlation))


def of_further(cast: Ballots, votes: LongVotes, logs: Tensor, correlation: float) -> Tensor:
    """log P(vote | true class, votes cast on its example) of further votes, (H, C).

    Args:
        cast: the votes before.
        votes: H further ones; they do not know of each other.
        logs: (H, C) log π of each.
        correlation: r.
    """
    if not correlation or not len(cast.keys):
        return logs
    wanted = votes.rows * logs.shape[1] + votes.label
    place = torch.searchsorted(cast.keys, wanted).clamp_max(len(cast.keys) - 1)
    alike = torch.where(cast.keys[place] == wanted, cast.same[place], 0.0)[:, None]
    before, fresh = cast.given[votes.rows][:, None], (1 - correlation) / correlation
    return ((fresh * logs.exp() + alike) / (fresh + before)).log()


def _means(cast: Ballots, logs: Tensor) -> tuple[Tensor, Tensor]:
    """The mean log π (P, C) of those who said the same, and how many they are (P, 1)."""
    total = logs.new_zeros(len(cast.same), logs.shape[1]).index_add_(0, cast.pair, logs)
    same = cast.same[:, None]
    return total / same, same


def _rising(mean: Tensor, same: Tensor, correlation: float) -> Tensor:
    """log of s π (s π + 1) ... (s π + m - 1); 0 where m is 0."""
    base = mean.exp() * (1 - correlation) / correlation
    return torch.lgamma(base + same) - torch.lgamma(base)
