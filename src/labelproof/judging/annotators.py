"""The true class of every example from several annotators and, where there is one, a classifier.

The model: example i has true class t with probability p_i(t). Annotator a then says v with
probability π_a[t, v]. Dawid and Skene (1979, doi:10.2307/2346806) fit both by EM, with p_i the same
for all examples. With a classifier, p_i = softmax(scale · s_i) from its scores s_i, and the scale
is fitted along: classifier and annotators explain the votes together (as in Raykar et al., JMLR
2010, jmlr.org/papers/v11/raykar10a.html).

Two additions for real votes:

- Few labels from one annotator say little about C² numbers. So π_a is shrunk towards what all
  annotators confuse, at the annotator's own overall error rate, by an amount κ that the votes
  decide (marginal likelihood).
- Annotators err on the same hard examples, so three equal votes are worth fewer than three. An
  example's n votes count as n / (1 + (n - 1) ρ); ρ is chosen to predict each vote best from the
  other votes on the same example.

Shapes: N examples, A annotators, C classes, V votes.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from torch import Tensor

from labelproof.data.votes import LongVotes, Votes, majority, vote_shares

STEPS = 60  # of EM, at the most
TOLERANCE = 1e-5  # largest mean change of a posterior that counts as none
STRENGTHS = (1.0, 3.0, 10.0, 30.0, 100.0, 300.0, 1000.0)  # κ, in votes a class
CORRELATIONS = (0.0, 0.05, 0.1, 0.2, 0.35, 0.5, 0.75, 1.0)  # ρ


@dataclass(frozen=True, kw_only=True)
class Crowd:
    """What was found of examples and annotators together."""

    posterior: Tensor  # (N, C) probability of each true class
    confusion: Tensor  # (A, C, C) probability of a vote (column) for each true class (row)
    pooled: Tensor  # (C, C) the same for all annotators together
    scale: float  # of the classifier's scores; 0 without a classifier
    correlation: float  # ρ
    strength: float  # κ
    steps: int  # of EM until nothing changed
    predicted: float  # mean log-probability of a vote, given the others and the classifier

    @property
    def consensus(self) -> Tensor:
        """(N,) the likeliest class."""
        return self.posterior.argmax(1)


@dataclass(frozen=True, kw_only=True)
class _Known:
    """What EM does not change."""

    votes: LongVotes
    start: Tensor  # (N, C) vote shares
    scores: Tensor | None  # (N, C) of the classifier
    annotators: int
    given: Tensor  # (N,) votes an example


def dawid_skene(votes: Votes, classes: int) -> Crowd:
    """Plain Dawid-Skene: independent annotators, no classifier, one pseudo-vote of smoothing."""
    return _em(_known(votes, classes, None), correlation=0.0, strength=None)


def fit_crowd(votes: Votes, classes: int, scores: Tensor | None = None) -> Crowd:
    """Consensus, annotators' matrices, and how much to rely on each.

    Args:
        votes: who said what.
        classes: C.
        scores: (N, C) of a classifier that has not seen the votes it judges (out of fold): logits
            or log-probabilities; None where there is no classifier.
    """
    known = _known(votes, classes, scores)
    best = _em(known, correlation=0.0, strength=STRENGTHS[2])
    if known.given.max() < 2:
        return best
    for correlation in CORRELATIONS[1:]:
        tried = _em(known, correlation=correlation, strength=best.strength, start=best)
        if tried.predicted <= best.predicted:
            break
        best = tried
    return best


@dataclass(frozen=True, kw_only=True)
class VoteLabels:
    """One label an example from votes alone, and how it was chosen."""

    labels: Tensor  # (N,)
    how: str  # "majority" or "consensus"
    why: str  # one sentence


def labels_from_votes(votes: Votes, classes: int) -> VoteLabels:
    """The labels to train on: majority, or the annotators' weighted consensus.

    Held-out votes decide: the consensus is taken where knowing who voted predicts each vote better
    from the others on its example than treating all annotators alike.
    """
    known = _known(votes, classes, None)
    if known.given.max() < 2:
        why = "No example has two votes, so each is labelled by its only one."
        return VoteLabels(labels=majority(votes, classes), how="majority", why=why)
    alike = replace(known, votes=replace(known.votes, who=torch.zeros_like(known.votes.who)))
    same = _em(replace(alike, annotators=1), correlation=0.0, strength=STRENGTHS[2])
    crowd = fit_crowd(votes, classes)
    told = (
        f"a held-out vote has log-probability {crowd.predicted:.4f} if annotators differ and "
        f"{same.predicted:.4f} if they are all alike"
    )
    if crowd.predicted > same.predicted:
        why = f"Training labels are the annotators' consensus: {told}."
        return VoteLabels(labels=crowd.consensus, how="consensus", why=why)
    why = f"Training labels are the majority: {told}."
    return VoteLabels(labels=majority(votes, classes), how="majority", why=why)


def _known(votes: Votes, classes: int, scores: Tensor | None) -> _Known:
    return _Known(
        votes=votes.long(),
        start=vote_shares(votes, classes),
        scores=None if scores is None else scores.double(),
        annotators=len(votes.annotators),
        given=votes.given,
    )


def _em(
    known: _Known, *, correlation: float, strength: float | None, start: Crowd | None = None
) -> Crowd:
    """EM with ρ given; κ is chosen anew in each step unless None asks for plain smoothing."""
    posterior = known.start if start is None else start.posterior
    scale = 1.0 if start is None else start.scale
    step = 0
    for step in range(1, STEPS + 1):  # noqa: B007
        counts = expected_counts(known.votes, posterior, known.annotators)
        pooled = normalised(counts.sum(0) + _slightly_right(counts.shape[-1]))
        if strength is None:
            confusion = normalised(counts + _slightly_right(counts.shape[-1]))
        else:
            base = own_rate(counts, pooled)
            strength = best_strength(counts, base)
            confusion = normalised(counts + strength * base)
        prior, scale = _prior(known, posterior, scale)
        before, posterior = posterior, _posterior(known, prior, confusion, correlation)
        if (posterior - before).abs().sum(1).mean() < TOLERANCE:
            break
    return Crowd(
        posterior=posterior,
        confusion=confusion,
        pooled=pooled,
        scale=scale if known.scores is not None else 0.0,
        correlation=correlation,
        strength=strength or 0.0,
        steps=step,
        predicted=predicted_votes(known, prior, confusion, correlation),
    )


def expected_counts(votes: LongVotes, posterior: Tensor, annotators: int) -> Tensor:
    """How often each annotator (first) said a class (last) for each true one, (A, C, C)."""
    classes = posterior.shape[1]
    counts = posterior.new_zeros(annotators * classes, classes)
    counts.index_add_(0, votes.who * classes + votes.label, posterior[votes.rows])
    return counts.view(annotators, classes, classes).transpose(1, 2)


def normalised(counts: Tensor) -> Tensor:
    """Rows that sum to one."""
    return counts / counts.sum(-1, keepdim=True)


def own_rate(counts: Tensor, pooled: Tensor) -> Tensor:
    """Each annotator's matrix if only the overall error rate and the wrong classes were their own.

    The error rate of true class t is that of all annotators, moved on the logit scale by one number
    an annotator; the wrong votes spread as everybody's do, mixed with the annotator's own habits.
    """
    classes = pooled.shape[0]
    right = pooled.diagonal()
    total = counts.sum(2)  # (A, C) votes by true class
    hits = counts.diagonal(dim1=1, dim2=2).sum(1)
    shift = _shift(total, hits, torch.logit(right, eps=1e-4))
    own = (torch.logit(right, eps=1e-4) + shift[:, None]).sigmoid()
    eye = torch.eye(classes, dtype=torch.bool)
    wrong = counts.masked_fill(eye, 0.0).sum(1)  # (A, C) wrong votes by class
    habit = (wrong[:, None, :] + classes * pooled).masked_fill(eye, 0.0)
    spread = habit / habit.sum(2, keepdim=True).clamp_min(1e-30)
    return (1 - own)[:, :, None] * spread + torch.diag_embed(own)


def _shift(total: Tensor, hits: Tensor, logits: Tensor) -> Tensor:
    """The number (A,) that explains an annotator's right votes, by Newton, with a N(0, 1) prior."""
    shift = torch.zeros(len(hits), dtype=hits.dtype)
    for _ in range(20):
        rate = (logits + shift[:, None]).sigmoid()
        slope = hits - (total * rate).sum(1) - shift
        bend = (total * rate * (1 - rate)).sum(1) + 1
        shift = (shift + (slope / bend).clamp(-1, 1)).clamp(-8, 8)
    return shift


def best_strength(counts: Tensor, base: Tensor) -> float:
    """The κ under which the counts (A, C, C) are likeliest as draws around `base`."""
    total = counts.sum(2)

    def fit(strength: float) -> float:
        prior = strength * base.clamp_min(1e-6)
        whole = torch.full_like(total, strength).lgamma() - (total + strength).lgamma()
        return (whole.sum() + ((counts + prior).lgamma() - prior.lgamma()).sum()).item()

    return max(STRENGTHS, key=fit)


def _prior(known: _Known, posterior: Tensor, scale: float) -> tuple[Tensor, float]:
    """log p_i(t), (N, C) or (1, C), and the scale of the scores that fits the posterior best."""
    if known.scores is None:
        counts = posterior.sum(0, keepdim=True) + 1
        return (counts / counts.sum()).log(), 0.0
    scale = fit_scale(known.scores, posterior, scale)
    return (scale * known.scores).log_softmax(1), scale


def fit_scale(scores: Tensor, posterior: Tensor, start: float, most: int = 20_000) -> float:
    """The scale under which softmax(scale · scores) is nearest to the posterior, by Newton."""
    every = max(1, len(scores) // most)
    scores, posterior = scores[::every], posterior[::every]
    scale = start
    for _ in range(10):
        probs = (scale * scores).softmax(1)
        mean = (probs * scores).sum(1)
        slope = ((posterior * scores).sum(1) - mean).mean().item()
        bend = ((probs * scores.square()).sum(1) - mean.square()).mean().item()
        step = slope / max(bend, 1e-9)
        scale = min(max(scale + max(-0.5 * scale, min(step, scale)), 1e-3), 1e3)
        if abs(step) < 1e-4 * scale:
            break
    return scale


def _vote_logs(known: _Known, confusion: Tensor) -> Tensor:
    """log π_a[t, v] of every vote for each true class, (V, C)."""
    votes = known.votes
    return confusion.clamp_min(1e-12).log()[votes.who, :, votes.label]


def _weight(given: Tensor, correlation: float) -> Tensor:
    """What each of n votes on an example counts, (N, 1)."""
    return (1 / (1 + (given - 1).clamp_min(0) * correlation)).double()[:, None]


def _summed(known: _Known, logs: Tensor) -> Tensor:
    return torch.zeros_like(known.start).index_add_(0, known.votes.rows, logs)


def _posterior(known: _Known, prior: Tensor, confusion: Tensor, correlation: float) -> Tensor:
    logs = _summed(known, _vote_logs(known, confusion))
    return (prior + _weight(known.given, correlation) * logs).softmax(1)


def predicted_votes(known: _Known, prior: Tensor, confusion: Tensor, correlation: float) -> float:
    """Mean log-probability of a vote, given the classifier and the other votes on its example."""
    rows, logs = known.votes.rows, _vote_logs(known, confusion)
    others = _summed(known, logs)[rows] - logs
    weight = _weight((known.given - 1).clamp_min(0), correlation)[rows]
    before = (prior.expand_as(known.start)[rows] + weight * others).log_softmax(1)
    return (before + logs).logsumexp(1).mean().item()


def _slightly_right(classes: int) -> Tensor:
    """Pseudo-votes, so that no probability is 0: one right and a tenth of each wrong vote."""
    return torch.eye(classes, dtype=torch.float64) + 0.1
