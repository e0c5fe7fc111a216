"""Active Bias: emphasise uncertain examples (Chang, Learned-Miller and McCallum, NeurIPS 2017).

After a burn-in, examples count by how uncertain the network has been about their given label: by
the spread of its past probabilities of that label (SGD-WPV, "variance"), or by how near their mean
is to the threshold (SGD-WTC, "threshold"). Easy examples and hopeless ones, among them wrong
labels, count less.

Paper: https://arxiv.org/abs/1704.07433. Authors' code: none found.
Departures: docs/methods/active_bias.md.
Shapes: B batch, C classes, N training examples.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

import torch
import torch.nn.functional as F
from torch import Tensor

from labelproof import functional as fn
from labelproof.nets.heads import linear
from labelproof.training import settings as hp
from labelproof.training.learner import Learner, sgd_of, softmax_of_net
from labelproof.training.protocol import About, Logs, Phase
from labelproof.training.run import Run


@dataclass
class State:
    """What changes during training."""

    learner: Learner
    count: Tensor  # (N,) past probabilities of the given label,
    total: Tensor  # (N,) their sum,
    squares: Tensor  # (N,) and the sum of their squares
    clean: Tensor  # (N,) their mean


@hp.record
class ActiveBias:
    """Hyper-parameters; defaults are those of the paper's residual network on CIFAR-10."""

    about: ClassVar[About] = About(
        title="Active Bias",
        paper="Chang, Learned-Miller and McCallum, NeurIPS 2017",
        year=2017,
        link="https://arxiv.org/abs/1704.07433",
        cost="3 N",
    )

    epochs: hp.Count = 100
    warmup: hp.WarmUp = 20  # epochs with equal weights
    batch: hp.PerStep = 128
    lr: hp.Positive = 0.1
    decay_at: tuple[hp.Share, ...] = (0.5, 0.75)  # lr x 0.1 from each share of the epochs on
    momentum: hp.Share = 0.9
    weight_decay: hp.NonNegative = 5e-4
    kind: Literal["variance", "threshold"] = "variance"
    smooth: hp.NonNegative = 1.0  # ε, as a share of the mean uncertainty

    def plan(self) -> tuple[Phase, ...]:
        """Equal weights, then weights by uncertainty."""
        return (
            Phase("warm-up", self.warmup, self.warm_up),
            Phase("weighted", self.epochs - self.warmup, self.weighted, leave=self.score),
        )

    def setup(self, run: Run) -> State:
        """One network, no history."""
        none = torch.zeros(run.task.size, device=run.device)
        learner = run.learner(sgd_of(self), label=linear)
        return State(learner, none, none.clone(), none.clone(), torch.ones(run.task.size))

    predict = softmax_of_net

    def warm_up(self, state: State, run: Run) -> Logs:
        """One epoch with equal weights; probabilities are remembered."""
        self.epoch(state, run, torch.ones(run.task.size, device=run.device))
        return {}

    def weighted(self, state: State, run: Run) -> Logs:
        """One epoch with weights from the history up to now, their mean 1."""
        uncertainty = self.uncertainty(state)
        weights = uncertainty + self.smooth * uncertainty.mean()
        mean = weights.mean()
        weights = weights / mean if mean > 0 else torch.ones_like(weights)
        self.epoch(state, run, weights)
        return {"largest": weights.max().item()}

    def uncertainty(self, state: State) -> Tensor:
        """Of every example's given label, (N,); the mean of the others where nothing is known."""
        known = state.count > 1
        mean = state.total / state.count.clamp(min=1)
        if self.kind == "threshold":
            values = mean * (1 - mean)
        else:
            variance = (state.squares / state.count.clamp(min=1) - mean**2).clamp(min=0)
            values = deviation(variance, state.count.clamp(min=2))
        usual = values[known].mean() if known.any() else torch.ones_like(mean).mean()
        return torch.where(known, values, usual)

    def epoch(self, state: State, run: Run, weights: Tensor) -> None:
        """One epoch of weighted cross-entropy."""
        learner = state.learner
        learner.train_at(fn.stair_decay(self.lr, run.epoch, self.epochs, self.decay_at))
        for batch in run.batches(self.batch):
            losses = F.cross_entropy(learner.net(batch.views[0]), batch.y, reduction="none")
            given = (-losses.detach()).exp()
            state.count[batch.index] += 1
            state.total[batch.index] += given
            state.squares[batch.index] += given**2
            run.step(learner, (weights[batch.index] * losses).mean())

    def score(self, state: State, run: Run) -> None:
        """Clean probability: mean of the past probabilities of the given label, (N,)."""
        now = fn.of_label(run.predict(state.learner.net).softmax(1), run.y)
        mean = (state.total + now) / (state.count + 1)
        state.clean = run.trusted(mean)


def deviation(variance: Tensor, count: Tensor) -> Tensor:
    """sqrt(v + v² / (n - 1)): a spread with the confidence of its estimate from n values."""
    return (variance + variance**2 / (count - 1)).sqrt()
