"""Samples of the noise model's parameters: what is known of the labels, and how surely.

The samples of "this label is wrong" are then joined with the method's own score and with what
review found.

Shapes: C classes, N examples, S samples, W walkers.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
from scipy.special import ndtri
from torch import Tensor

from labelproof.judging.noise_model import NoiseModel, Prior
from labelproof.judging.numbers import Bools, Floats, Ints, logit, mean_ranks, sigmoid

NUMBERS = 300_000  # scores that the model is fitted to, at the most
FEWEST = 5000  # examples it is fitted to, unless there are fewer
WALKERS = 8  # for each value of ln a
STEPS = 40
SAMPLED = 30_000  # scores that enter the samples: more would make them surer than they deserve
DRAWS = 40
BLOCK = 2_000_000  # numbers held at a time
TEMPER, SURER = 0.82, 0.92  # slopes on the logit of p(wrong): a model is a little too sure,
MORE_ERRORS = 0.8  # and less so with fewer errors of the model per wrong label than this
SILENT = 0.5  # slope below which the method's own score does not count
FEWEST_REVIEWED = 10  # reviewed labels from which they correct p(wrong)
FEWEST_SCORED = 20  # labels from which the method's own score is compared with p(wrong)


@dataclass(frozen=True, kw_only=True)
class Explained:
    """The noise model applied to all examples."""

    posterior: Floats  # (N, C), mean over samples
    wrong: Floats  # (S, N) probability that the label is wrong, as if nothing were reviewed
    truth: Floats  # (N, C) probability before the label is seen, mean over samples
    copied: float  # κ, the share of wrong labels that come as the scores suggest


def explain(
    scores: Floats, labels: Ints, truth: Ints, *, prior: Prior | None = None, seed: int = 0
) -> Explained:
    """Fit the model to some of the examples, sample its parameters, and apply it to all.

    Args:
        scores: (N, C) held-out log-probabilities.
        labels: (N,) given labels before review.
        truth: (N,) true classes that a person has told, else -1.
        prior: of the parameters.
        seed: decides the examples and the samples.
    """
    size, classes = scores.shape
    values, given, known = map(torch.from_numpy, (scores, labels, truth))
    rng = torch.Generator().manual_seed(seed)
    rows = torch.randperm(size, generator=rng)[: max(FEWEST, NUMBERS // classes)]
    model = NoiseModel(values[rows], given[rows], known[rows], prior).fit()
    with torch.no_grad():
        everywhere = model.over(values, given, known)
        return applied(everywhere, drawn(model, everywhere, rng))


def drawn(model: NoiseModel, everywhere: NoiseModel, rng: torch.Generator) -> Tensor:
    """Samples (S, 4) of the shared parameters: of each ln a as many as it deserves.

    What a person told of any example says so: `everywhere` is the model on all of them.
    """
    samples = sample(model, model.sharper(), rng)
    shares = everywhere.shares(torch.stack([each.mean(0) for each in samples]))
    ends = (shares.cumsum(0) * DRAWS).round().long()
    counts = ends.diff(prepend=ends.new_zeros(1)).tolist()
    return torch.cat(
        [
            each[torch.linspace(0, len(each) - 1, count).long()]
            for each, count in zip(samples, counts, strict=True)
        ]
    )


def sample(model: NoiseModel, starts: Tensor, rng: torch.Generator) -> list[Tensor]:
    """Samples (S, 4) from each start (A, 4), with its ln a.

    They come by stretch moves (Goodman and Weare, 2010). Either half of the walkers moves along
    lines to the other half, so all of a half move at once, and those of all starts with them.
    """
    some = [Chances.drawn(model.size, max(500, SAMPLED // model.classes), rng) for _ in starts]
    half, kept = WALKERS // 2, []
    value = model.density(torch.stack([one.rows for one in some]), starts)
    noise = torch.stack([one.noise for one in some])
    noise[..., 0] = 0  # moves along lines between walkers keep ln a as it is
    place = starts[:, None] + 0.15 * noise  # (A, W, 4)
    values = value(place)  # (A, W)
    chances = torch.stack([one.moves for one in some], 3)
    for step, either in enumerate(chances):
        for chance, first in zip(either, (0, half), strict=True):
            mine, others = slice(first, first + half), slice(half - first, WALKERS - first)
            _stretch((place[:, mine], values[:, mine]), place[:, others], value, chance)
        if step >= STEPS // 3:
            kept.append(place.clone())
    return list(torch.cat(kept, 1))


@dataclass(frozen=True, kw_only=True)
class Chances:
    """All that is drawn for the samples from one start."""

    rows: Tensor  # of the model
    noise: Tensor  # (W, 4)
    moves: Tensor  # (steps, 2, 3, W / 2) for either half: towards whom, how far, and if so

    @staticmethod
    def drawn(size: int, most: int, rng: torch.Generator) -> Chances:
        """Chances for some of the examples."""
        return Chances(
            rows=torch.randperm(size, generator=rng)[:most],
            noise=torch.randn(WALKERS, 4, generator=rng, dtype=torch.float64),
            moves=torch.rand(STEPS, 2, 3, WALKERS // 2, generator=rng, dtype=torch.float64),
        )


def _stretch(
    mine: tuple[Tensor, Tensor],
    others: Tensor,
    value: Callable[[Tensor], Tensor],
    chance: Tensor,
) -> None:
    """Propose a move for each walker along the line to one of `others`; take the good ones.

    Args:
        mine: places (A, W / 2, 4) of the walkers and their values, which change.
        others: (A, W / 2, 4) places of the other half.
        value: what it is worth to be at a place.
        chance: (3, A, W / 2) towards whom, how far, and whether.
    """
    place, values = mine
    at = (chance[0] * others.shape[1]).long()[..., None].expand_as(place)
    towards = others.gather(1, at)
    factor = (1 + chance[1]).square() / 2
    move = towards + factor[..., None] * (place - towards)
    new = value(move)
    gain = (place.shape[2] - 2) * factor.log() + new - values
    taken = chance[2].log() < gain
    place[taken], values[taken] = move[taken], new[taken]


def applied(model: NoiseModel, samples: Tensor) -> Explained:
    """Averages over samples (S, 4), for every example of the model."""
    reviewed = not bool(model.possible.all())
    mean, before = torch.zeros_like(model.scores), torch.zeros_like(model.scores)
    wrong = torch.empty(len(samples), model.size, dtype=torch.float64)
    at = model.labels[None, :, None]
    step = max(1, BLOCK // model.scores.numel())
    for start in range(0, len(samples), step):
        shared = samples[start : start + step]
        posterior = model.posterior(shared)
        blind = model.posterior(shared, reviewed=False) if reviewed else posterior
        wrong[start : start + step] = 1 - blind.gather(2, at.expand(len(shared), -1, 1)).squeeze(2)
        mean += posterior.sum(0) / len(samples)
        before += model.truth(shared).sum(0) / len(samples)
    return Explained(
        posterior=mean.numpy(),
        wrong=wrong.numpy(),
        truth=before.numpy(),
        copied=samples[:, -1].sigmoid().mean().item(),
    )


def own_evidence(own_clean: Floats, wrong: Floats) -> tuple[Floats, float]:
    """Log-likelihood ratio for "wrong" (N,) from the method's own score, and the weight it gets.

    A logistic curve of the score's normal ranks is fitted to p(wrong); its slope says how far the
    two agree. Below SILENT the score is left out; one above that, it counts fully.
    """
    if len(own_clean) <= FEWEST_SCORED:
        return np.zeros(len(own_clean)), 0.0
    ranks = -ndtri((mean_ranks(own_clean) - 0.5) / len(own_clean))
    base = float(logit(np.asarray([wrong.mean()]))[0])

    def loss(p: Floats) -> float:
        z = p[0] * ranks + p[1]
        fit = np.logaddexp(0, z) - wrong * z
        return float(fit.mean() + 0.5 / len(ranks) * p[0] ** 2)

    slope, offset = lowest(loss, 0.0, base)
    weight = float(np.clip(slope - SILENT, 0, 1))
    return weight * (slope * ranks + offset - base), weight


def reviewed_curve(z: Floats, outcome: Bools, usual: float) -> tuple[float, float]:
    """Slope and offset on logits of p(wrong), from what reviewers found of the labels they saw.

    Reviewed labels were chosen by their scores, so they say how often a label *with such a score*
    is wrong; that is all that enters here. Priors: slope near the `usual` one, offset wide.
    """

    def loss(p: Floats) -> float:
        fitted = p[0] * z + p[1]
        data = np.logaddexp(0, fitted) - outcome * fitted
        return float(data.sum() + 0.5 * ((p[0] - usual) / 0.15) ** 2 + 0.5 * (p[1] / 2.0) ** 2)

    slope, offset = lowest(loss, usual, 0.0)
    return float(max(slope, 0.2)), float(offset)


def lowest(loss: Callable[[Floats], float], *start: float) -> Floats:
    """Where a smooth loss is lowest, near the start."""
    from scipy.optimize import minimize  # slow to import

    found: Floats = minimize(loss, start).x
    return found


def shifted_to(z: Floats, mean: float) -> Floats:
    """sigmoid(z + c), with the constant c that makes its mean as given."""
    from scipy.optimize import brentq  # slow to import

    def off(c: float) -> float:
        return float(sigmoid(z + c).mean()) - mean

    if off(-8.0) >= 0 or off(8.0) <= 0:  # no constant does it
        return sigmoid(z)
    return sigmoid(z + brentq(off, -8.0, 8.0, xtol=1e-4))


def final_draws(
    draws: Floats, evidence: Floats, own_weight: float, outcome: Floats, error: float = 1.0
) -> Floats:
    """Samples (S, N) of p(wrong): own evidence joined in, gentler, and corrected by review.

    Args:
        draws: (S, N) by the noise model, as if nothing were reviewed.
        evidence: (N,) of the method's own score.
        own_weight: what the evidence counts; it repeats in part what the draws know already.
        outcome: (N,) 1 where review found the label wrong, 0 where right, NaN where not reviewed.
        error: how often the model is expected to be wrong.
    """
    free = np.isnan(outcome)
    out = np.zeros_like(draws)  # what is reviewed is settled
    if not free.any():
        return out
    mean = float(draws[:, free].mean())
    said, slope, offset = logit(draws), TEMPER if error > MORE_ERRORS * mean else SURER, 0.0
    if (~free).sum() >= FEWEST_REVIEWED:
        # by the model alone: the method's own score was told that a reviewed label is right
        slope, offset = reviewed_curve(said[:, ~free].mean(0), outcome[~free] > 0.5, slope)
        mean = float(sigmoid(slope * said[:, free] + offset).mean())
    joined = (said[:, free] + evidence[free]) / (1 + own_weight / 2)
    out[:, free] = shifted_to(slope * joined, mean)
    return out
