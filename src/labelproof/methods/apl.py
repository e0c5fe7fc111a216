"""APL: active and passive losses (Ma, Huang, Wang, Romano, Erfani and Bailey, ICML 2020).

Any loss becomes robust to symmetric noise once it is divided by its sum over all labels, but then
it underfits. APL adds two robust losses: an active one, which raises the given label's probability
(normalised cross-entropy or focal loss), and a passive one, which lowers the others' (absolute
error or reverse cross-entropy).

Paper: https://arxiv.org/abs/2006.13554. Authors' code:
https://github.com/HanxunH/Active-Passive-Losses. Departures: docs/methods/apl.md.
Shapes: B batch, C classes, N training examples.
"""

from __future__ import annotations

import math
from typing import ClassVar, Literal

import torch
from torch import Tensor

from labelproof import functional as fn
from labelproof.nets.heads import linear
from labelproof.training import settings as hp
from labelproof.training.learner import OneNet, sgd_of, softmax_of_net
from labelproof.training.loop import given_label
from labelproof.training.protocol import About, Logs, one_phase
from labelproof.training.run import Run

LEAST = 1e-4  # what 0 is in the logarithm of a label


@hp.record
class APL:
    """Hyper-parameters; defaults are those of the released code for CIFAR-10."""

    about: ClassVar[About] = About(
        title="APL: normalised active and passive losses",
        paper="Ma, Huang, Wang, Romano, Erfani and Bailey, ICML 2020",
        year=2020,
        link="https://arxiv.org/abs/2006.13554",
        code="https://github.com/HanxunH/Active-Passive-Losses",
        cost="3 N",
    )

    epochs: hp.Count = 120
    batch: hp.PerStep = 128
    lr: hp.Positive = 0.01  # falls to 0 along half a cosine
    momentum: hp.Share = 0.9
    weight_decay: hp.NonNegative = 1e-4
    active: Literal["nce", "nfl"] = "nce"
    passive: Literal["rce", "mae", "none"] = "rce"  # "none": the normalised loss alone
    active_weight: hp.NonNegative = 1.0  # α
    passive_weight: hp.NonNegative = 1.0  # β
    focus: hp.NonNegative = 0.5  # γ of the focal loss
    clip: hp.Positive = 5.0  # largest norm of a gradient

    plan = one_phase

    def setup(self, run: Run) -> OneNet:
        """One network, its gradients cut."""
        return OneNet(run.learner(sgd_of(self), label=linear), torch.ones(run.task.size))

    predict = softmax_of_net
    score = given_label

    def train(self, state: OneNet, run: Run) -> Logs:
        """One epoch on the given labels."""
        learner = state.learner
        learner.train_at(fn.cosine_decay(self.lr, run.epoch, self.epochs))
        with learner.clipped(self.clip):
            for batch in run.batches(self.batch):
                run.step(learner, self.loss(learner.net(batch.views[0]), batch.y).mean())
        return {}

    def loss(self, logits: Tensor, labels: Tensor) -> Tensor:
        """α L_active + β L_passive, (B,)."""
        focus = 0.0 if self.active == "nce" else self.focus
        loss = self.active_weight * normalised_focal(logits, labels, focus)
        if self.passive == "none":
            return loss
        scale = -math.log(LEAST) if self.passive == "rce" else 1.0
        return loss + self.passive_weight * scale * absolute_error(logits, labels)


def normalised_focal(logits: Tensor, labels: Tensor, focus: float) -> Tensor:
    """(1 - p_y)^γ ln p_y / Σ_k (1 - p_k)^γ ln p_k, factors held fixed; γ = 0 is NCE, (B,)."""
    logs = logits.log_softmax(1)
    if focus:
        logs = (1 - logs.detach().exp()).clamp(min=0) ** focus * logs
    return fn.of_label(logs, labels) / logs.sum(1)


def absolute_error(logits: Tensor, labels: Tensor) -> Tensor:
    """1 - p_y, half the absolute error; times -ln 1e-4 it is the reverse cross-entropy, (B,)."""
    return 1 - fn.of_label(logits.softmax(1), labels)
