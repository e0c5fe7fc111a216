"""Cross-entropy on the given labels, the control of every comparison. Page: docs/methods/ce.md.

1. One network, softmax, stochastic gradient descent on all given labels.
2. Early epochs fit mostly right labels, late ones memorise the wrong ones, so the best and the last
   epoch differ; both are reported.
3. `loss="edl"` puts the evidential loss of DPC and its calibrated probabilities in their places.

Shapes: B batch, C classes, N training examples.
"""

from __future__ import annotations

from typing import ClassVar, Literal

import torch
from torch import Tensor

from labelproof import functional as fn
from labelproof.nets.heads import linear
from labelproof.training import settings as hp
from labelproof.training.learner import OneNet, sgd_of
from labelproof.training.loop import given_label
from labelproof.training.protocol import About, Logs, one_phase
from labelproof.training.run import Run


@hp.record
class CrossEntropy:
    """Hyper-parameters; defaults are those of the DivideMix convention on CIFAR."""

    about: ClassVar[About] = About(
        title="Cross-entropy",
        paper="none: the baseline of every comparison",
        year=1986,
        cost="3 N",
        evidence=lambda method, state, x: method.objective.log_evidence(state.learner.net(x)),
    )

    epochs: hp.Count = 300
    batch: hp.PerStep = 128
    lr: hp.Positive = 0.02
    momentum: hp.Share = 0.9
    weight_decay: hp.NonNegative = 5e-4
    nesterov: bool = False
    schedule: Literal["step", "one_cycle"] = "step"  # "one_cycle": up for a quarter, then to 0
    decay_at: hp.Share | tuple[hp.Share, ...] = 0.5  # step: lr x 0.1 from this share, or each, on
    loss: Literal["ce", "edl"] = "ce"  # "edl" is L_edl of DPC
    gamma_c: hp.NonNegative = 10.0  # γ C of L_edl
    beta: hp.NonNegative = 0.5  # β of L_edl

    @property
    def objective(self) -> fn.Objective:
        """Loss and probabilities."""
        return fn.Objective(self.loss, self.gamma_c, self.beta)

    plan = one_phase

    def setup(self, run: Run) -> OneNet:
        """One network with a linear head."""
        sgd = sgd_of(self, nesterov=self.nesterov)
        return OneNet(run.learner(sgd, label=linear), torch.ones(run.task.size))

    def train(self, state: OneNet, run: Run) -> Logs:
        """One epoch on the given labels."""
        learner = state.learner
        learner.train_at(self.learning_rate(run))
        for batch in run.batches(self.batch):
            (x,) = batch.views
            run.step(learner, self.objective.of_labels(learner.net(x), batch.y).mean())
        return {}

    def learning_rate(self, run: Run) -> float:
        """By steps, or one cycle, at the middle of each epoch."""
        if self.schedule == "one_cycle":
            return fn.one_cycle(self.lr, run.epoch + 0.5, self.epochs)
        return fn.step_decay(self.lr, run.epoch, self.milestones())

    def milestones(self) -> tuple[int, ...]:
        """Epochs from which the learning rate is lower."""
        shares = self.decay_at if isinstance(self.decay_at, tuple) else (self.decay_at,)
        return tuple(round(share * self.epochs) for share in shares)

    score = given_label

    def predict(self, state: OneNet, x: Tensor) -> Tensor:
        """Class probabilities, (B, C)."""
        return self.objective.probability(state.learner.net(x))
