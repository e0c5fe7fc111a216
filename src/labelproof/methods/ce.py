"""Cross-entropy on the given labels, the control of every comparison.

One network, softmax, stochastic gradient descent. Early epochs fit mostly right labels, late ones
memorise the wrong ones, so the best and the last epoch differ; both are reported. `loss="edl"` puts
the evidential loss of DPC and its calibrated probabilities in their places.
Page: docs/methods/ce.md.

Shapes: B batch, C classes, N training examples.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

import torch
from torch import Tensor

from labelproof import functional as fn
from labelproof.nets.heads import linear
from labelproof.training.learner import SGD, Learner
from labelproof.training.protocol import Logs, Phase
from labelproof.training.run import Run
from labelproof.training.settings import Count, NonNegative, Positive, Share, check

CIFAR_N: dict[str, object] = {"epochs": 100, "lr": 0.1, "decay_at": 0.6, "net": "resnet34"}
# as ELR and SOP train; there the learning rate falls to a hundredth, so each share is named twice
PROTOCOL_B: dict[str, object] = {"weight_decay": 1e-3, "net": "resnet34"}
C10_B: dict[str, object] = {"epochs": 120, "decay_at": (1 / 3, 1 / 3, 2 / 3, 2 / 3)}
C100_B: dict[str, object] = {"epochs": 150, "decay_at": (80 / 150, 80 / 150, 0.8, 0.8)}
HUMANS = ("aggre", "rand1", "rand2", "rand3", "worst")
NOISES = "symmetric-0.2 symmetric-0.5 symmetric-0.8 asymmetric-0.1 asymmetric-0.3 asymmetric-0.4"
PUBLISHED: dict[str, dict[str, object]] = {
    **{f"{data}-{noise}": {} for data in ("cifar10", "cifar100") for noise in NOISES.split()},
    **{f"cifar10n-{labels}": CIFAR_N for labels in HUMANS},
    "cifar100n": CIFAR_N,
    "cifar10-protocol-b": {**PROTOCOL_B, **C10_B},
    "cifar100-protocol-b": {**PROTOCOL_B, **C100_B},
}
VECTORS: dict[str, object] = {"epochs": 10, "lr": 0.05, "weight_decay": 5e-3}
IMAGES: dict[str, object] = {"epochs": 60}


@dataclass
class State:
    """What changes during training."""

    learner: Learner
    clean: Tensor  # (N,) probability of the given label


@dataclass(frozen=True, kw_only=True)
class CrossEntropy:
    """Hyper-parameters; defaults are those of the DivideMix convention on CIFAR."""

    title: ClassVar[str] = "Cross-entropy"
    paper: ClassVar[str] = "none: the control of every comparison"
    year: ClassVar[int] = 1986
    cost: ClassVar[str] = "3 N"

    epochs: Count = 300
    batch: Count = 128
    lr: Positive = 0.02
    momentum: Share = 0.9
    weight_decay: NonNegative = 5e-4
    decay_at: Share | tuple[Share, ...] = 0.5  # lr x 0.1 from this share, or each, of the epochs on
    loss: Literal["ce", "edl"] = "ce"  # "edl" is L_edl of DPC
    gamma_c: NonNegative = 10.0  # γ C of L_edl
    beta: NonNegative = 0.5  # β of L_edl

    def __post_init__(self) -> None:
        check(self)

    def plan(self) -> tuple[Phase, ...]:
        """One phase."""
        return (Phase("train", self.epochs, self.train, leave=self.score),)

    def setup(self, run: Run) -> State:
        """One network with a linear head."""
        sgd = SGD(lr=self.lr, momentum=self.momentum, weight_decay=self.weight_decay)
        return State(run.learner(sgd, label=linear), torch.ones(run.task.size))

    def train(self, state: State, run: Run) -> Logs:
        """One epoch on the given labels."""
        learner = state.learner
        learner.net.train()
        learner.set_lr(fn.step_decay(self.lr, run.epoch, self.milestones()))
        for batch in run.batches(self.batch):
            (x,) = batch.views
            run.step(learner, self.supervised(learner.net(x), batch.y).mean())
        return {}

    def milestones(self) -> tuple[int, ...]:
        """Epochs from which the learning rate is lower."""
        shares = self.decay_at if isinstance(self.decay_at, tuple) else (self.decay_at,)
        return tuple(round(share * self.epochs) for share in shares)

    def supervised(self, logits: Tensor, labels: Tensor) -> Tensor:
        """Cross-entropy, or L_edl = L_nll + β L_kl, (B,)."""
        beta = self.beta if self.loss == "edl" else 0.0
        return fn.edl_loss(logits, labels, self.gamma(logits), beta)

    def probability(self, logits: Tensor) -> Tensor:
        """Softmax, calibrated when trained with L_edl, (B, C)."""
        return fn.calibrated_softmax(logits, self.gamma(logits))

    def gamma(self, logits: Tensor) -> float:
        """γ from γ C; 0 is the plain softmax."""
        return self.gamma_c / logits.shape[1] if self.loss == "edl" else 0.0

    def score(self, state: State, run: Run) -> None:
        """Clean probability: what the trained network gives the given label, (N,)."""
        probs = self.probability(run.predict(state.learner.net))
        state.clean = probs.gather(1, run.y[:, None]).squeeze(1)

    def predict(self, state: State, x: Tensor) -> Tensor:
        """Class probabilities, (B, C)."""
        return self.probability(state.learner.net(x))
