"""Judging given labels by held-out views of them. No true label is used.

1. Views are stacked to predict held-out given labels (`stacking`).
2. Classes with too few labels, or that nothing recognises, are left alone (`trust`).
3. How often views agree tells how sure of the truth the scores may be (`sharpness`).
4. A noise model explains the given labels by the stacked scores; it is sampled (`noise_samples`).
5. The method's own score joins in as far as the samples agree with it (`noise_samples`).
6. Out come p_clean, suspects, their precision, the noise rate, and how far to trust all this.

The constants of these modules were chosen on development sets with known truth.

Shapes: C classes, N examples, S samples, V views.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from labelproof.judging.noise_model import Prior
from labelproof.judging.noise_samples import FEWEST_REVIEWED, explain, final_draws, own_evidence
from labelproof.judging.numbers import Bools, Floats, Ints, log_softmax, mean_ranks
from labelproof.judging.sharpness import Near, prior_of
from labelproof.judging.stacking import stack
from labelproof.judging.statements import (
    ClassVerdict,
    Interval,
    Point,
    by_class,
    precision_curve,
    rate_interval,
    stated_precision,
    stated_rate,
)
from labelproof.judging.suspects import Rule, chosen_by, likelier_wrong
from labelproof.judging.trust import (
    FEWEST,
    Trust,
    contradicted,
    expected_error,
    misled_by_labels,
    trust_of,
    unjudged_classes,
)

SCARCE = 0.5  # suspects for each label that is expected to be wrong, below which there are too few
HIDDEN = 0.6  # share of wrong labels that are what the model suggests: from there on some go unseen
AMBIGUOUS = 0.2  # suspects for each contradicted label below which the data cannot tell


@dataclass(frozen=True, kw_only=True)
class Evidence:
    """What the judge is given."""

    views: Floats  # (V, N, C) log-probabilities by models that have not seen the label they judge
    given: Ints  # (N,) labels as they stand now; reviewed ones are taken for true
    own_clean: Floats | None = None  # (N,) the method's own probability that the label is right
    fixed: Bools | None = None  # (N,) which labels a person confirmed or corrected
    original: Ints | None = None  # (N,) labels before review; the same where nothing changed
    seen: bool = False  # whether the models have seen the labels after all
    near: Near | None = None  # what neighbours say of some, where no view has those of all
    forest: int | None = None  # which of the views is a forest


@dataclass(frozen=True, kw_only=True)
class Judgement:
    """Everything the judge says."""

    p_clean: Floats  # (N,)
    posterior: Floats  # (N, C) of the true class, knowing the given label
    suspects: Bools  # (N,)
    precision: float | None  # stated, of the suspects
    precision_interval: Interval | None
    curve: list[Point]
    noise_rate: float | None  # share of wrong labels; None where only the interval can be stated
    noise_interval: Interval
    transition: Floats  # (C, C) share of each given label (column) for each true one (row)
    by_class: list[ClassVerdict]
    scores: Floats  # (N, C) held-out log-probabilities, all views stacked
    weights: Floats  # (V,) of the views
    own_weight: float  # of the method's own score, 0 to 1
    trust: Trust


@dataclass(frozen=True, kw_only=True)
class Part:
    """The examples and classes that are judged, among all."""

    scores: Floats  # (N, C) stacked, all
    labels: Ints  # (N,) before review, all
    truth: Ints  # (N,) what review told, or -1
    kept: Ints  # classes
    rows: Bools  # (N,) examples
    alone: dict[int, str]  # classes left alone, with the reason
    own: Floats | None = None  # (N,) the method's own score, where there is but one view beside it

    def inside(self) -> tuple[Floats, Ints, Ints]:
        """Scores, labels and known truth of the judged examples, classes renumbered."""
        number = np.full(self.scores.shape[1] + 1, -1)  # the last entry keeps -1 as it is
        number[self.kept] = np.arange(len(self.kept))
        scores = log_softmax(self.scores[np.ix_(self.rows, self.kept)])
        return scores, number[self.labels[self.rows]], number[self.truth[self.rows]]

    def everywhere(self, values: Floats, rest: Floats) -> Floats:
        """Values (..., n) of the judged examples put among all; the others get `rest` (N,)."""
        out = np.broadcast_to(rest, (*values.shape[:-1], len(self.rows))).astype(np.float64)
        out[..., self.rows] = values
        return out

    def mask(self, values: Bools) -> Bools:
        """A mask of the judged examples as one of all."""
        out = np.zeros(len(self.rows), dtype=bool)
        out[self.rows] = values
        return out

    def left_alone(self) -> Floats:
        """p(wrong) of labels left alone: at most one half, in the order of what is known of them.

        That is the rank by held-out scores; where one view alone gave them, the mean of it and the
        rank by the method's own score.
        """
        said = self.scores[np.arange(len(self.labels)), self.labels]
        rank = mean_ranks(said) / len(said)
        if self.own is not None:
            rank = (rank + mean_ranks(self.own) / len(said)) / 2
        return np.where(self.truth >= 0, 0.0, 0.499 * (1 - rank))

    def posterior(self, inside: Floats, given: Ints) -> Floats:
        """A posterior (n, c) of the judged as (N, C); labels left alone are sure."""
        out = np.eye(self.scores.shape[1])[given]
        out[self.rows] = 0
        out[np.ix_(self.rows, self.kept)] = inside
        return out


def judge_labels(evidence: Evidence, rule: Rule | None = None, *, seed: int = 0) -> Judgement:
    """Judge the given labels; `rule` says which of those that look wrong are called suspects."""
    given, size = evidence.given, len(evidence.given)
    done = np.zeros(size, dtype=bool) if evidence.fixed is None else evidence.fixed
    first = given if evidence.original is None else np.where(done, evidence.original, given)
    truth = np.where(done, given, -1)
    weights, scores = stack(evidence.views, first)
    alone = unjudged_classes(scores, first)
    kept = np.array([k for k in range(scores.shape[1]) if k not in alone], dtype=np.int64)
    rows = np.isin(first, kept) & (np.isin(truth, kept) | (truth < 0))
    if evidence.original is None:  # what a reviewed label was is unknown: it says nothing of noise
        rows &= ~done
    part = Part(
        scores=scores,
        labels=first,
        truth=truth,
        kept=kept,
        rows=rows,
        alone=alone,
        own=evidence.own_clean if len(evidence.views) == 1 else None,
    )
    able = len(kept) >= 2 and bool(rows.any())
    found = judged(part, evidence, rule or Rule(), seed) if able else _nothing(part, evidence)
    return replace(found, weights=weights)


def _nothing(part: Part, evidence: Evidence) -> Judgement:
    """The judgement where fewer than two classes can be judged: every label stays as it is."""
    trust = trust_of(part.scores, part.labels, np.exp(part.scores), judged=len(part.kept))
    none = replace(part, rows=np.zeros(len(part.rows), dtype=bool))
    empty, chosen = np.empty((1, 0)), np.zeros(0, dtype=bool)
    posterior, trust = np.empty((0, len(part.kept))), replace(trust, level="none")
    return _stated(none, evidence, empty, chosen, posterior, trust, 0.0)


def judged(part: Part, evidence: Evidence, rule: Rule, seed: int) -> Judgement:
    """The judgement where at least two classes can be judged."""
    scores, labels, truth = part.inside()
    free = truth < 0
    explained = explain(scores, labels, truth, prior=_prior(part, evidence), seed=seed)
    own, own_weight = np.zeros(len(labels)), 0.0
    if evidence.own_clean is not None:
        own[free], own_weight = own_evidence(
            evidence.own_clean[part.rows][free], explained.wrong[:, free].mean(0)
        )
    outcome = np.where(free, np.nan, (truth != labels).astype(float))
    wrong = final_draws(explained.wrong, own, own_weight, outcome, expected_error(explained.truth))
    strict = likelier_wrong(wrong.mean(0), free)
    against = contradicted(scores, labels) & free
    known = (~free).sum() >= FEWEST_REVIEWED  # review tells what contradiction means here
    ambiguous = bool(strict.sum() < AMBIGUOUS * against.sum() and not known)
    trust = trust_of(
        scores,
        labels,
        explained.truth,
        judged=len(part.kept),
        ambiguous=ambiguous,
        hidden=explained.copied > HIDDEN and not known,
        misled=0.0 if known else misled_by_labels(explained.copied, float(wrong[:, free].mean())),
        seen=evidence.seen,
    )
    if trust.level == "none":  # nothing is said of single labels, but for their order
        wrong = part.left_alone()[None, part.rows]
        strict = np.zeros(len(labels), dtype=bool)
    usual = strict | against if ambiguous and trust.level != "none" else strict
    expected = round(float(wrong[:, free].mean(0).sum()))
    if trust.level == "caution" and usual.sum() < SCARCE * expected:  # help nobody: the likeliest
        usual = chosen_by(Rule(budget=expected), wrong.mean(0), free, usual)
    chosen = chosen_by(rule, wrong.mean(0), free, usual) & (len(labels) >= FEWEST)
    posterior = knowing(explained.posterior, labels, 1 - wrong.mean(0), free)
    return _stated(part, evidence, wrong, chosen, posterior, trust, own_weight)


def _prior(part: Part, evidence: Evidence) -> Prior:
    """What is known of the noise model before labels are explained, by how far views agree."""
    near, rows = evidence.near, np.flatnonzero(part.rows)
    if near is not None:
        rows = near.rows[part.rows[near.rows]]
    places = np.full(part.scores.shape[1], -1)
    places[part.kept] = np.arange(len(part.kept))
    said = evidence.views[:, rows][:, :, part.kept].argmax(2)
    if near is not None:
        said = np.concatenate([said, places[near.said[part.rows[near.rows]]][None]])
    scores = log_softmax(part.scores[np.ix_(rows, part.kept)])
    return prior_of(said, scores, places[part.labels[rows]], evidence.forest)


def _stated(
    part: Part,
    evidence: Evidence,
    wrong: Floats,
    chosen: Bools,
    posterior: Floats,
    trust: Trust,
    own_weight: float,
    *,
    voted: bool = False,
) -> Judgement:
    """All that is said, from samples of p(wrong) of the judged examples, by votes or without."""
    everywhere, suspects = part.everywhere(wrong, part.left_alone()), part.mask(chosen)
    free = part.truth[part.rows] < 0
    low, high = rate_interval(wrong, free, trust)
    open_, none_wrong = part.mask(free), low == 0 and not voted
    precision, interval = stated_precision(
        everywhere, suspects, open_, trust, voted=voted, none_wrong=none_wrong
    )
    share = 1.0 if trust.level == "none" else float(free.mean())  # reviewed labels are right
    full = part.posterior(posterior, evidence.given)
    return Judgement(
        p_clean=1 - everywhere.mean(0),
        posterior=full,
        suspects=suspects,
        precision=precision,
        precision_interval=interval,
        curve=precision_curve(
            everywhere,
            open_,
            trust,
            listed=int(suspects.sum()),
            voted=voted,
            none_wrong=none_wrong,
        ),
        noise_rate=stated_rate(wrong, trust),
        noise_interval=(share * low, share * high),
        transition=transition_of(full, part.labels),
        by_class=by_class(
            everywhere,
            suspects,
            part.labels,
            part.scores,
            part.truth >= 0,
            part.alone,
            trust,
            sure=precision is not None,
        ),
        scores=part.scores,
        weights=np.empty(0),
        own_weight=own_weight,
        trust=trust,
    )


def judge_by_votes(
    evidence: Evidence,
    posterior: Floats,
    rule: Rule | None = None,
    *,
    reliability: float = 0.0,
    thin: Sequence[str] = (),
) -> Judgement:
    """The judgement where several annotators and the model together gave a posterior (N, C).

    Votes of a high `reliability` (0 to 1) need no model: one that learnt nothing does no harm.
    Where they are too few (reasons in `thin`), no single numbers are stated.
    """
    weights, scores = stack(evidence.views, evidence.given)
    size, classes = scores.shape
    fixed = np.zeros(size, dtype=bool) if evidence.fixed is None else evidence.fixed
    part = Part(
        scores=scores,
        labels=evidence.given,
        truth=np.where(fixed, evidence.given, -1),
        kept=np.arange(classes),
        rows=np.ones(size, dtype=bool),
        alone={},
    )
    wrong = np.where(fixed, 0.0, 1 - posterior[np.arange(size), evidence.given])
    trust = trust_of(
        scores,
        evidence.given,
        posterior,
        judged=classes,
        seen=evidence.seen,
        votes=reliability,
        thin=thin,
    )
    chosen = chosen_by(rule or Rule(), wrong, ~fixed, likelier_wrong(wrong, ~fixed))
    found = _stated(part, evidence, wrong[None], chosen, posterior, trust, 0.0, voted=True)
    return replace(found, weights=weights)


def knowing(posterior: Floats, labels: Ints, clean: Floats, free: Bools) -> Floats:
    """The posterior with p_clean at the given label; the other classes share the rest as before."""
    at = np.arange(len(labels))
    out: Floats = posterior.copy()
    out[at, labels] = 0
    rest = np.maximum(out.sum(1, keepdims=True), 1e-30)
    out = out / rest * (1 - clean)[:, None]
    out[at, labels] = clean
    out[~free] = posterior[~free]
    return out


def transition_of(posterior: Floats, labels: Ints) -> Floats:
    """Share of each given label (column) among the examples of each true class (row), (C, C).

    A class that nothing seems to belong to says nothing of its labels: they count as right.
    """
    classes = posterior.shape[1]
    counts = [np.bincount(labels, posterior[:, k], classes) for k in range(classes)]
    return shares_of_rows(np.stack(counts))


def shares_of_rows(counts: Floats) -> Floats:
    """Counts (C, C) of given labels (columns) for each true class (rows) as shares."""
    total = counts.sum(1, keepdims=True)
    return np.where(total > 1e-9, counts / np.maximum(total, 1e-9), np.eye(len(counts)))
