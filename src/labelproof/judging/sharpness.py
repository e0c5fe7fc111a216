"""How far held-out scores may be sharpened, by how often different models agree.

Scores that were fitted to given labels are as sure as those labels are reliable, and less sure than
they should be of the truth. Given labels hardly tell how much less: wrong labels and hard examples
look alike. Models tell more. Two models of the same data err on the same examples, about as much as
makes up for the errors that they do not share. So they agree about as often as they are right.

    r = min over pairs of views  κ(i, j) + κ(stacked, given) - (κ(i, given) + κ(j, given)) / 2
    right = c + (1 - c) (1 - (1.1 + 0.2 / (C - 1)) (1 - r)),  c the agreement by chance

κ is agreement beyond chance, so that naming one large class is no evidence. What stacking has won
is added. A method and a regression can be nearly the same model, so the lowest pair counts; a view
that knows less than half of what the best one knows of given labels is no second opinion. A forest
errs on other examples than the rest do, and more often where these draw the border well: its lowest
pair counts half, the lowest without it the other half. Models share some errors, with two classes
more of them than with ten: hence the factor. Where inputs say little of the class, models agree
more often than they are right; so what given labels say has a small part in ln a as well.

With two classes, models err alike more often. There the surest fifth of the predictions tells more:
these are nearly always right, so they contradict about as many labels as are wrong.

    ln a = 0.8 (0.15 + 3.2 w) + 0.2 v

w is the share of labels that they contradict, v the ln a by agreement, between 0 and 1.6.

How many errors models share differs from one data set to another. Where they have few errors that
hardly matters; where they have many, ln a has a wide spread: half of what it changes by if there
are 35% more errors or 35% fewer.

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
from labelproof.judging.numbers import Floats, Ints

UNSEEN, ALIKE = 1.1, 0.2  # errors for each one that shows; more with two classes than with ten
KNOWS = 0.5  # of what the best view knows of given labels: others are no second opinion
BY_VIEWS, BY_LABELS, BY_ITSELF = 0.8, 0.15, 0.04  # of the ln a that either tells, and always
SPREAD, LARGER_SPREAD = 0.3, 0.4  # of ln a around that, and with two classes or one view
MORE_OR_FEWER, WIDEST = 0.35, 0.6  # errors than models show, and the spread that may follow
BY_SUREST, MOST_BY_VIEWS = 0.8, 1.6  # with two classes: its part, and the bound of the other one
AT_LEAST, BY_WRONG = 0.15, 3.2  # of ln a, always and for each contradicted label of the surest
FEWEST = 20  # predictions that count as the surest, at least
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
    classes = scores.shape[1]
    if len(said) < 2:
        return Prior(sharpen=(by_labels(scores, labels), LARGER_SPREAD))
    right = share_right(said, scores.argmax(1), labels, classes, forest)
    by_views = sharpening(scores, labels, right)
    if classes == 2:
        bounded = min(max(by_views, 0.0), MOST_BY_VIEWS)
        centre = BY_SUREST * by_the_surest(scores, labels) + (1 - BY_SUREST) * bounded
    else:
        centre = BY_VIEWS * by_views + BY_LABELS * by_labels(scores, labels) + BY_ITSELF
    return Prior(sharpen=(centre, max(spread_of(classes), by_errors(scores, labels, 1 - right))))


def by_errors(scores: Floats, labels: Ints, errors: float) -> float:
    """The spread of ln a that follows from not knowing the share of `errors` any better."""
    more, fewer = (max(1 - times * errors, 0.0) for times in (1 + MORE_OR_FEWER, 1 - MORE_OR_FEWER))
    apart = sharpening(scores, labels, fewer) - sharpening(scores, labels, more)
    return min(apart / 2, WIDEST)


def by_labels(scores: Floats, labels: Ints) -> float:
    """The ln a that explains given labels best."""
    values, given = some_of(scores, labels)
    model = NoiseModel(values, given, torch.full_like(given, -1), AT_FIRST).fit(sharpen=True)
    return float(model.shared[0, 0])


def by_the_surest(scores: Floats, labels: Ints) -> float:
    """The ln a of two classes, by how often the surest fifth of predictions contradict labels."""
    surest = np.argsort(-scores.max(1), kind="stable")[: max(len(labels) // 5, FEWEST)]
    wrong = float((scores.argmax(1) != labels)[surest].mean())
    return AT_LEAST + BY_WRONG * wrong


def some_of(scores: Floats, labels: Ints) -> tuple[Tensor, Tensor]:
    """Scores and labels of examples at random, of all where there are few."""
    rows = np.random.default_rng(0).permutation(len(labels))[:SOME]
    return torch.from_numpy(scores[rows]), torch.from_numpy(labels[rows])


def spread_of(classes: int) -> float:
    """How far ln a may be from what is known of it."""
    return SPREAD if classes > 2 else LARGER_SPREAD


def share_right(
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


def prior_of_right(scores: Floats, labels: Ints, right: float) -> Prior:
    """The prior where the likeliest classes of scores (M, C) are right as often as `right` says."""
    return Prior(sharpen=(sharpening(scores, labels, right), spread_of(scores.shape[1])))


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
