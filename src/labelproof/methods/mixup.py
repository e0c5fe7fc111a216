"""mixup (Zhang, Cissé, Dauphin and Lopez-Paz, ICLR 2018).

Paper: https://arxiv.org/abs/1710.09412. Code of its authors:
https://github.com/facebookresearch/mixup-cifar10. Departures: docs/methods/mixup.md.

1. Each batch is mixed with a shuffled copy of itself, inputs and labels alike.
2. One weight a batch is drawn from Beta(α, α).
3. The network is pushed to behave linearly between examples, which slows the memorising of wrong
   labels; the larger α, the more.
4. `loss="edl"` puts L_edl of DPC and its calibrated probabilities in their places.

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
class Mixup:
    """Hyper-parameters; defaults are those of the released code for CIFAR."""

    about: ClassVar[About] = About(
        title="mixup",
        paper="Zhang, Cissé, Dauphin and Lopez-Paz, ICLR 2018",
        year=2018,
        link="https://arxiv.org/abs/1710.09412",
        code="https://github.com/facebookresearch/mixup-cifar10",
        cost="3 N",
        evidence=lambda method, state, x: method.objective.log_evidence(state.learner.net(x)),
    )

    epochs: hp.Count = 200
    batch: hp.PerStep = 128
    lr: hp.Positive = 0.1
    momentum: hp.Share = 0.9
    weight_decay: hp.NonNegative = 1e-4
    decay_at: tuple[hp.Share, ...] = (
        0.5,
        0.75,
    )  # lr x 0.1 from each of these shares of the epochs on
    alpha: hp.NonNegative = 1.0  # α of Beta(α, α); 0 mixes nothing
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
        return OneNet(run.learner(sgd_of(self), label=linear), torch.ones(run.task.size))

    def train(self, state: OneNet, run: Run) -> Logs:
        """One epoch on mixed batches."""
        learner = state.learner
        learner.train_at(fn.stair_decay(self.lr, run.epoch, self.epochs, self.decay_at))
        for batch in run.batches(self.batch):
            (x,) = batch.views
            mixed, weight, permutation = fn.mixup(x, self.alpha, run.rng, run.device_rng)
            losses = self.mixed_loss(learner.net(mixed), batch.y, weight, permutation)
            run.step(learner, losses.mean())
        return {}

    def mixed_loss(
        self, logits: Tensor, labels: Tensor, weight: float, permutation: Tensor
    ) -> Tensor:
        """λ L(own label) + (1 - λ) L(partner's label), both on the mixed input, (B,)."""
        own, partner = (
            self.objective.of_labels(logits, labels),
            self.objective.of_labels(logits, labels[permutation]),
        )
        return weight * own + (1 - weight) * partner

    score = given_label

    def predict(self, state: OneNet, x: Tensor) -> Tensor:
        """Class probabilities of unmixed inputs, (B, C)."""
        return self.objective.probability(state.learner.net(x))
