"""Samples of the noise model's parameters: what is known of the labels, and how surely.

Shapes: C classes, N examples, S samples, W walkers.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from labelproof.judging.noise_model import NoiseModel, Prior
from labelproof.judging.numbers import Floats, Ints

NUMBERS = 300_000  # scores that the model is fitted to, at the most
FEWEST = 5000  # examples it is fitted to, unless there are fewer
WALKERS = 8  # for each value of ln a
STEPS = 40
SAMPLED = 30_000  # scores that enter the samples: more would make them surer than they deserve
DRAWS = 40
BLOCK = 2_000_000  # numbers held at a time


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
