"""CROWDLAB's weighted mean of classifier and annotators: a rival of `annotators.fit_crowd`.

After Goh, Tkachenko and Mueller (2022, arxiv.org/abs/2210.06812). Every annotator spreads their
vote: the chosen class gets P, the mean agreement with the consensus, the others share the rest. An
annotator weighs 1 - e_a / e_0: e_a is how often others on the same examples disagree, e_0 the error
of always naming the commonest class. The classifier weighs as much, by its disagreement with the
consensus, times the root of the mean number of votes.

Shapes: N examples, A annotators, C classes, V votes.
"""

from __future__ import annotations

import torch
from torch import Tensor

from labelproof.data.votes import Votes, vote_counts

LEAST = 1e-6  # of a weight or an error


def crowdlab(votes: Votes, probs: Tensor) -> Tensor:
    """Probability of each class, (N, C), from votes and out-of-fold probabilities (N, C)."""
    probs = probs.double()
    first = weighted(votes, probs, _majority(votes, probs))
    return weighted(votes, probs, first.argmax(1))


def weighted(votes: Votes, probs: Tensor, consensus: Tensor) -> Tensor:
    """The weighted mean, with weights that a consensus (N,) decides."""
    classes, long = probs.shape[1], votes.long()
    several = votes.given > 1
    if not several.any():  # nothing to weigh annotators by
        several = votes.given > 0
    error = (consensus[several] != consensus[several].bincount().argmax()).double().mean()
    error = error.clamp_min(LEAST)
    agreeing = _agreement(votes, consensus)[several].mean()
    weight = (1 - (1 - agreement_with_others(votes, classes)) / error).clamp_min(LEAST)
    missed = (probs[several].argmax(1) != consensus[several]).double().mean()
    model = (1 - missed / error).clamp_min(LEAST) * votes.given.double().mean().sqrt()
    other = (1 - agreeing) / (classes - 1)
    spread = torch.full((len(long), classes), other.item(), dtype=torch.float64)
    spread[torch.arange(len(long)), long.label] = agreeing
    total = (model * probs).index_add(0, long.rows, weight[long.who][:, None] * spread)
    return total / total.sum(1, keepdim=True)


def agreement_with_others(votes: Votes, classes: int) -> Tensor:
    """How often another annotator of the same example says the same, (A,); else the mean of all."""
    long, counts = votes.long(), vote_counts(votes, classes)
    people = len(votes.annotators)
    same = torch.zeros(people, dtype=torch.float64)
    pairs = same.clone()
    same.index_add_(0, long.who, counts[long.rows, long.label] - 1)
    pairs.index_add_(0, long.who, (votes.given[long.rows] - 1).double())
    rate = same / pairs.clamp_min(1)
    compared = pairs > 0
    return torch.where(compared, rate, rate[compared].mean() if compared.any() else 1.0)


def _agreement(votes: Votes, consensus: Tensor) -> Tensor:
    """Share of an example's votes for the consensus, (N,)."""
    return (votes.table == consensus[:, None]).sum(1).double() / votes.given.clamp_min(1)


def _majority(votes: Votes, probs: Tensor) -> Tensor:
    """The class with the most votes; the classifier decides between equals."""
    return (vote_counts(votes, probs.shape[1]) + 0.5 * probs).argmax(1)
