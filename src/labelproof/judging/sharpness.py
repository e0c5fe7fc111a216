"""How often held-out predictions are right, without true labels, and how sure scores may be then.

Scores that were fitted to given labels are as sure as those labels are reliable, and less sure than
they should be of the truth. Given labels hardly tell how much less: wrong labels and hard examples
look alike. Two other things tell more, and each fails where the other does not.

Models that agree. Two models of the same data err on the same examples, about as much as makes up
for the errors that they do not share. So they agree about as often as they are right.

    r = min over pairs of views  κ(i, j) + κ(stacked, given) - (κ(i, given) + κ(j, given)) / 2
    right = c + (1 - c) (1 - (1.1 + 0.2 / (C - 1)) (1 - r)),  c the agreement by chance

κ is agreement beyond chance, so that naming one large class is no evidence. What stacking has won
is added. A method and a regression can be nearly the same model, so the lowest pair counts; a view
that knows less than half of what the best one knows of given labels is no second opinion. A forest
errs on other examples than the rest do, and more often where these draw the border well: its lowest
pair counts half, the lowest without it the other half. Models share some errors, with two classes
more of them than with ten: hence the factor.

The surest predictions. The surest fifth is nearly always right, so it contradicts about as many
labels as are wrong, a share w. If wrong labels fall on all examples alike, predictions name the
given label with probability A = q (1 - w) + (1 - q) w / (C - 1), which gives the share q of right
ones. People are wrong on hard examples more often; there q is too low. So it only raises the other.

    right = r + max(q - r, 0) / 3, with r not lower than A

Wrong labels do not make models better, so predictions are right at least as often as they name the
given label. On sets with known truth the logit of `right` is off by about 0.4. The spread of ln a
is half of what it changes by if `right` is that much lower or higher.

One view has none to agree with. There the ln a counts that explains the given labels best.

Shapes: C classes, M of the N examples, N examples, V views.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import combinations

import numpy as np
import torch
from torch import Tensor

from labelproof.judging.noise_model import NoiseModel, Prior
from labelproof.judging.numbers import Floats, Ints, logit, sigmoid

UNSEEN, ALIKE = 1.1, 0.2  # errors for each one that shows; more with two classes than with ten
KNOWS = 0.5  # of what the best view knows of given labels: others are no second opinion
BY_SUREST = 1 / 3  # of the way from the agreement of views to what the surest predictions say
SUREST, FEWEST = 0.2, 20  # of the predictions; at least so many
MOST_WRONG = 0.45  # labels that these may contradict: beyond it they are not right themselves
OFF = 0.4  # by how much the logit of the share of right predictions may be wrong
SPREADS = 0.2, 0.6  # of ln a, at the least and at the most
ALONE = 0.4  # the same with one view
AT_FIRST = Prior(sharpen=(0.5, 0.5))  # for what labels tell
BOUNDS = (-0.25, 2.5)  # of ln a
SOME = 5000  # examples that it is computed from


@dataclass(frozen=True, kw_only=True)
class Near:
    """What nearest neighbours say of some of the examples."""

    rows: Ints  # (M,) in ascending order
    said: Ints  # (M,) the likeliest class


def prior_of(said: Ints, scores: Floats, labels: Ints, forest: int | None = None) -> Prior:
    """The prior of the noise model, with what predictions and labels tell of the sharpness.

    Args:
        said: (V, M) the class that each view names.
        scores: (M, C) the stacked scores of the same examples.
        labels: (M,) their given labels.
        forest: which of the views is a forest, if one is.
    """
    if not len(labels):
        return Prior()
    if len(said) < 2:
        return Prior(sharpen=(by_labels(scores, labels), ALONE))
    return prior_of_right(scores, labels, share_right(said, scores, labels, forest))


def by_labels(scores: Floats, labels: Ints) -> float:
    """The ln a that explains given labels best."""
    values, given = some_of(scores, labels)
    model = NoiseModel(values, given, torch.full_like(given, -1), AT_FIRST).fit(sharpen=True)
    return float(model.shared[0, 0])


def prior_of_right(scores: Floats, labels: Ints, right: float) -> Prior:
    """The prior where the likeliest classes of scores (M, C) are right as often as `right` says."""
    centre = float(logit(np.asarray([right]))[0])
    fewer, more = (float(sigmoid(np.asarray([centre + off]))[0]) for off in (-OFF, OFF))
    spread = (sharpening(scores, labels, more) - sharpening(scores, labels, fewer)) / 2
    return Prior(sharpen=(sharpening(scores, labels, right), float(np.clip(spread, *SPREADS))))


def share_right(said: Ints, scores: Floats, labels: Ints, forest: int | None = None) -> float:
    """How often the likeliest classes of scores (M, C) are right.

    Args:
        said: (V, M) the class that each of two views or more names.
        scores: (M, C) of the same examples.
        labels: (M,) their given labels.
        forest: which of the views is a forest, if one is.
    """
    by_surest = right_by_surest(scores, labels)
    predicted, classes = scores.argmax(1), scores.shape[1]
    agreement = float((predicted == labels).mean())
    by_views = max(right_by_views(said, predicted, labels, classes, forest), agreement)
    return by_views + BY_SUREST * max(by_surest - by_views, 0)


def right_by_surest(scores: Floats, labels: Ints) -> float:
    """The same by how often the surest predictions contradict labels."""
    hits = scores.argmax(1) == labels
    count = max(int(SUREST * len(labels)), FEWEST)
    surest = np.argsort(-scores.max(1), kind="stable")[:count]
    wrong = min(1 - float(hits[surest].mean()), MOST_WRONG)
    agreement, other = float(hits.mean()), wrong / (scores.shape[1] - 1)
    told = 1 - wrong - other  # how far a given label tells right predictions from wrong ones
    right = (agreement - other) / told if told > 0 else agreement
    return float(np.clip(right, agreement, 1))


def right_by_views(
    said: Ints, stacked: Ints, labels: Ints, classes: int, forest: int | None = None
) -> float:
    """How often the stacked prediction (M,) is right, by predictions (V, M) of single views.

    One of them, `forest`, may be that of a forest.
    """
    known = [kappa(one, labels, classes) for one in said]
    able = [i for i in range(len(said)) if known[i] >= KNOWS * max(known)]
    able = able if len(able) > 1 else list(range(len(said)))
    pairs = {
        (i, j): kappa(said[i], said[j], classes) - (known[i] + known[j]) / 2
        for i, j in combinations(able, 2)
    }
    lowest = lowest_pair(pairs, forest) + kappa(stacked, labels, classes)
    above = 1 - (UNSEEN + ALIKE / (classes - 1)) * (1 - lowest)
    chance = by_chance(stacked, labels, classes)
    return float(np.clip(chance + (1 - chance) * above, 0, 1))


def lowest_pair(pairs: Mapping[tuple[int, int], float], forest: int | None) -> float:
    """The lowest value of all pairs; halfway to the lowest of those without the forest."""
    lowest = min(pairs.values())
    without = [value for pair, value in pairs.items() if forest not in pair]
    return (lowest + min(without)) / 2 if without else lowest


def kappa(one: Ints, other: Ints, classes: int) -> float:
    """Agreement of two columns of classes beyond chance (Cohen, 1960); 0 where there is no room."""
    chance = by_chance(one, other, classes)
    return (float((one == other).mean()) - chance) / (1 - chance) if chance < 1 else 0.0


def by_chance(one: Ints, other: Ints, classes: int) -> float:
    """How often two columns of classes would agree if they had nothing to do with each other."""
    shares = [np.bincount(each[each >= 0], minlength=classes) / len(each) for each in (one, other)]
    return float(shares[0] @ shares[1])


def some_of(scores: Floats, labels: Ints) -> tuple[Tensor, Tensor]:
    """Scores and labels of examples at random, of all where there are few."""
    rows = np.random.default_rng(0).permutation(len(labels))[:SOME]
    return torch.from_numpy(scores[rows]), torch.from_numpy(labels[rows])


def sharpening(scores: Floats, labels: Ints, right: float) -> float:
    """The ln a with which the likeliest classes of scores are right as often as `right` says."""
    values, given = some_of(scores, labels)
    model = NoiseModel(values, given, torch.full_like(given, -1))
    likeliest, (low, high) = values.argmax(1)[None, :, None], BOUNDS
    for _ in range(20):
        middle = (low + high) / 2
        truth = model.truth(torch.tensor([[middle]], dtype=torch.float64))
        less = truth.gather(2, likeliest).mean().item() < right
        low, high = (middle, high) if less else (low, middle)
    return (low + high) / 2
