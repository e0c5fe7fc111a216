"""Judging more labels than their samples fit into memory: in random parts, each by itself.

A noise model is fitted to at most 300,000 scores, however many labels there are. So a random part
of 200,000 labels tells as much of the noise as all of them. Labels that people reviewed, those
of rare classes, and those that neighbours were asked for, are in every part. What is said of all is
the mean of what is said of the parts.

Shapes: C classes, N examples.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TypeVar

import numpy as np
import numpy.typing as npt

from labelproof.judging.judgement import Evidence, Judgement, judge_labels
from labelproof.judging.numbers import Bools, Ints
from labelproof.judging.sharpness import Near
from labelproof.judging.statements import ClassVerdict, Interval, Point
from labelproof.judging.suspects import Rule, chosen_by
from labelproof.judging.trust import Trust

T = TypeVar("T", bound=np.generic)
PART = 200_000  # labels judged at a time
RARE = 100  # labels of a class in a part, below which each part has all of them
LEVELS = ("none", "caution", "good")


def judge_many(evidence: Evidence, rule: Rule | None = None, *, seed: int = 0) -> Judgement:
    """Judge the given labels, in parts where there are very many; see `judge_labels`."""
    size = len(evidence.given)
    if size <= PART:
        return judge_labels(evidence, rule, seed=seed)
    rows = split(evidence, -(-size // PART), np.random.default_rng(seed))
    alone = None if rule is None else replace(rule, budget=None)
    parts = [judge_labels(_part(evidence, part), alone, seed=seed) for part in rows]
    whole = joined(parts, rows, evidence.given)
    return whole if rule is None or rule.budget is None else within(whole, rule, evidence)


def split(evidence: Evidence, count: int, rng: np.random.Generator) -> list[Ints]:
    """The rows of each part: its own, with those that every part needs."""
    given, known = evidence.given, evidence.fixed
    shared: Bools = (np.bincount(given) < RARE * count)[given]
    shared = shared if known is None else shared | known
    if evidence.near is not None:
        shared[evidence.near.rows] = True
    needed = rng.permutation(np.flatnonzero(shared))[: PART // 2]
    own = rng.permutation(np.setdiff1d(np.arange(len(given)), needed))
    return [np.sort(np.concatenate([needed, part])) for part in np.array_split(own, count)]


def within(whole: Judgement, rule: Rule, evidence: Evidence) -> Judgement:
    """The judgement with as many suspects as the budget allows, by the curve of its precision."""
    free = np.ones(len(evidence.given), dtype=bool) if evidence.fixed is None else ~evidence.fixed
    chosen = chosen_by(rule, 1 - whole.p_clean, free, whole.suspects)
    lengths = [point.suspects for point in whole.curve]

    def at(values: Sequence[float]) -> float:
        return float(np.interp(chosen.sum(), lengths, values))

    if not lengths:
        return replace(whole, suspects=chosen, precision=None, precision_interval=None)
    stated = None if whole.precision is None else at([p.precision for p in whole.curve])
    ends = at([p.low for p in whole.curve]), at([p.high for p in whole.curve])
    return replace(whole, suspects=chosen, precision=stated, precision_interval=ends)


def _part(evidence: Evidence, rows: Ints) -> Evidence:
    own, fixed, first = evidence.own_clean, evidence.fixed, evidence.original
    return replace(
        evidence,
        views=evidence.views[:, rows],
        given=evidence.given[rows],
        own_clean=None if own is None else own[rows],
        fixed=None if fixed is None else fixed[rows],
        original=None if first is None else first[rows],
        near=None if evidence.near is None else _near(evidence.near, rows),
    )


def _near(near: Near, rows: Ints) -> Near:
    """What is said of those among some rows, by their places there."""
    inside = np.isin(near.rows, rows)
    return Near(rows=np.searchsorted(rows, near.rows[inside]), said=near.said[inside])


def joined(parts: Sequence[Judgement], rows: Sequence[Ints], given: Ints) -> Judgement:
    """One judgement of labels (N,) from those of parts, which hold these rows."""
    sizes = [len(part) for part in rows]
    suspects = _placed([part.suspects for part in parts], rows, len(given))
    found = [int(part.suspects.sum()) for part in parts]
    trust = _trust([part.trust for part in parts], sizes)
    stated = _mean([part.precision for part in parts], found)
    interval = _interval([part.precision_interval for part in parts], found)
    return Judgement(
        p_clean=_placed([part.p_clean for part in parts], rows, len(given)),
        posterior=_placed([part.posterior for part in parts], rows, len(given)),
        suspects=suspects,
        precision=stated if trust.level == "good" else None,
        precision_interval=None if trust.level == "none" else interval,
        curve=[_point(points) for points in zip(*(part.curve for part in parts), strict=False)],
        noise_rate=_mean([part.noise_rate for part in parts], sizes),
        noise_interval=_interval([part.noise_interval for part in parts], sizes) or (0.0, 1.0),
        transition=np.average([part.transition for part in parts], axis=0, weights=sizes),
        by_class=[
            _verdict(told, int((given == k).sum()), int(suspects[given == k].sum()))
            for k, told in enumerate(zip(*(part.by_class for part in parts), strict=True))
        ],
        scores=_placed([part.scores for part in parts], rows, len(given)),
        weights=np.average([part.weights for part in parts], axis=0, weights=sizes),
        own_weight=float(np.average([part.own_weight for part in parts], weights=sizes)),
        trust=trust,
    )


def _trust(parts: Sequence[Trust], sizes: Sequence[int]) -> Trust:
    """The least trust of all parts, with what makes any of them doubtful."""
    return replace(
        min(parts, key=lambda trust: LEVELS.index(trust.level)),
        model_error=float(np.average([part.model_error for part in parts], weights=sizes)),
        ambiguous=any(part.ambiguous for part in parts),
        hidden=any(part.hidden for part in parts),
        misled=max(part.misled for part in parts),
    )


def _placed(values: Sequence[npt.NDArray[T]], rows: Sequence[Ints], size: int) -> npt.NDArray[T]:
    """Values of parts in the places of their rows; the last part speaks for what all have."""
    first = values[0]
    whole = np.empty((size, *first.shape[1:]), first.dtype)
    for part, at in zip(values, rows, strict=True):
        whole[at] = part
    return whole


def _mean(values: Sequence[float | None], weights: Sequence[int]) -> float | None:
    """The weighted mean; None where a part that counts says nothing, or none counts."""
    told = [(value, weight) for value, weight in zip(values, weights, strict=True) if weight]
    known = [(value, weight) for value, weight in told if value is not None]
    if len(known) < len(told) or not told:
        return None
    numbers, counts = zip(*known, strict=True)
    return float(np.average(numbers, weights=counts))


def _interval(values: Sequence[Interval | None], weights: Sequence[int]) -> Interval | None:
    ends = [_mean([v and v[end] for v in values], weights) for end in (0, 1)]
    return None if ends[0] is None or ends[1] is None else (ends[0], ends[1])


def _point(points: Sequence[Point]) -> Point:
    lengths = [point.suspects for point in points]

    def mean(of: Callable[[Point], float]) -> float:
        return float(np.average([of(point) for point in points], weights=lengths))

    return Point(
        suspects=sum(lengths),
        precision=mean(lambda point: point.precision),
        low=mean(lambda point: point.low),
        high=mean(lambda point: point.high),
    )


def _verdict(told: Sequence[ClassVerdict], labels: int, found: int) -> ClassVerdict:
    """What parts say of a class that has so many labels and suspects in all."""
    given, suspects = [one.given for one in told], [one.suspects for one in told]
    return ClassVerdict(
        given=labels,
        judged=all(one.judged for one in told),
        reason=next((one.reason for one in told if one.reason), ""),
        noise_rate=_mean([one.noise_rate for one in told], given),
        noise_interval=_interval([one.noise_interval for one in told], given),
        suspects=found,
        precision=_mean([one.precision for one in told], suspects),
        agreement=_mean([one.agreement for one in told], given),
    )
