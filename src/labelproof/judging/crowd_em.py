"""One EM fit of annotators' matrices and true classes, with a classifier where there is one.

The model: example i has true class t with probability p_i(t). Annotator a then says v with
probability π_a[t, v]. Dawid and Skene (1979, doi:10.2307/2346806) fit both by EM, with p_i the same
for all examples. With a classifier, p_i = softmax(scale · s_i) from its scores s_i, and the scale
is fitted along: classifier and annotators explain the votes together (as in Raykar et al., JMLR
2010, jmlr.org/papers/v11/raykar10a.html).

Five additions for real votes:

- Few labels from one annotator say little about C² numbers. So π_a is shrunk towards what all
  annotators confuse, at the annotator's own overall error rate, with a strength of κ votes a class.
- An example is judged by matrices that were counted without it. Otherwise somebody with three
  labels confirms themselves.
- Annotators err on the same hard examples, so three equal votes are worth fewer than three. Votes
  on one example have a correlation of ρ (`joint_votes`).
- What is hard for annotators is hard for the classifier, so both together are less sure than they
  look: the evidence of each is multiplied by τ.
- A class whose examples are ambiguous draws ever more of them to itself: what half of the people
  call something else then looks typical of it. With `even`, votes are weighed by how often their
  annotator is right, whatever the class, and nothing can be drawn.

How κ, τ, ρ and `even` are chosen is in `annotators`.

Shapes: N examples, A annotators, C classes, V votes.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn.functional import one_hot

from labelproof.data.votes import LongVotes, Votes, vote_shares
from labelproof.judging.joint_votes import Ballots, ballots, of_all

STEPS = 60  # of EM, at the most
TOLERANCE = 1e-4  # largest mean change of a posterior that counts as none


@dataclass(frozen=True, kw_only=True)
class Knobs:
    """κ, τ, ρ and whether annotators only differ in how often they are right.

    Plain Dawid-Skene has no κ.
    """

    strength: float | None = 30.0
    temper: float = 1.0
    correlation: float = 0.0
    even: bool = False


@dataclass(frozen=True, kw_only=True)
class Crowd:
    """What was found of examples and annotators together."""

    posterior: Tensor  # (N, C) probability of each true class
    confusion: Tensor  # (A, C, C) probability of a vote (column) for each true class (row)
    pooled: Tensor  # (C, C) the same for all annotators together
    scale: float  # of the classifier's scores; 0 without a classifier
    knobs: Knobs  # how it was found
    steps: int  # of EM until nothing changed
    witnessed: Tensor  # (N,) how far the votes alone foretell the classifier, in nats
    told: Tensor | None  # (N,) classes that a person has told for sure, else -1
    predicted: float = math.nan  # mean log-probability of votes hidden from such fits
    untold: Crowd | None = None  # the same votes without what was told, where that is asked for

    @property
    def consensus(self) -> Tensor:
        """(N,) the likeliest class."""
        return self.posterior.argmax(1)


@dataclass(frozen=True, kw_only=True)
class Known:
    """What EM does not change."""

    votes: LongVotes
    start: Tensor  # (N, C) vote shares
    scores: Tensor | None  # (N, C) of the classifier
    told: Tensor | None  # (N,) classes that a person has told for sure, else -1
    annotators: int
    given: Tensor  # (N,) votes an example
    cast: Ballots  # which votes say the same
    usual: float  # the scale of the scores that fits the votes themselves

    def with_told(self, posterior: Tensor) -> Tensor:
        """A posterior (N, C) that is sure of what was told."""
        if self.told is None:
            return posterior
        sure = one_hot(self.told.clamp_min(0), posterior.shape[1]).to(posterior)
        return torch.where(self.told[:, None] >= 0, sure, posterior)


def known_of(
    votes: Votes, classes: int, scores: Tensor | None = None, told: Tensor | None = None
) -> Known:
    """What EM starts from; for the arguments see `annotators.fit_crowd`."""
    long, given, shares = votes.long(), votes.given, vote_shares(votes, classes)
    return Known(
        votes=long,
        start=shares,
        scores=None if scores is None else scores.double(),
        told=told,
        annotators=len(votes.annotators),
        given=given,
        cast=ballots(long, given, classes),
        usual=1.0 if scores is None else agreeing_scale(scores.double(), shares, 1.0),
    )


def em(known: Known, knobs: Knobs, start: Crowd | None = None, most: int = STEPS) -> Crowd:
    """EM with κ, τ and ρ as given, in so many steps at the most."""
    posterior = known.with_told(known.start if start is None else start.posterior)
    scale, step = 1.0 if start is None else start.scale or 1.0, 0
    for step in range(1, most + 1):  # noqa: B007
        counts = expected_counts(known.votes, posterior, known.annotators)
        few = _slightly_right(counts.shape[-1])
        pooled = normalised(counts.sum(0) + few)
        pulled = few if knobs.strength is None else knobs.strength * own_rate(counts, pooled)
        logs = _logs(known.votes, counts, pulled, posterior, knobs)
        prior, scale = _prior(known, posterior, scale, knobs.temper)
        before, posterior = posterior, _posterior(known, prior, logs, knobs)
        if (posterior - before).abs().sum(1).mean() < TOLERANCE:
            break
    return Crowd(
        posterior=posterior,
        confusion=normalised(counts + pulled),
        pooled=pooled,
        scale=scale if known.scores is not None else 0.0,
        knobs=knobs,
        steps=step,
        witnessed=_witnessed(known, posterior, logs, knobs, scale),
        told=known.told,
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
        reached = total * rate
        slope = hits - reached.sum(1) - shift
        bend = (reached * torch.rsub(rate, 1)).sum(1) + 1
        before, shift = shift, (shift + (slope / bend).clamp(-1, 1)).clamp(-8, 8)
        if torch.dist(shift, before, math.inf).item() < 1e-6:  # the largest change
            break
    return shift


def _prior(known: Known, posterior: Tensor, scale: float, temper: float) -> tuple[Tensor, float]:
    """log p_i(t), (N, C) or (1, C), and the scale of the scores that fits the posterior best.

    Tempered scores give way to the shares of the classes: they must not make rare classes common.
    """
    counts = posterior.sum(0, keepdim=True) + 1
    shares = (counts / counts.sum()).log()
    if known.scores is None:
        return shares, 0.0
    scale = agreeing_scale(known.scores, posterior, scale, known.usual)
    return temper * (scale * known.scores).log_softmax(1) + (1 - temper) * shares, scale


def agreeing_scale(
    scores: Tensor, posterior: Tensor, start: float, usual: float | None = None, most: int = 20_000
) -> float:
    """The scale under which softmax(scale · scores) is nearest to the posterior, by Newton.

    With a usual scale, its logarithm has a N(log usual, 1) prior. Few examples would otherwise
    agree with a classifier that agrees with them, without end.
    """
    every = max(1, len(scores) // most)
    scores, posterior = scores[::every], posterior[::every]
    scale = start
    for _ in range(10):
        probs = (scale * scores).softmax(1)
        mean = (probs * scores).sum(1)
        slope = ((posterior * scores).sum(1) - mean).mean().item()
        bend = ((probs * scores.square()).sum(1) - mean.square()).mean().item()
        if usual is not None:
            slope -= math.log(scale / usual) / scale / len(scores)
            bend += 1 / scale**2 / len(scores)
        step = slope / max(bend, 1e-9)
        scale = min(max(scale + max(-0.5 * scale, min(step, scale)), 1e-3), 1e3)
        if abs(step) < 1e-4 * scale:
            break
    return scale


def _logs(
    votes: LongVotes, counts: Tensor, pulled: Tensor, posterior: Tensor, knobs: Knobs
) -> Tensor:
    """log-probability of every vote for each true class, (V, C), as the knobs say."""
    if knobs.even:
        return even_logs(votes, counts, posterior, knobs.strength or 0.0)
    return vote_logs(votes, counts + pulled, None if knobs.strength is None else posterior)


def vote_logs(votes: LongVotes, counts: Tensor, without: Tensor | None) -> Tensor:
    """log π_a[t, v] of every vote for each true class, (V, C).

    Args:
        votes: who said what.
        counts: (A, C, C) of votes, with pseudo-votes.
        without: (N, C) posterior with which each example was counted, to be taken out again where
            it is the one to judge; None to leave it in.
    """
    said, all_ = counts[votes.who, :, votes.label], counts.sum(2)[votes.who]
    if without is not None:
        own = without[votes.rows]
        said, all_ = said - own, all_ - own
    return (said.clamp_min(1e-9) / all_.clamp_min(1e-9)).clamp(1e-12, 1.0).log()


def even_logs(votes: LongVotes, counts: Tensor, posterior: Tensor, strength: float) -> Tensor:
    """The same, (V, C), where an annotator is right equally often in all classes.

    Wrong votes are spread evenly. How often somebody is right is counted without the example, and
    pulled towards everybody's share with κ votes a class.
    """
    classes = counts.shape[-1]
    hits, total = counts.diagonal(dim1=1, dim2=2).sum(1), counts.sum((1, 2))
    everybody = (hits.sum() + 1) / (total.sum() + 2)
    own, pull = posterior[votes.rows, votes.label], strength * classes
    right = (hits[votes.who] - own + pull * everybody) / (total[votes.who] - 1 + pull)
    right = right.clamp(1 / classes, 1 - 1e-4)[:, None]
    said = one_hot(votes.label, classes).bool()
    return torch.where(said, right.log(), ((1 - right) / (classes - 1)).log())


def _posterior(known: Known, prior: Tensor, logs: Tensor, knobs: Knobs) -> Tensor:
    said = of_all(known.cast, logs, knobs.correlation)
    return known.with_told((prior + knobs.temper * said).softmax(1))


def _witnessed(
    known: Known, posterior: Tensor, logs: Tensor, knobs: Knobs, together: float
) -> Tensor:
    """log P(scores | votes) / P(scores), (N,): how far the votes alone foretell the classifier.

    Its scale lies halfway between two: the one that fits the votes alone, which is too small where
    they are unsure, and the one of both together, which grows the less the votes count.
    """
    if known.scores is None:
        return posterior.new_zeros(len(posterior))
    shares = normalised(posterior.sum(0) + 1).log()
    said = of_all(known.cast, logs, knobs.correlation)
    before = (shares + knobs.temper * said).log_softmax(1)
    scale = math.sqrt(together * agreeing_scale(known.scores, before.exp(), known.usual))
    return (before + (scale * known.scores).log_softmax(1) - shares).logsumexp(1)


def _slightly_right(classes: int) -> Tensor:
    """Pseudo-votes, so that no probability is 0: one right and a tenth of each wrong vote."""
    return torch.eye(classes, dtype=torch.float64) + 0.1
