"""Bootstrapping, hard and soft (Reed, Lee, Anguelov, Szegedy, Erhan and Rabinovich, 2015).

The target of every step is part given label, part what the network predicts at that moment, so that
predictions which agree with each other can overrule a label that does not. Soft bootstrapping is
cross-entropy plus an entropy that is to be small; hard bootstrapping takes the predicted class for
a second label. Page: docs/methods/bootstrap.md.

Shapes: B batch, C classes, N training examples.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, ClassVar, Literal

import torch
from torch import Tensor

from labelproof import functional as fn
from labelproof.errors import BadInput
from labelproof.nets.heads import linear
from labelproof.training.learner import SGD, Learner
from labelproof.training.protocol import Logs, Phase
from labelproof.training.run import Run
from labelproof.training.settings import Count, Natural, NonNegative, Positive, Range, Share, check

# below one half a single class for everything becomes the best answer
Trust = Annotated[float, Range(0.5, 1)]
PAPER_BETA = {"soft": 0.95, "hard": 0.8}
NOISES = "symmetric-0.2 symmetric-0.5 symmetric-0.8 asymmetric-0.1 asymmetric-0.3 asymmetric-0.4"
CIFAR_100: dict[str, object] = {
    "epochs": 150,
    "weight_decay": 1e-3,
    "decay_at": (80 / 150, 120 / 150),
}
OURS: dict[str, object] = {"ours": True}  # its authors did not try CIFAR
PUBLISHED: dict[str, dict[str, object]] = {
    **{f"cifar10-{noise}": OURS for noise in NOISES.split()},
    **{f"cifar100-{noise}": {**CIFAR_100, **OURS} for noise in NOISES.split()},
    "cifar10-soft": {"target": "soft", **OURS},
    "cifar100-soft": {**CIFAR_100, "target": "soft", **OURS},
}
OWN: dict[str, object] = {"lr": 0.02, "weight_decay": 5e-4, "decay_at": (0.5,)}
VECTORS: dict[str, object] = {**OWN, "epochs": 10, "warmup": 3, "beta": 0.6}
IMAGES: dict[str, object] = {**OWN, "epochs": 60, "warmup": 10}


@dataclass
class State:
    """What changes during training."""

    learner: Learner
    clean: Tensor  # (N,) probability of the given label


@dataclass(frozen=True, kw_only=True)
class Bootstrap:
    """Hyper-parameters; β is the paper's, the rest as Patrini and others had it on CIFAR-10."""

    title: ClassVar[str] = "Bootstrapping"
    paper: ClassVar[str] = "Reed, Lee, Anguelov, Szegedy, Erhan and Rabinovich, ICLR workshop 2015"
    year: ClassVar[int] = 2015
    cost: ClassVar[str] = "3 N"

    epochs: Count = 120
    warmup: Natural = 0  # epochs of cross-entropy first
    batch: Count = 128
    lr: Positive = 0.1
    momentum: Share = 0.9
    weight_decay: NonNegative = 1e-4
    decay_at: tuple[Share, ...] = (1 / 3, 2 / 3)  # lr x 0.1 from these shares of the epochs on
    target: Literal["hard", "soft"] = "hard"
    beta: Trust | None = None  # β, weight of the given label; None: 0.8 hard, 0.95 soft

    def __post_init__(self) -> None:
        check(self)
        if self.warmup >= self.epochs:
            raise BadInput(
                f"Bootstrap: warmup must be smaller than epochs, "
                f"not {self.warmup} of {self.epochs}; set one of them."
            )

    def plan(self) -> tuple[Phase, ...]:
        """Cross-entropy for the warm-up, then bootstrapping."""
        return (
            Phase("warm-up", self.warmup, self.train),
            Phase("bootstrap", self.epochs - self.warmup, self.train, leave=self.score),
        )

    def setup(self, run: Run) -> State:
        """One network with a linear head."""
        sgd = SGD(lr=self.lr, momentum=self.momentum, weight_decay=self.weight_decay)
        return State(run.learner(sgd, label=linear), torch.ones(run.task.size))

    def train(self, state: State, run: Run) -> Logs:
        """One epoch; the targets are made anew in every step."""
        learner = state.learner
        learner.net.train()
        milestones = tuple(round(share * self.epochs) for share in self.decay_at)
        learner.set_lr(fn.step_decay(self.lr, run.epoch, milestones))
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

    def score(self, state: State, run: Run) -> None:
        """Clean probability: what the trained network gives the given label, (N,)."""
        probs = run.predict(state.learner.net).softmax(1)
        state.clean = probs.gather(1, run.y[:, None]).squeeze(1)

    def predict(self, state: State, x: Tensor) -> Tensor:
        """Softmax, (B, C)."""
        return state.learner.net(x).softmax(1)
