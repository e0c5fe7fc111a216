"""How well a crowd's fit predicts votes that were hidden from it.

A fit with few votes a person can explain every vote it has seen, also where its matrices are
chance. So some votes are hidden, the rest is fitted, and the hidden ones are predicted from the
true class as it was found, through their annotators' matrices.

Shapes: N examples, C classes, H hidden votes.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from labelproof.data.votes import LongVotes
from labelproof.judging.crowd_em import Crowd, Known, normalised
from labelproof.judging.joint_votes import ballots, of_further

SHARE = 5  # one of so many votes is hidden at a time
ENOUGH = 2000  # hidden votes, or all, that a choice needs


@dataclass(frozen=True, kw_only=True)
class Split:
    """Votes to fit, and votes to predict."""

    shown: Known
    hidden: LongVotes

    def predict(self, crowd: Crowd, *, follow: bool) -> Tensor:
        """Log-probability (H,) of the hidden votes by what was fitted to the others.

        With `follow` they also follow the other votes on their example, as far as these are
        correlated. That says nothing of how far they are: it predicts votes without any class.
        """
        votes = self.hidden
        logs = crowd.confusion[votes.who, :, votes.label].clamp_min(1e-12).log()
        if follow:
            logs = of_further(self.shown.cast, votes, logs, crowd.knobs.correlation)
        return (crowd.posterior[votes.rows].clamp_min(1e-30).log() + logs).logsumexp(1)

    def agreed(self, labels: Tensor) -> Tensor:
        """How many hidden votes of each example (N,) equal its label (N,)."""
        votes, heard = self.hidden, self.shown.start.new_zeros(len(labels))
        same = (labels[votes.rows] == votes.label).to(heard)
        return heard.index_add_(0, votes.rows, same)


def splits(known: Known) -> tuple[Split, ...]:
    """Enough splits of the votes; the votes of one example are spread evenly over them."""
    votes, size = known.votes, len(known.given)
    number = min(SHARE, math.ceil(ENOUGH * SHARE / max(1, len(votes))))
    first = torch.randint(SHARE, (size,), generator=torch.Generator().manual_seed(0))
    starts = known.given.cumsum(0) - known.given
    place = torch.arange(len(votes)) - starts[votes.rows]  # of a vote within its example
    turn = (first[votes.rows] + place) % SHARE
    return tuple(
        Split(shown=only(known, turn != k), hidden=_those(votes, turn == k)) for k in range(number)
    )


def only(known: Known, kept: Tensor) -> Known:
    """The same examples with some of the votes (V,)."""
    votes, (size, classes) = _those(known.votes, kept), known.start.shape
    given = votes.rows.bincount(minlength=size)
    counts = known.start.new_zeros(size * classes)
    counts.index_add_(0, votes.rows * classes + votes.label, counts.new_ones(len(votes)))
    shares = torch.where(given[:, None] > 0, counts.view(size, classes), 1.0)
    return replace(
        known,
        votes=votes,
        start=normalised(shares),
        given=given,
        cast=ballots(votes, given, classes),
    )


def _those(votes: LongVotes, kept: Tensor) -> LongVotes:
    return LongVotes(rows=votes.rows[kept], who=votes.who[kept], label=votes.label[kept])
