"""ELR: early-learning regularisation (Liu and others, NeurIPS 2020).

Before a network memorises a wrong label it predicts the right one. ELR keeps a running average t of
the predictions for every example, and adds λ ln(1 - <p, t>) to cross-entropy: the slope of that
term cancels cross-entropy's on wrongly labelled examples and strengthens it on the others.
Page: docs/methods/elr.md.

Shapes: B batch, C classes, N training examples.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, ClassVar, Literal

import torch
from torch import Tensor

from labelproof import functional as fn
from labelproof.nets.heads import linear
from labelproof.training.learner import SGD, Learner
from labelproof.training.protocol import Logs, Phase
from labelproof.training.run import Run
from labelproof.training.settings import Count, Epochs, NonNegative, Positive, Share, check

SYMMETRIC, ASYMMETRIC = ("0.2", "0.4", "0.5", "0.6", "0.8"), ("0.1", "0.3", "0.4")
CIFAR10_SYMMETRIC: dict[str, object] = {"net": "resnet34"}
CIFAR10_ASYMMETRIC: dict[str, object] = {
    "epochs": 120,
    "beta": 0.9,
    "lam": 1.0,
    "schedule": "steps",
    "decay_at": (40 / 120, 80 / 120),
    "net": "resnet34",
}
CIFAR_100: dict[str, object] = {
    "beta": 0.9,
    "lam": 7.0,
    "schedule": "steps",
    "decay_at": (80 / 150, 120 / 150),
    "net": "resnet34",
}
PUBLISHED: dict[str, dict[str, object]] = {
    **{f"cifar10-asymmetric-{rate}": CIFAR10_ASYMMETRIC for rate in ASYMMETRIC},
    **{f"cifar10-symmetric-{rate}": CIFAR10_SYMMETRIC for rate in SYMMETRIC},
    **{f"cifar100-asymmetric-{rate}": CIFAR_100 for rate in ASYMMETRIC},
    **{f"cifar100-symmetric-{rate}": CIFAR_100 for rate in SYMMETRIC},
}
VECTORS: dict[str, object] = {"epochs": 15, "cycle": 15, "weight_decay": 5e-4, "lam": 2.0}
IMAGES: dict[str, object] = {"epochs": 60}


@dataclass
class State:
    """What changes during training."""

    learner: Learner
    targets: Tensor  # (N, C) t, running averages of predictions
    clean: Tensor  # (N,) share of the given label in t


@dataclass(frozen=True, kw_only=True)
class ELR:
    """Hyper-parameters; defaults are those of the released code for CIFAR-10, symmetric noise."""

    title: ClassVar[str] = "Early-learning regularisation"
    paper: ClassVar[str] = "Liu, Niles-Weed, Razavian and Fernandez-Granda, NeurIPS 2020"
    year: ClassVar[int] = 2020
    cost: ClassVar[str] = "3 N"

    epochs: Count = 150
    batch: Count = 128
    lr: Positive = 0.02
    momentum: Share = 0.9
    weight_decay: NonNegative = 1e-3
    schedule: Literal["cosine", "steps"] = "cosine"
    cycle: Annotated[Count, Epochs()] = 10  # "cosine": epochs until the learning rate starts anew
    lr_floor: NonNegative = 1e-3  # "cosine": where each cycle ends
    decay_at: tuple[Share, ...] = (1 / 3, 2 / 3)  # "steps": shares of the epochs
    decay: Positive = 0.01  # "steps": what the learning rate is multiplied by at each of them
    beta: Share = 0.7  # β, how much of t is kept at each update
    lam: NonNegative = 3.0  # λ, weight of the regulariser

    def __post_init__(self) -> None:
        check(self)

    def plan(self) -> tuple[Phase, ...]:
        """One phase."""
        return (Phase("train", self.epochs, self.train, leave=self.score),)

    def setup(self, run: Run) -> State:
        """One network with a linear head, and targets of 0."""
        sgd = SGD(lr=self.lr, momentum=self.momentum, weight_decay=self.weight_decay)
        return State(
            learner=run.learner(sgd, label=linear),
            targets=torch.zeros(run.task.size, run.task.num_classes, device=run.device),
            clean=torch.ones(run.task.size),
        )

    def train(self, state: State, run: Run) -> Logs:
        """One epoch: the targets of a batch are updated first, then its loss is taken."""
        learner = state.learner
        learner.net.train()
        learner.set_lr(self.learning_rate(run.epoch))
        for batch in run.batches(self.batch):
            logits = learner.net(batch.views[0])
            targets = self.update(state.targets[batch.index], logits.detach())
            state.targets[batch.index] = targets
            run.step(learner, self.loss(logits, batch.y, targets).mean())
        disagree = state.targets.argmax(1) != run.y
        return {"disagree": disagree.float().mean().item()}

    def update(self, targets: Tensor, logits: Tensor) -> Tensor:
        """β t + (1 - β) p / ||p||_1, (B, C)."""
        probs = fn.clipped_softmax(logits)
        return self.beta * targets + (1 - self.beta) * probs / probs.sum(1, keepdim=True)

    def loss(self, logits: Tensor, labels: Tensor, targets: Tensor) -> Tensor:
        """Cross-entropy + λ ln(1 - <p, t>), (B,)."""
        cross_entropy = fn.edl_nll(logits, labels, gamma=0)
        return cross_entropy + self.lam * fn.early_learning_penalty(logits, targets)

    def learning_rate(self, epoch: int) -> float:
        """Half a cosine again and again, or a hundredth at each step."""
        if self.schedule == "cosine":
            return fn.cosine_decay(self.lr, epoch % self.cycle, self.cycle, self.lr_floor)
        milestones = tuple(round(share * self.epochs) for share in self.decay_at)
        return fn.step_decay(self.lr, epoch, milestones, self.decay)

    def score(self, state: State, run: Run) -> None:
        """Clean probability: t_y / ||t||_1, (N,); 1 for an example that never was in a batch."""
        given = state.targets.gather(1, run.y[:, None]).squeeze(1)
        total = state.targets.sum(1)
        state.clean = torch.where(total > 0, given / total, 1.0)

    def predict(self, state: State, x: Tensor) -> Tensor:
        """Softmax, (B, C)."""
        return state.learner.net(x).softmax(1)
