"""The true class of every example from several annotators and, where there is one, a classifier.

`crowd_em` fits annotators' matrices and true classes together. It leaves three numbers open: how
far matrices are pulled together (κ), how much less evidence counts (τ), and how far votes on one
example are correlated (ρ). Here they are chosen.

κ and τ are those with which votes that were hidden are predicted best (`hidden_votes`). With ρ the
votes foretell the classifier's scores best; where that does not tell, ρ is chosen like κ and τ.

Last, ρ is lowered or confusions are left out (`even`) where clearly more of the hidden votes then
equal the consensus. How well votes are predicted does not show that: a class that draws ambiguous
examples to itself predicts their votes well, and is not what most people call them.

Shapes: N examples, A annotators, C classes, V votes.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from labelproof.data.votes import LongVotes, Votes
from labelproof.judging.crowd_em import (
    Crowd,
    Knobs,
    Known,
    agreeing_scale,
    em,
    expected_counts,
    known_of,
    own_rate,
    vote_logs,
)
from labelproof.judging.hidden_votes import Split, splits
from labelproof.judging.joint_votes import ballots

GRIDS: Mapping[str, Sequence[float]] = {
    "strength": (1.0, 3.0, 10.0, 30.0, 100.0, 300.0, 1000.0),  # κ, in votes a class
    "temper": (1.0, 0.85, 0.7, 0.6, 0.5, 0.4, 0.3),  # τ
    # ρ: with more, a classifier overrules many people, and foretells itself by them
    "correlation": (0.0, 0.01, 0.03, 0.06, 0.1),
}
LOWER = (0.06, 0.03, 0.0)  # ρ that hidden votes may prefer to the classifier's choice
GOOD = 2 / 3  # of hidden votes that equal the majority, where votes are good enough to prefer them
BETTER = 0.8  # the same where a classifier says something else
LEARNT = 0.5  # of what a majority tells of hidden votes, below which a classifier tells nothing
ROUNDS = 3  # of the search over them
PATIENCE = 2  # values in a row that are no better, after which no further ones are tried
MOST = 60_000  # votes to search with; all of them where there are fewer
SURE = 1.0  # standard errors from which a difference is more than chance
STEPS = 25  # of EM, for each value that is tried
GAIN = 1e-4  # of the mean log-probability of a vote, below which another value is no better


def fit_crowd(
    votes: Votes,
    classes: int,
    scores: Tensor | None = None,
    told: Tensor | None = None,
    knobs: Knobs | None = None,
) -> Crowd:
    """Consensus, annotators' matrices, and how much to rely on each.

    Args:
        votes: who said what.
        classes: C.
        scores: (N, C) of a classifier that has not seen the votes it judges (out of fold): logits
            or log-probabilities; None where there is no classifier.
        told: (N,) classes of examples that are known for sure, else -1.
        knobs: κ, τ and ρ; None to choose them.
    """
    known = known_of(votes, classes, scores, told)
    return _best(known) if knobs is None else em(known, knobs)


def fit_checked(
    votes: Votes, classes: int, scores: Tensor | None = None, told: Tensor | None = None
) -> Crowd:
    """The same, with the fit that knows nothing of what was told beside it.

    That fit chooses κ, τ and ρ: some checks, chosen for being doubtful, say little of all votes.
    """
    untold = fit_crowd(votes, classes, scores)
    if told is None or not (told >= 0).any():
        return untold
    return replace(fit_crowd(votes, classes, scores, told, untold.knobs), untold=untold)


def _best(known: Known) -> Crowd:
    """EM with the best κ, τ and ρ."""
    if known.given.max() < 2:  # nothing to predict a vote by
        return em(known, Knobs())
    best = _agreeing(*_search(_part(known)))
    return replace(em(known, best.knobs), predicted=best.predicted)


def _part(known: Known) -> Known:
    """Examples at random with about as many votes as a search can take; all where there are few."""
    size, share = len(known.given), MOST / max(1, len(known.votes))
    if share >= 1:
        return known
    order = torch.randperm(size, generator=torch.Generator().manual_seed(0))
    kept = order[: max(1, round(share * size))].sort().values
    place = torch.full((size,), -1)
    place[kept] = torch.arange(len(kept))
    rows, votes = place[known.votes.rows], known.votes
    there, given = rows >= 0, known.given[kept]
    some = LongVotes(rows=rows[there], who=votes.who[there], label=votes.label[there])
    return replace(
        known,
        votes=some,
        start=known.start[kept],
        scores=None if known.scores is None else known.scores[kept],
        told=None if known.told is None else known.told[kept],
        given=given,
        cast=ballots(some, given, known.start.shape[1]),
    )


@dataclass(frozen=True, kw_only=True)
class Tried:
    """What EM finds with κ, τ and ρ where some votes are hidden."""

    knobs: Knobs
    fits: Sequence[Crowd]  # one a split
    predicted: float  # mean log-probability of the hidden votes
    agreed: Tensor  # (N,) hidden votes of an example that equal its consensus


@dataclass(frozen=True, kw_only=True)
class Hiding:
    """How values are tried."""

    parts: Sequence[Split]
    settled: bool  # whether the classifier has told ρ

    def tried(self, knobs: Knobs, starts: Sequence[Crowd | None]) -> Tried:
        """What the knobs find; where ρ is settled, votes follow each other as it says."""
        pairs = zip(self.parts, starts, strict=True)
        fits = [em(part.shown, knobs, start=start, most=STEPS) for part, start in pairs]
        found = zip(self.parts, fits, strict=True)
        heard = [part.predict(fit, follow=self.settled) for part, fit in found]
        agreed = _agreed(self.parts, [fit.consensus for fit in fits])
        return Tried(
            knobs=knobs, fits=fits, predicted=torch.cat(heard).mean().item(), agreed=agreed
        )


def _search(known: Known) -> tuple[Hiding, Tried]:
    """The best κ, τ and ρ, chosen one after the other, from value to value."""
    knobs, settled = _by_witness(known)
    hiding = Hiding(parts=splits(known), settled=settled)
    best = hiding.tried(knobs, [None] * len(hiding.parts))
    names = ("strength", "temper") if settled else tuple(GRIDS)
    ways, idle = list(itertools.product(names, (1, -1))), 0
    for name, direction in ways * ROUNDS:
        before, best = best, _walk(hiding, best, name, direction)
        idle = idle + 1 if best is before else 1
        if idle == len(ways):  # no way leads on from here
            break
    return hiding, best


def _agreeing(hiding: Hiding, best: Tried) -> Tried:
    """Other knobs, where hidden votes prefer them and the plain majority to the consensus.

    That is, where clearly more of them then equal the consensus of the others. A weak classifier is
    foretold best by votes that hardly count, so lower ρ are tried; and no confusions. Of those that
    are level with the best, it is the one that changes least.
    """
    if not _majority_ahead(hiding.parts, best):
        return best
    lower = [value for value in LOWER if value < best.knobs.correlation]
    forms = itertools.product((best.knobs.correlation, *lower), (False, True))
    knobs = [replace(best.knobs, correlation=value, even=even) for value, even in forms][1:]
    tried = [hiding.tried(one, [None] * len(hiding.parts)) for one in knobs]
    most = max(tried, key=lambda one: one.agreed.mean().item())
    if not _clearly_more(most.agreed, best.agreed):
        return best
    level = (one for one in tried if not _clearly_more(most.agreed, one.agreed))
    return next(one for one in level if _clearly_more(one.agreed, best.agreed))


def _majority_ahead(parts: Sequence[Split], best: Tried) -> bool:
    """Whether more hidden votes equal the majority of the others than their consensus.

    The consensus decides between equals. A classifier that knows hidden votes as well is not
    overruled. Nor is one by weak votes, unless it learnt next to nothing: their majority may be an
    error that people share.
    """
    pairs = list(zip(parts, best.fits, strict=True))
    labels = [(part.shown.start + 1e-3 * fit.posterior).argmax(1) for part, fit in pairs]
    plain = _agreed(parts, labels)
    if plain.mean() <= best.agreed.mean():
        return False
    said = torch.cat([part.hidden.label for part in parts])
    scores = parts[0].shown.scores
    good = plain.sum().item() >= (GOOD if scores is None else BETTER) * len(said)
    if scores is None:
        return good
    model = _agreed(parts, [scores.argmax(1)] * len(parts))
    usual = said.bincount().max().item()  # votes for the commonest class
    learnt = (model.sum().item() - usual) >= LEARNT * (plain.sum().item() - usual)
    return (good or not learnt) and _clearly_more(plain, model)


def _agreed(parts: Sequence[Split], labels: Sequence[Tensor]) -> Tensor:
    """How many hidden votes of each example (N,) equal its label (N,), one a split."""
    pairs = zip(parts, labels, strict=True)
    return torch.stack([part.agreed(one) for part, one in pairs]).sum(0)


def _clearly_more(one: Tensor, other: Tensor) -> bool:
    """Whether the first (N,) is larger on average, beyond chance."""
    apart = one - other
    return bool(apart.mean() > SURE * apart.std() / len(apart) ** 0.5)


def _by_witness(known: Known) -> tuple[Knobs, bool]:
    """Knobs with the ρ under which votes foretell the classifier best, and whether that tells.

    Other votes cannot tell how far votes go together: they fall for the same lures. The classifier
    tells nothing where every value foretells it as well as the best, but for chance.
    """
    if known.scores is None:
        return Knobs(), False
    heard = [em(known, Knobs())]
    for value in GRIDS["correlation"][1:]:
        knobs = replace(heard[0].knobs, correlation=value)
        heard.append(em(known, knobs, start=heard[0]))
        if all(_ahead(one, heard[-1]) for one in heard[-1 - PATIENCE : -1]):
            break
    best = max(heard, key=lambda crowd: crowd.witnessed.mean().item())
    return best.knobs, any(_ahead(best, crowd) for crowd in heard)


def _ahead(one: Crowd, other: Crowd) -> bool:
    """Whether votes foretell the classifier better in one than in another, beyond chance."""
    return _clearly_more(one.witnessed, other.witnessed)


def _walk(hiding: Hiding, best: Tried, name: str, direction: int) -> Tried:
    """Follow the grid of one number as long as hidden votes are predicted better."""
    grid = GRIDS[name]
    place, missed = grid.index(vars(best.knobs)[name]) + direction, 0
    while 0 <= place < len(grid) and missed < PATIENCE:
        tried = hiding.tried(Knobs(**{**vars(best.knobs), name: grid[place]}), best.fits)
        place, missed = place + direction, missed + 1
        if tried.predicted >= best.predicted + GAIN:
            best, missed = tried, 0
    return best


def independent(votes: Votes, crowd: Crowd) -> Crowd:
    """The same votes without a classifier, as if nobody ever shared an error with anybody."""
    known = known_of(votes, crowd.posterior.shape[1])
    return em(known, Knobs(strength=crowd.knobs.strength, even=crowd.knobs.even), start=crowd)


def fit_alike(votes: Votes, classes: int) -> Crowd:
    """The same without a classifier, as if all votes were one annotator's."""
    known = known_of(votes, classes)
    alike = replace(known.votes, who=torch.zeros_like(known.votes.who))
    return _best(replace(known, votes=alike, annotators=1))


def seen_alone(votes: Votes, crowd: Crowd, scores: Tensor) -> float:
    """Mean log-probability of a vote, given a classifier's scores (N, C) and no other vote."""
    known = known_of(votes, scores.shape[1], scores)
    counts = expected_counts(known.votes, crowd.posterior, known.annotators)
    pulled = (crowd.knobs.strength or 0.0) * own_rate(counts, crowd.pooled)
    logs = vote_logs(known.votes, counts + pulled, crowd.posterior)
    scale = agreeing_scale(scores.double(), crowd.posterior, 1.0)
    before = (scale * scores.double()).log_softmax(1)[known.votes.rows]
    return (before + logs).logsumexp(1).mean().item()
