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
    samples = [sample(model, start, rng) for start in model.sharper()]
    shares = everywhere.shares(torch.stack([each.mean(0) for each in samples]))
    ends = (shares.cumsum(0) * DRAWS).round().long()
    counts = ends.diff(prepend=ends.new_zeros(1)).tolist()
    return torch.cat(
        [
            each[torch.linspace(0, len(each) - 1, count).long()]
            for each, count in zip(samples, counts, strict=True)
        ]
    )


def sample(model: NoiseModel, start: Tensor, rng: torch.Generator) -> Tensor:
    """Samples (S, 4) with the ln a of a start (4,), by stretch moves (Goodman and Weare, 2010).

    Either half of the walkers moves along lines to the other half, so all of a half move at once.
    """
    rows = torch.randperm(model.size, generator=rng)[: max(500, SAMPLED // model.classes)]

    truth = model.truth(start[None], rows)  # ln a is the same in all samples

    def value(shared: Tensor) -> Tensor:
        return model.log_likelihood(shared, rows, truth) + model.log_prior(shared)

    noise = torch.randn(WALKERS, len(start), generator=rng, dtype=torch.float64)
    noise[:, 0] = 0  # moves along lines between walkers keep ln a as it is
    place = start + 0.15 * noise
    values, half, kept = value(place), WALKERS // 2, []
    for step in range(STEPS):
        for first in (0, half):
            mine = torch.arange(first, first + half)
            _stretch(place, values, mine, (mine + half) % WALKERS, value, rng)
        if step >= STEPS // 3:
            kept.append(place.clone())
    return torch.cat(kept)


def _stretch(
    place: Tensor,
    values: Tensor,
    mine: Tensor,
    others: Tensor,
    value: Callable[[Tensor], Tensor],
    rng: torch.Generator,
) -> None:
    """Propose a move for each of `mine` along the line to one of `others`; take the good ones."""
    chance = torch.rand(3, len(mine), generator=rng, dtype=torch.float64)
    towards = place[others[(chance[0] * len(others)).long()]]
    factor = (1 + chance[1]).square() / 2
    move = towards + factor[:, None] * (place[mine] - towards)
    new = value(move)
    gain = (place.shape[1] - 2) * factor.log() + new - values[mine]
    taken = mine[chance[2].log() < gain]
    at = taken - mine[0]
    place[taken], values[taken] = move[at], new[at]


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
