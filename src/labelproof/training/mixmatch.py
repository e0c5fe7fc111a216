"""What methods that train on a labelled and an unlabelled part repeat word for word.

The flow of each stays in its own file: how the set is split, and which losses count.

Shapes: B batch, C classes, N training examples; X labelled part, U unlabelled part of a split.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import repeat

import torch
from torch import Tensor

from labelproof import functional as fn
from labelproof.training.batches import Batch, Batches
from labelproof.training.learner import Learner
from labelproof.training.run import Run

Probability = Callable[[Tensor], Tensor]  # logits to probabilities, (B, C)


@dataclass(frozen=True)
class Mixed:
    """A mixed batch: rows of X first, then rows of U, two views each."""

    x: Tensor
    targets: Tensor  # (rows, C)
    labelled: int  # how many rows come from X


@dataclass(frozen=True)
class Guess:
    """Targets by the mean prediction of several views, sharpened."""

    probability: Probability
    temperature: float  # T
    views: int = 2

    def refined(self, learner: Learner, x: Batch, given: Tensor, clean: Tensor) -> Tensor:
        """w y + (1 - w) p with the mean p of the views, sharpened, (B, C)."""
        probs = self.probability(learner.net(torch.cat(x.views[: self.views])))
        w, mean = clean[:, None].float(), probs.view(self.views, len(x.index), -1).mean(0)
        return fn.sharpen(w * given + (1 - w) * mean, self.temperature)

    def guessed(self, learner: Learner, peer: Learner, u: Batch) -> Tensor:
        """Mean of both networks over the views, sharpened, (B, C)."""
        views = torch.cat(u.views[: self.views])
        both = self.probability(torch.cat([learner.net(views), peer.net(views)]))
        mean = both.view(2 * self.views, len(u.index), -1).mean(0)
        return fn.sharpen(mean, self.temperature)


@dataclass(frozen=True)
class GivenLabels:
    """An epoch on all given labels, as a warm-up has it."""

    loss: Callable[[Tensor, Tensor], Tensor]  # of logits (B, C) and labels, (B,)
    probability: Probability
    penalty: float  # weight of the negative entropy

    def fit(self, learner: Learner, run: Run, size: int, lr: float) -> None:
        """One epoch of one network in batches of this size."""
        learner.net.train()
        learner.set_lr(lr)
        for batch in run.batches(size):
            logits = learner.net(batch.views[0])
            losses = [self.loss(logits, batch.y).mean()]
            if self.penalty:
                losses.append(self.penalty * fn.neg_entropy(self.probability(logits)).mean())
            run.step(learner, *losses)


def parts(kept: Tensor) -> tuple[Tensor, Tensor]:
    """Which examples belong to X and which to U, from a mask (N,)."""
    return kept.nonzero().squeeze(1), (~kept).nonzero().squeeze(1)


def pairs(batches: Batches, others: Batches) -> Iterator[tuple[Batch, Batch | None]]:
    """Batches of X with one of U each; with None where U is empty."""
    return zip(batches, others if len(others.index) else repeat(None), strict=False)


def square_loss(probs: Tensor, targets: Tensor, over: str = "mean") -> Tensor:
    """||p - t||², mean of the rows and, unless it is a "sum", of the classes; a scalar."""
    square = (probs - targets) ** 2
    return square.mean() if over == "mean" else square.sum(1).mean()
