"""Judging more labels than their samples fit into memory: in random parts, each by itself.

A noise model is fitted to at most 300,000 scores, however many labels there are. So a random part
of half a million labels is judged as well as all of them together would be. What is said of all is
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
from labelproof.judging.numbers import Ints
from labelproof.judging.statements import ClassVerdict, Interval, Point
from labelproof.judging.suspects import Rule

T = TypeVar("T", bound=np.generic)
PART = 500_000  # labels judged at a time
LEVELS = ("none", "caution", "good")


def judge_many(evidence: Evidence, rule: Rule | None = None, *, seed: int = 0) -> Judgement:
    """Judge the given labels, in parts where there are very many; see `judge_labels`."""
    size = len(evidence.given)
    if size <= PART:
        return judge_labels(evidence, rule, seed=seed)
    order, count = np.random.default_rng(seed).permutation(size), -(-size // PART)
    rows = [np.sort(part) for part in np.array_split(order, count)]
    share = rule
    if rule is not None and rule.budget is not None:
        share = replace(rule, budget=max(1, rule.budget // count))
    return joined([judge_labels(_part(evidence, part), share, seed=seed) for part in rows], rows)


def _part(evidence: Evidence, rows: Ints) -> Evidence:
    own, fixed, first = evidence.own_clean, evidence.fixed, evidence.original
    return replace(
        evidence,
        views=evidence.views[:, rows],
        given=evidence.given[rows],
        own_clean=None if own is None else own[rows],
        fixed=None if fixed is None else fixed[rows],
        original=None if first is None else first[rows],
    )


def joined(parts: Sequence[Judgement], rows: Sequence[Ints]) -> Judgement:
    """One judgement from those of parts, which hold these rows."""
    sizes = [len(part) for part in rows]
    found = [int(part.suspects.sum()) for part in parts]
    return Judgement(
        p_clean=_placed([part.p_clean for part in parts], rows),
        posterior=_placed([part.posterior for part in parts], rows),
        suspects=_placed([part.suspects for part in parts], rows),
        precision=_mean([part.precision for part in parts], found),
        precision_interval=_interval([part.precision_interval for part in parts], found),
        curve=[_point(points) for points in zip(*(part.curve for part in parts), strict=False)],
        noise_rate=_mean([part.noise_rate for part in parts], sizes),
        noise_interval=_interval([part.noise_interval for part in parts], sizes) or (0.0, 1.0),
        transition=np.average([part.transition for part in parts], axis=0, weights=sizes),
        by_class=[_verdict(told) for told in zip(*(part.by_class for part in parts), strict=True)],
        scores=_placed([part.scores for part in parts], rows),
        weights=np.average([part.weights for part in parts], axis=0, weights=sizes),
        own_weight=float(np.average([part.own_weight for part in parts], weights=sizes)),
        trust=min((part.trust for part in parts), key=lambda trust: LEVELS.index(trust.level)),
    )


def _placed(values: Sequence[npt.NDArray[T]], rows: Sequence[Ints]) -> npt.NDArray[T]:
    """Values of parts in the places of their rows."""
    first = values[0]
    whole = np.empty((sum(map(len, rows)), *first.shape[1:]), first.dtype)
    for part, at in zip(values, rows, strict=True):
        whole[at] = part
    return whole


def _mean(values: Sequence[float | None], weights: Sequence[int]) -> float | None:
    """The weighted mean; None where a part says nothing, or nothing has a weight."""
    known = [value for value in values if value is not None]
    if len(known) < len(values) or not sum(weights):
        return None
    return float(np.average(known, weights=weights))


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


def _verdict(told: Sequence[ClassVerdict]) -> ClassVerdict:
    given, suspects = [one.given for one in told], [one.suspects for one in told]
    return ClassVerdict(
        given=sum(given),
        judged=all(one.judged for one in told),
        reason=next((one.reason for one in told if one.reason), ""),
        noise_rate=_mean([one.noise_rate for one in told], given),
        noise_interval=_interval([one.noise_interval for one in told], given),
        suspects=sum(suspects),
        precision=_mean([one.precision for one in told], suspects),
        agreement=_mean([one.agreement for one in told], given),
    )
