"""What is stated of suspects, noise and classes, with 90% intervals.

Intervals are made on the logit scale of three parts: the spread of the samples, what the model gets
wrong on sets with known truth (chosen on development sets), and chance.

Shapes: C classes, N examples, S samples.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from labelproof.judging.noise_samples import MORE_ERRORS
from labelproof.judging.numbers import Bools, Floats, Ints, logit, sigmoid
from labelproof.judging.trust import MANY, MISLED, Trust

Interval = tuple[float, float]

RATE_SD = 0.45  # of the logit, what the model gets wrong
BY_MODEL, BY_VOTES = (0.5, 1.4), (0.8, 0.8)  # the same of the precision, below and above
WIDE = 0.55  # interval of the precision beyond which no single number is stated
ENOUGH = 20  # suspects from which a single number is stated
NOTHING_FOUND = 0.03  # lower end of the noise interval that cannot be told from 0
LENGTHS = 30  # of the list, at which the curve is given
Z90 = 1.645


@dataclass(frozen=True, kw_only=True)
class Point:
    """Expected precision of the first so many labels of the list."""

    suspects: int
    precision: float
    low: float
    high: float


@dataclass(frozen=True, kw_only=True)
class ClassVerdict:
    """What is said of one class."""

    given: int  # labels of this class
    judged: bool
    reason: str  # why not, or empty
    noise_rate: float | None  # share of its given labels that are wrong
    noise_interval: Interval | None
    suspects: int
    precision: float | None
    agreement: float | None  # share of its labels that held-out scores agree with


def widened(centre: float, draws: Floats, sd: tuple[float, float], extra: float = 0.0) -> Interval:
    """A 90% interval on the logit scale: spread of the draws, of the model's error, and `extra`.

    That error, `sd`, is told for either side: suspects are seldom much worse than
    they look, and often better.
    """
    z, spread = logit(np.asarray([centre]))[0], float(logit(draws).var()) + extra
    below, above = (Z90 * math.sqrt(spread + side**2) for side in sd)
    low, high = sigmoid(np.asarray([z - below, z + above]))
    return float(low), float(high)


def precision_of(
    wrong: Floats, chosen: Bools, *, misled: float = 0.0, voted: bool = False
) -> tuple[float, Interval] | None:
    """Expected precision of chosen labels, and its interval, from samples (S, N) of p(wrong)."""
    count = int(chosen.sum())
    return _precision(wrong[:, chosen].mean(1), count, misled, voted) if count else None


def _precision(
    draws: Floats, count: int, misled: float = 0.0, voted: bool = False
) -> tuple[float, Interval]:
    mean = float(draws.mean())
    counting = 1 / max(count * mean * (1 - mean), 0.25)  # variance of the logit by chance alone
    below, above = BY_VOTES if voted else BY_MODEL
    return mean, widened(mean, draws, (below * (1 + min(misled, 0.5)), above), counting)


def precision_curve(
    wrong: Floats,
    open_: Bools,
    trust: Trust,
    *,
    listed: int,
    voted: bool = False,
    none_wrong: bool = False,
) -> list[Point]:
    """Precision at about thirty lengths of the list of labels that may be suspects, worst first.

    The arguments are those of `stated_precision`, and so are the intervals. Of labels that are not
    among the `listed` suspects, no more are wrong than the samples say.
    """
    size = int(open_.sum())
    if not size or trust.level == "none":
        return []
    order = np.argsort(-np.where(open_, wrong.mean(0), -1), kind="stable")[:size]
    sums = wrong[:, order].cumsum(1)
    lengths = np.unique(np.geomspace(1, size, LENGTHS).round().astype(int))
    out = []
    for length in lengths.tolist():
        mean, ends = _precision(sums[:, length - 1] / length, length, trust.misled, voted)
        low, high = _as_trusted(ends, trust, none_wrong, min(1.0, listed / length))
        out.append(Point(suspects=length, precision=mean, low=low, high=high))
    return out


def stated_precision(
    wrong: Floats,
    suspects: Bools,
    free: Bools,
    trust: Trust,
    *,
    voted: bool = False,
    none_wrong: bool = False,
) -> tuple[float | None, Interval | None]:
    """The precision of the suspects and its interval; a number only where it can be relied on.

    Args:
        wrong: (S, N) samples of p(wrong).
        suspects: (N,).
        free: (N,) labels that were judged and not reviewed.
        trust: with "none" nothing is stated, with "caution" an interval alone.
        voted: whether several annotators say who is wrong, the model or the label.
        none_wrong: whether it may be that no label is wrong at all: then no suspect is.
    """
    found = precision_of(wrong, suspects, misled=trust.misled, voted=voted)
    if trust.level == "none" or found is None:
        return None, None
    mean, (low, high) = found[0], _as_trusted(found[1], trust, none_wrong)
    sure = free.sum() >= MANY and suspects.sum() >= ENOUGH and high - low <= WIDE
    errs = not voted and trust.model_error > MORE_ERRORS * float(wrong[:, free].mean())
    doubtful = trust.ambiguous or none_wrong or trust.misled > MISLED
    if trust.level != "good" or not sure or errs or doubtful:
        return None, (low, high)
    return mean, (low, high)


def _as_trusted(ends: Interval, trust: Trust, none_wrong: bool, suspect: float = 1.0) -> Interval:
    """The interval of a precision where perhaps no label is wrong; a share of them is `suspect`."""
    low, high = ends
    if trust.ambiguous:  # nearly all of the contradicted may be wrong, or none
        return 0.0, max(high, 0.95 * suspect)
    return (0.0 if none_wrong else low), high


def stated_rate(wrong: Floats, trust: Trust) -> float | None:
    """The share of wrong labels; a number only where it can be relied on."""
    return float(wrong.mean()) if trust.level == "good" and not trust.hidden else None


def rate_interval(wrong: Floats, free: Bools, trust: Trust) -> Interval:
    """The share of wrong labels among those not reviewed."""
    if trust.level == "none" or not free.any():
        return 0.0, 1.0
    draws = wrong[:, free].mean(1)
    mean = float(draws.mean())
    unsure = RATE_SD * (1 + min(trust.misled, 0.5))
    low, high = widened(mean, draws, (unsure, unsure), 1 / max(free.sum() * mean, 1.0))
    if low < NOTHING_FOUND or trust.ambiguous:
        low = 0.0
    if trust.ambiguous:
        high = max(high, min(1 - trust.agreement + NOTHING_FOUND, 1.0))
    return low, 1.0 if trust.seen else high  # what was learnt by heart does not show


def by_class(
    wrong: Floats,
    suspects: Bools,
    labels: Ints,
    scores: Floats,
    reviewed: Bools,
    alone: dict[int, str],
    trust: Trust,
    sure: bool,
) -> list[ClassVerdict]:
    """What is said of each given class (see `Part`); a precision where all have one (`sure`)."""
    predicted, out = scores.argmax(1), []
    for k in range(scores.shape[1]):
        mine = labels == k
        able = k not in alone and trust.level != "none"
        draws = wrong[:, mine & ~reviewed]
        rate = float(draws.mean()) if able and draws.size and not trust.seen else None
        extra = 1 / max(draws.shape[1] * (rate or 0), 1.0)
        count = int((suspects & mine).sum())
        told = able and sure and count >= ENOUGH
        found = precision_of(wrong, suspects & mine) if told else None
        out.append(
            ClassVerdict(
                given=int(mine.sum()),
                judged=k not in alone,
                reason=alone.get(k, ""),
                noise_rate=rate,
                noise_interval=None
                if rate is None
                else widened(rate, draws.mean(1), (1.5 * RATE_SD, 1.5 * RATE_SD), extra),
                suspects=count,
                precision=found[0] if found else None,
                agreement=float((predicted[mine] == k).mean()) if mine.any() else None,
            )
        )
    return out
