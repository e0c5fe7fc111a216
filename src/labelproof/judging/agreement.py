"""How good annotators and their labels are, and how far annotators agree.

Shapes: N examples, A annotators, C classes, V votes.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from scipy.special import betaincinv
from torch import Tensor

from labelproof.data.votes import BLANK, Votes, vote_counts
from labelproof.judging.annotators import independent
from labelproof.judging.crowd_em import Crowd, expected_counts

CONFIDENCE = 0.95


@dataclass(frozen=True, kw_only=True)
class AnnotatorQuality:
    """Of each annotator (A,): how often they are right, and how sure that is."""

    labels: Tensor  # how many labels they gave
    quality: Tensor  # estimated share of right labels
    low: Tensor  # 95% interval of it; NaN where none can be stated
    high: Tensor
    agreement: Tensor  # how often another annotator of the same example says the same


def annotator_quality(votes: Votes, crowd: Crowd, *, trusted: bool = True) -> AnnotatorQuality:
    """Quality with a 95% interval that knows of few labels and of an unsure consensus.

    The quality has a Beta distribution: Jeffreys' prior, the expected number of right labels, the
    variance that comes from not knowing which labels are right, and what `doubt` says of all
    annotators. Where the consensus cannot be trusted, no interval is stated.
    """
    long, people = votes.long(), len(votes.annotators)
    right = label_quality(votes, crowd)[long.rows, long.who]
    zeros = torch.zeros(people, dtype=torch.float64)
    labels = zeros.index_add(0, long.who, torch.ones_like(right))
    hits = zeros.index_add(0, long.who, right)
    unsure = zeros.index_add(0, long.who, right * (1 - right))
    mean = (hits + 0.5) / (labels + 1)
    variance = mean * (1 - mean) / (labels + 2) + unsure / (labels + 1).square()
    variance = variance + (doubt(votes, crowd) * mean * (1 - mean)).square()
    low, high = beta_interval(mean, variance)
    unknown = torch.full_like(mean, torch.nan)
    return AnnotatorQuality(
        labels=labels.long(),
        quality=mean,
        low=low if trusted else unknown,
        high=high if trusted else unknown,
        agreement=agreement_with_others(votes, crowd.posterior.shape[1]),
    )


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


def doubt(votes: Votes, crowd: Crowd) -> float:
    """How far the quality of all annotators may be off together, a standard deviation in logits.

    Errors that annotators share look like agreement, and nothing in the votes tells them. So the
    share of right labels is also found as if annotators never shared an error, without the model.
    How far that is from the consensus' answer shows how much hangs on what is assumed. What a
    person told is known in both, and is no reason for more doubt than there was before.
    """
    fits = (crowd,) if crowd.untold is None else (crowd, crowd.untold)
    return min(_hangs_on(votes, one) for one in fits)


def _hangs_on(votes: Votes, crowd: Crowd) -> float:
    """The distance in logits of the shares of right labels, with and without shared errors."""
    alone, long = independent(votes, crowd).posterior, votes.long()
    if crowd.told is not None:
        alone = torch.where(crowd.told[:, None] >= 0, crowd.posterior, alone)
    answers = (crowd.posterior, alone)
    found = torch.stack([said[long.rows, long.label].mean() for said in answers])
    return found.logit(eps=1e-4).diff().abs().item()


def beta_interval(mean: Tensor, variance: Tensor) -> tuple[Tensor, Tensor]:
    """Ends of the 95% interval of Beta distributions with this mean and variance."""
    size = (mean * (1 - mean) / variance - 1).clamp_min(0.1).numpy()
    first, second = mean.numpy() * size, (1 - mean.numpy()) * size
    tail = (1 - CONFIDENCE) / 2
    ends = [betaincinv(first, second, share) for share in (tail, 1 - tail)]
    return torch.from_numpy(ends[0]), torch.from_numpy(ends[1])


def label_quality(votes: Votes, crowd: Crowd) -> Tensor:
    """Probability that each single label is right, (N, A); NaN where there is none."""
    known = votes.table.clamp_min(0)
    return crowd.posterior.gather(1, known).masked_fill(votes.table == BLANK, torch.nan)


@dataclass(frozen=True, kw_only=True)
class Confused:
    """One annotator saying one class for another."""

    annotator: str
    true: int
    said: int
    times: float  # expected number of such labels
    share: float  # of the annotator's labels of the true class


def most_confused(votes: Votes, crowd: Crowd, most: int = 20) -> list[Confused]:
    """Who confuses what with what, by the expected number of such labels."""
    counts = expected_counts(votes.long(), crowd.posterior, len(votes.annotators))
    classes = counts.shape[1]
    wrong = counts.masked_fill(torch.eye(classes, dtype=torch.bool), 0.0)
    top = wrong.flatten().topk(min(most, wrong.numel()))
    found = []
    for times, place in zip(top.values.tolist(), top.indices.tolist(), strict=True):
        who, rest = divmod(place, classes * classes)
        true, said = divmod(rest, classes)
        if times < 0.5:
            break
        share = times / counts[who, true].sum().item()
        name = votes.annotators[who]
        found.append(Confused(annotator=name, true=true, said=said, times=times, share=share))
    return found


def krippendorff_alpha(votes: Votes, classes: int) -> float | None:
    """Krippendorff's alpha for nominal data: 1 is full agreement, 0 is chance.

    alpha = 1 - D_o / D_e over pairs of labels of the same example (Krippendorff 2011,
    repository.upenn.edu/handle/20.500.14332/2089). None where no example has two labels or all
    labels are the same class, since chance then says nothing.
    """
    counts = vote_counts(votes, classes)
    return _alpha(counts[counts.sum(1) > 1])


def reliability(votes: Votes, classes: int) -> float:
    """How far votes alone settle the class of an example, 0 to 1; 0 where that is unknown.

    The agreement of means of k votes, from the agreement alpha of single ones: k α / (1 + (k - 1)
    α), by Spearman and Brown (1910).
    """
    alpha, each = krippendorff_alpha(votes, classes), votes.given.double().mean().item()
    if alpha is None or alpha <= 0:
        return 0.0
    return each * alpha / (1 + (each - 1) * alpha)


def alpha_interval(
    votes: Votes, classes: int, *, draws: int = 200, seed: int = 0
) -> tuple[float, float] | None:
    """A 95% bootstrap interval of alpha over examples."""
    counts = vote_counts(votes, classes)
    counts = counts[counts.sum(1) > 1]
    if _alpha(counts) is None:
        return None
    rng = torch.Generator().manual_seed(seed)
    size = len(counts)
    values = [_alpha(counts[torch.randint(size, (size,), generator=rng)]) for _ in range(draws)]
    known = [value for value in values if value is not None]
    low, high = np.quantile(known, [(1 - CONFIDENCE) / 2, (1 + CONFIDENCE) / 2])
    return float(low), float(high)


def _alpha(counts: Tensor) -> float | None:
    """Alpha of vote counts (N, C) with two votes or more in every row."""
    each = counts.sum(1)
    total = each.sum()
    if total == 0:
        return None
    same = ((counts * (counts - 1)).sum(1) / (each - 1)).sum()
    observed = 1 - same / total
    by_class = counts.sum(0)
    expected = 1 - (by_class * (by_class - 1)).sum() / (total * (total - 1))
    return None if expected <= 0 else (1 - observed / expected).item()
