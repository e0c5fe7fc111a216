"""Bootstrapping, hard and soft (Reed, Lee, Anguelov, Szegedy, Erhan and Rabinovich, 2015).

Paper: https://arxiv.org/abs/1412.6596. No code of its authors is known to us.
Departures: docs/methods/bootstrap.md.

1. The target of every step is β given label + (1 - β) what the network predicts at that moment.
2. Hard: the predicted class is the second label. Soft: the predicted distribution is, which is
   cross-entropy plus an entropy that is to be small.
3. Predictions that agree with each other can so overrule a label that does not.

Shapes: B batch, C classes, N training examples.
"""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal

import torch
from torch import Tensor

from labelproof import functional as fn
from labelproof.nets.heads import linear
from labelproof.training import settings as hp
from labelproof.training.learner import OneNet, sgd_of, softmax_of_net
from labelproof.training.loop import given_label
from labelproof.training.protocol import About, Logs, Phase
from labelproof.training.run import Run

# below one half a single class for everything becomes the best answer
Trust = Annotated[float, hp.Range(0.5, 1)]
PAPER_BETA = {"soft": 0.95, "hard": 0.8}


@hp.record
class Bootstrap:
    """Hyper-parameters; β is the paper's, the rest as Patrini and others had it on CIFAR-10."""

    about: ClassVar[About] = About(
        title="Bootstrapping",
        paper="Reed, Lee, Anguelov, Szegedy, Erhan and Rabinovich, ICLR workshop 2015",
        year=2015,
        link="https://arxiv.org/abs/1412.6596",
        cost="3 N",
    )

    epochs: hp.Count = 120
    warmup: hp.WarmUp = 0  # epochs of cross-entropy first
    batch: hp.PerStep = 128
    lr: hp.Positive = 0.1
    momentum: hp.Share = 0.9
    weight_decay: hp.NonNegative = 2e-4  # Keras' l2(1e-4): its slope is 2e-4 w
    decay_at: tuple[hp.Share, ...] = (1 / 3, 2 / 3)  # lr x 0.1 from these shares of the epochs on
    target: Literal["hard", "soft"] = "hard"
    beta: Trust | None = None  # β, weight of the given label; None: 0.8 hard, 0.95 soft

    def plan(self) -> tuple[Phase, ...]:
        """Cross-entropy for the warm-up, then bootstrapping."""
        return (
            Phase("warm-up", self.warmup, self.train),
            Phase("bootstrap", self.epochs - self.warmup, self.train, leave=self.score),
        )

    def setup(self, run: Run) -> OneNet:
        """One network with a linear head."""
        return OneNet(run.learner(sgd_of(self), label=linear), torch.ones(run.task.size))

    def train(self, state: OneNet, run: Run) -> Logs:
        """One epoch; the targets are made anew in every step."""
        learner = state.learner
        learner.train_at(fn.stair_decay(self.lr, run.epoch, self.epochs, self.decay_at))
        beta = self.label_weight(run.epoch)
        for batch in run.batches(self.batch):
            logits = learner.net(batch.views[0])
            run.step(learner, self.loss(logits, batch.y, beta).mean())
        return {}

    def label_weight(self, epoch: int) -> float:
        """β, and 1 during the warm-up."""
        if epoch < self.warmup:
            return 1.0
        return PAPER_BETA[self.target] if self.beta is None else self.beta

    def loss(self, logits: Tensor, labels: Tensor, beta: float) -> Tensor:
        """Cross-entropy with β label + (1 - β) prediction, (B,)."""
        cross_entropy = fn.edl_nll(logits, labels, gamma=0)
        if self.target == "hard":
            other = fn.edl_nll(logits, logits.argmax(1), gamma=0)
        else:
            # the entropy of p: the slope goes through the target too, or this part would have none
            other = fn.soft_cross_entropy(logits, logits.softmax(1))
        return beta * cross_entropy + (1 - beta) * other

    predict = softmax_of_net
    score = given_label
