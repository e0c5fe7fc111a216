"""Several labels an example: who said what, and the consensus that needs no model.

Shapes: N examples, A annotators, C classes, V votes given.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

import torch
from torch import Tensor

BLANK = -1  # the code of a vote that was not given


@dataclass(frozen=True, kw_only=True)
class Votes:
    """Every annotator's label of every example; -1 where an annotator gave none."""

    table: Tensor  # (N, A) int64
    annotators: tuple[str, ...]  # A names
    notes: tuple[str, ...] = ()  # what a person should be told about these votes

    @property
    def given(self) -> Tensor:
        """(N,) how many votes each example has."""
        return (self.table != BLANK).sum(1)

    def long(self) -> LongVotes:
        """The same votes as one row a vote, which is much smaller where most cells are blank."""
        rows, who = (self.table != BLANK).nonzero(as_tuple=True)
        return LongVotes(rows=rows, who=who, label=self.table[rows, who])

    def part(self, rows: Tensor) -> Votes:
        """The votes on some of the examples."""
        return Votes(table=self.table[rows], annotators=self.annotators, notes=self.notes)

    def digest(self) -> str:
        """A hash of names and votes."""
        names = "|".join(self.annotators).encode()
        return hashlib.sha256(names + self.table.contiguous().numpy().tobytes()).hexdigest()


@dataclass(frozen=True, kw_only=True)
class LongVotes:
    """Votes as three columns of length V, by example and then by annotator."""

    rows: Tensor
    who: Tensor
    label: Tensor

    def __len__(self) -> int:
        return len(self.rows)


def vote_counts(votes: Votes, classes: int) -> Tensor:
    """How many annotators chose each class, (N, C), in double precision."""
    long = votes.long()
    counts = torch.zeros(len(votes.table) * classes, dtype=torch.float64)
    counts.index_add_(0, long.rows * classes + long.label, torch.ones(len(long)).double())
    return counts.view(-1, classes)


def vote_shares(votes: Votes, classes: int) -> Tensor:
    """Votes as soft targets, (N, C): the share of each class; equal shares where nobody voted."""
    counts = vote_counts(votes, classes)
    total = counts.sum(1, keepdim=True)
    return torch.where(total > 0, counts / total.clamp_min(1), 1 / classes)


def majority(votes: Votes, classes: int, likely: Tensor | None = None) -> Tensor:
    """The class with the most votes, (N,); of tied classes the likeliest one.

    The result depends on neither the order of annotators nor chance. An example without votes gets
    the class with the most votes of all.

    Args:
        votes: who said what.
        classes: C.
        likely: (N, C) probabilities that decide between tied classes; the lowest code where None.
    """
    counts = vote_counts(votes, classes)
    nobody = counts.sum(1) == 0
    most = counts if likely is None else counts + likely.clamp(0, 1) / 2
    return most.argmax(1).masked_fill(nobody, int(counts.sum(0).argmax()))


def outvoted(votes: Votes, labels: Tensor, classes: int) -> Tensor:
    """(N,) bool: examples with another class that has more votes than their label (N,)."""
    counts = vote_counts(votes, classes)
    return counts.gather(1, labels[:, None]).squeeze(1) < counts.max(1).values


def tied(votes: Votes, classes: int) -> Tensor:
    """(N,) bool: examples whose majority the tie rule had to decide."""
    counts = vote_counts(votes, classes)
    return (counts == counts.max(1, keepdim=True).values).sum(1) > 1
