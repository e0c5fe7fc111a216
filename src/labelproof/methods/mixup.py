"""mixup (Zhang, Cissé, Dauphin and Lopez-Paz, ICLR 2018).

Each batch is mixed with a shuffled copy of itself, inputs and labels alike, with one weight drawn
from Beta(α, α). The network is pushed to behave linearly between examples, which slows the
memorising of wrong labels; the larger α, the more. `loss="edl"` puts the evidential loss of DPC and
its calibrated probabilities in the places of cross-entropy and softmax.
Page: docs/methods/mixup.md.

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

# the tables of DivideMix, which later papers copy; their α is nowhere stated
TABLES: dict[str, object] = {"epochs": 300, "lr": 0.02, "weight_decay": 5e-4, "decay_at": (0.5,)}
NOISES = "symmetric-0.2 symmetric-0.5 symmetric-0.8 asymmetric-0.1 asymmetric-0.3 asymmetric-0.4"
PUBLISHED: dict[str, dict[str, object]] = {
    **{f"{data}-{noise}": TABLES for data in ("cifar10", "cifar100") for noise in NOISES.split()},
    "cifar10-clean": {},  # the authors' main table, and their study of corrupted labels
    "cifar10-corrupted-alpha-8": {"alpha": 8.0},
    "cifar10-corrupted-alpha-32": {"alpha": 32.0},
}
VECTORS: dict[str, object] = {**TABLES, "epochs": 15}
IMAGES: dict[str, object] = {**TABLES, "epochs": 60, "alpha": 4.0}


@dataclass
class State:
    """What changes during training."""

    learner: Learner
    clean: Tensor  # (N,) probability of the given label


@dataclass(frozen=True, kw_only=True)
class Mixup:
    """Hyper-parameters; defaults are those of the released code for CIFAR."""

    title: ClassVar[str] = "mixup"
    paper: ClassVar[str] = "Zhang, Cissé, Dauphin and Lopez-Paz, ICLR 2018"
    year: ClassVar[int] = 2018
    cost: ClassVar[str] = "3 N"

    epochs: Count = 200
    batch: Count = 128
    lr: Positive = 0.1
    momentum: Share = 0.9
    weight_decay: NonNegative = 1e-4
    decay_at: tuple[Share, ...] = (0.5, 0.75)  # lr x 0.1 from each of these shares of the epochs on
    alpha: NonNegative = 1.0  # α of Beta(α, α); 0 mixes nothing
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
        """One epoch on mixed batches."""
        learner = state.learner
        learner.net.train()
        milestones = tuple(round(share * self.epochs) for share in self.decay_at)
        learner.set_lr(fn.step_decay(self.lr, run.epoch, milestones))
        for batch in run.batches(self.batch):
            (x,) = batch.views
            mixed, weight, permutation = fn.mixup(x, self.alpha, run.rng)
            losses = self.mixed_loss(learner.net(mixed), batch.y, weight, permutation)
            run.step(learner, losses.mean())
        return {}

    def mixed_loss(
        self, logits: Tensor, labels: Tensor, weight: float, permutation: Tensor
    ) -> Tensor:
        """λ L(own label) + (1 - λ) L(partner's label), both on the mixed input, (B,)."""
        own, partner = self.supervised(logits, labels), self.supervised(logits, labels[permutation])
        return weight * own + (1 - weight) * partner

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
        """Class probabilities of unmixed inputs, (B, C)."""
        return self.probability(state.learner.net(x))
