"""The health of the data, from vectors, labels and what the model says: pure functions.

Each finding is a list of examples (or classes), a share with a 95% interval, and a score for each
entry. Nothing here uses true labels.

Shapes: N examples, F features, C classes, K neighbours.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import normalize

from labelproof.functional.contrast import nearest
from labelproof.judging.link import entropy
from labelproof.judging.numbers import auroc

NEIGHBOURS = 10
NEAR = 0.13  # of the median distance to the nearest neighbour: closer pairs are near-duplicates
NEAR_PHOTOS = 0.3  # the same for encoded photos: saving one again moves its vector further
FAR = 2.2  # robust standard deviations of the log-distance: farther examples are outliers
FENCE = 1.7  # interquartile ranges above the upper quartile of the distance: these are, too
SPLIT = 4.0  # standard deviations between the halves of a class that may be two
MERGED = 0.25  # mean share of labels that two classes exchange which may be one
EXCHANGED = 0.1  # mean held-out probability of each other that classes that may be one have
APART = 0.6  # AUROC below which held-out models do not tell such classes apart
FEWEST = 20  # examples of a class that is compared with another
SPREAD = 0.75  # of an even spread over the classes, beyond which an example may fit none,
UNUSUAL = 2.0  # if it is so many robust standard deviations above the median
RARE = 0.1  # of an equal share: smaller classes are rare


@dataclass(frozen=True, kw_only=True)
class Neighbours:
    """The nearest other examples by the angle between vectors."""

    index: Tensor  # (N, K)
    distance: Tensor  # (N, K) one minus the cosine


def wilson(share: float, size: int) -> tuple[float, float]:
    """A 95% interval of a share of so many."""
    if not size:
        return 0.0, 1.0
    z, n, p = 1.959964, size, share
    middle = (p + z * z / (2 * n)) / (1 + z * z / n)
    half = z / (1 + z * z / n) * (p * (1 - p) / n + z * z / (4 * n * n)) ** 0.5
    return max(0.0, middle - half), min(1.0, middle + half)


def neighbours(
    vectors: Tensor, others: Tensor | None = None, count: int = NEIGHBOURS
) -> Neighbours:
    """Nearest rows of `others`, or of the vectors themselves without each row's own."""
    unit = normalize(vectors.float(), dim=1)
    target = unit if others is None else normalize(others.float(), dim=1)
    count = max(1, min(count, len(target) - (others is None)))
    own = torch.arange(len(unit)) if others is None else None
    best, index = nearest(unit, target, count, None if own is None else (own, own))
    return Neighbours(index=index, distance=(1 - best).clamp_min_(0))


def near_duplicates(near: Neighbours, limit: float | None = None) -> list[tuple[int, int, float]]:
    """Pairs (first, second, distance) that are nearly the same, the nearest first, each once."""
    limit = near_limit(near) if limit is None else limit
    rows, places = (near.distance <= limit).nonzero(as_tuple=True)
    pairs: dict[tuple[int, int], float] = {}
    for row, place in zip(rows.tolist(), places.tolist(), strict=True):
        other = int(near.index[row, place])
        pairs.setdefault((min(row, other), max(row, other)), near.distance[row, place].item())
    return sorted(((a, b, d) for (a, b), d in pairs.items()), key=lambda pair: pair[2])


def near_limit(near: Neighbours, part: float = NEAR) -> float:
    """How near is nearly the same: a small part of the usual distance to the nearest neighbour."""
    return max(part * near.distance[:, 0].median().item(), 1e-6)


def leaks(test_near: Neighbours, limit: float) -> list[tuple[int, int, float]]:
    """Pairs (test example, training example, distance) that are nearly the same."""
    found = (test_near.distance[:, 0] <= limit).nonzero().squeeze(1)
    nearest, apart = test_near.index[:, 0], test_near.distance[:, 0]
    pairs = [(int(row), int(nearest[row]), apart[row].item()) for row in found]
    return sorted(pairs, key=lambda pair: pair[2])


def outliers(near: Neighbours) -> list[tuple[int, float]]:
    """Examples (index, score) far from all others, the farthest first.

    The score is the mean distance to the neighbours, on a log scale, in robust standard deviations
    above the median. The log scale fits many data sets; where distances spread over decades it is
    too mild, so distances beyond Tukey's upper fence count too.
    """
    mean = near.distance.mean(1).double()
    score = robust_scores(mean.clamp_min(1e-9).log())
    low, high = (float(end) for end in np.quantile(mean.numpy(), [0.25, 0.75]))
    fence = high + FENCE * max(high - low, 1e-9)
    far = ((score > FAR) | (mean > fence)).nonzero().squeeze(1)
    order = far[score[far].argsort(descending=True)]
    return [(int(row), score[row].item()) for row in order]


def robust_scores(values: Tensor) -> Tensor:
    """Distance from the median in units of the scaled median absolute deviation, (N,)."""
    middle = values.median()
    spread = 1.4826 * (values - middle).abs().median()
    return (values - middle) / spread.clamp_min(1e-6)


def spread_around(near: Neighbours, labels: Tensor, classes: int) -> Tensor:
    """How evenly the labels of each example's neighbours are spread over the classes, (N,): 0 to 1.

    One label more is spread over all classes, as few neighbours say little.
    """
    votes = torch.full((len(labels), classes), 1 / classes, dtype=torch.float64)
    ones = torch.ones(near.index.shape, dtype=torch.float64)
    votes.scatter_add_(1, labels[near.index], ones)
    return entropy(votes / votes.sum(1, keepdim=True))


def without_class(spread: Tensor, classes: int) -> list[tuple[int, float]]:
    """Examples (index, spread) that no class fits, those that fit worst first; none of two classes.

    Between two classes, an example that could be either is spread as far as one that is neither.

    Args:
        spread: (N,) how evenly predictions and the neighbours' labels are spread, 0 to 1.
        classes: C.
    """
    if classes < 3:
        return []
    found = ((spread > SPREAD) & (robust_scores(spread) > UNUSUAL)).nonzero().squeeze(1)
    order = found[spread[found].argsort(descending=True, stable=True)]
    return [(int(row), spread[row].item()) for row in order]


def merged_classes(transition: Tensor) -> list[tuple[int, int, float]]:
    """Pairs of classes (first, second, exchange) whose labels are mixed up in both directions."""
    exchange = torch.minimum(transition, transition.T).triu(1)
    rows, columns = (exchange > MERGED).nonzero(as_tuple=True)
    pairs = [(int(a), int(b), exchange[a, b].item()) for a, b in zip(rows, columns, strict=True)]
    return sorted(pairs, key=lambda pair: -pair[2])


def indistinct_classes(log_probs: Tensor, labels: Tensor) -> list[tuple[int, int, float]]:
    """Pairs of classes (first, second, exchange) that held-out models cannot tell apart.

    The examples of each get some probability of the other (on average the exchange, up to 1/2),
    and the odds of the two hardly say which label an example has.

    Args:
        log_probs: (N, C) by models that were not trained on the labels.
        labels: (N,) given labels.
    """
    probs = log_probs.double().softmax(1)
    counts = labels.bincount(minlength=probs.shape[1])
    sums = torch.zeros(probs.shape[1], probs.shape[1], dtype=torch.float64)
    shares = sums.index_add_(0, labels, probs) / counts.clamp_min(1)[:, None]
    exchange = ((shares + shares.T) / 2).triu(1)
    exchange[counts < FEWEST] = 0
    exchange[:, counts < FEWEST] = 0
    found = []
    for a, b in (exchange > EXCHANGED).nonzero().tolist():
        rows = (labels == a) | (labels == b)
        odds = log_probs[rows, a] - log_probs[rows, b]
        if auroc((labels[rows] == a).numpy(), odds.numpy()) < APART:
            found.append((a, b, exchange[a, b].item()))
    return sorted(found, key=lambda pair: -pair[2])


def split_classes(
    vectors: Tensor, labels: Tensor, classes: int, trusted: Tensor | None = None
) -> list[tuple[int, float]]:
    """Classes (class, separation) whose examples fall into two groups far apart.

    The examples of a class are split in two by k-means. The separation is the distance of the
    halves along the line between their centres, over their mean standard deviation along it.

    Args:
        vectors: (N, F).
        labels: (N,) given labels.
        classes: C.
        trusted: (N,) which labels to look at: wrong ones would form a second group. All where None.
    """
    found = []
    for code in range(classes):
        mine = labels == code
        rows = vectors[mine if trusted is None else mine & trusted].float()
        if len(rows) >= 20:
            apart = separation(rows)
            if apart > SPLIT:
                found.append((code, apart))
    return sorted(found, key=lambda one: -one[1])


def separation(rows: Tensor) -> float:
    """Distance of the two halves of some vectors over their spread; 2.65 for one Gaussian."""
    side = halves(rows)
    small = min(side.float().mean().item(), 1 - side.float().mean().item())
    if small < 0.1:  # a few outliers are no second class
        return 0.0
    centred = rows - rows.mean(0)
    line = centred @ (centred[side].mean(0) - centred[~side].mean(0))
    first, second = line[side], line[~side]
    spread = ((first.var() + second.var()) / 2).sqrt().clamp_min(1e-9)
    return ((first.mean() - second.mean()) / spread).item()


def halves(rows: Tensor, steps: int = 20) -> Tensor:
    """Which of some vectors are in the second of two groups, by k-means; (N,) bool."""
    centred = rows - rows.mean(0)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)  # or the direction would depend on what was drawn before
        _, _, axes = torch.pca_lowrank(centred, q=min(4, *centred.shape), center=False)
    side = centred @ axes[:, 0] > 0
    for _ in range(steps):
        if not 0 < side.sum() < len(side):
            break
        centres = torch.stack([centred[~side].mean(0), centred[side].mean(0)])
        moved = torch.cdist(centred, centres).argmin(1) == 1
        if moved.equal(side):
            break
        side = moved
    return side


def typical(rows: Tensor) -> list[int]:
    """The vector nearest to the centre of each of two groups."""
    side, found = halves(rows), []
    for mine in (~side, side):
        own = mine.nonzero().squeeze(1)
        if len(own):
            apart = (rows[own] - rows[own].mean(0)).norm(dim=1)
            found.append(int(own[apart.argmin()]))
    return found


def telling(rows: Tensor, wrong: Tensor, usual: float) -> Tensor:
    """Some labels (M,), by index, if more of them are wrong than chance gives; else none.

    The expected share of wrong ones must be above `usual`, by the lower end of its 95% interval.

    Args:
        rows: (M,) the labels.
        wrong: (N,) probability that a label is wrong.
        usual: the expected share of all labels that could be among them.
    """
    share = wrong[rows].mean().item() if len(rows) else 0.0
    return rows if wilson(share, len(rows))[0] > usual else rows[:0]


def rare_classes(labels: Tensor, classes: int) -> list[tuple[int, int]]:
    """Classes (class, examples) with less than a tenth of an equal share, the rarest first."""
    counts = labels.bincount(minlength=classes)
    least = RARE * len(labels) / classes
    rare = [(code, int(count)) for code, count in enumerate(counts.tolist()) if count < least]
    return sorted(rare, key=lambda one: one[1])
