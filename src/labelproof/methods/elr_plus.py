"""ELR+: two networks, averaged weights and mixup (Liu and others, NeurIPS 2020).

As in ELR, a running average t of predictions for every example keeps the network from memorising.
Here each of two networks takes its t from the other's slowly averaged copy, on unmixed inputs,
while it is itself trained on mixed ones: labels and targets are mixed with the same weight.
Page: docs/methods/elr_plus.md.

Shapes: B batch, C classes, N training examples.
"""

from __future__ import annotations

from copy import deepcopy
from dataclasses import dataclass
from typing import Annotated, ClassVar, Literal

import torch
from torch import Tensor
from torch.nn.functional import one_hot

from labelproof import functional as fn
from labelproof.nets.heads import MultiHead, linear
from labelproof.training.batches import Batch
from labelproof.training.learner import SGD, Learner
from labelproof.training.protocol import Logs, Phase
from labelproof.training.run import Run
from labelproof.training.settings import Count, Epochs, NonNegative, Positive, Share, check

SYMMETRIC, ASYMMETRIC = ("0.2", "0.5", "0.8"), ("0.1", "0.3", "0.4")
CIFAR_100: dict[str, object] = {
    "epochs": 250,
    "decay_at": 0.8,
    "beta": 0.9,
    "lam": 7.0,
    "lam_ramp": 40_000 / 352,
    "agree": True,
}
WEBVISION: dict[str, object] = {
    "epochs": 100,
    "batch": 32,
    "decay_at": 0.5,
    "alpha": 1.5,
    "average": "running",
    "net": "inception_resnet_v2",
}
PUBLISHED: dict[str, dict[str, object]] = {
    **{f"cifar10-symmetric-{rate}": {} for rate in SYMMETRIC},
    **{f"cifar10-asymmetric-{rate}": {"beta": 0.9, "lam": 1.0} for rate in ASYMMETRIC},
    **{f"cifar100-symmetric-{rate}": CIFAR_100 for rate in SYMMETRIC},
    **{f"cifar100-asymmetric-{rate}": CIFAR_100 for rate in ASYMMETRIC},
    "webvision": WEBVISION,
}
VECTORS: dict[str, object] = {"epochs": 12, "lr": 0.05, "lam": 2.0, "average_ramp": 4.0}
IMAGES: dict[str, object] = {"epochs": 60, "average_ramp": 30.0}


@dataclass
class Side:
    """One of the two networks with what belongs to it."""

    learner: Learner
    average: MultiHead  # slowly following copy of the network
    targets: Tensor  # (N, C) t, running averages of the peer's predictions


@dataclass
class State:
    """What changes during training."""

    sides: tuple[Side, Side]
    clean: Tensor  # (N,) share of the given label in t of both


@dataclass(frozen=True, kw_only=True)
class ELRPlus:
    """Hyper-parameters; defaults are those of the released code for CIFAR-10, symmetric noise."""

    title: ClassVar[str] = "Early-learning regularisation with two networks"
    paper: ClassVar[str] = "Liu, Niles-Weed, Razavian and Fernandez-Granda, NeurIPS 2020"
    year: ClassVar[int] = 2020
    cost: ClassVar[str] = "8 N"

    epochs: Count = 200
    batch: Count = 128
    lr: Positive = 0.02
    momentum: Share = 0.9
    weight_decay: NonNegative = 5e-4
    decay_at: Share = 0.75  # lr x 0.1 from this share of the epochs on
    beta: Share = 0.7  # β, how much of t is kept at each update
    lam: NonNegative = 3.0  # λ, weight of the regulariser
    lam_ramp: Annotated[NonNegative, Epochs()] = 0.0  # epochs until λ is reached
    alpha: NonNegative = 1.0  # Beta(α, α) of the mixing weight
    agree: bool = False  # labels weighted by the targets, as released for 100 classes
    average: Literal["ramped", "running"] = "ramped"  # how the decay of the copies begins
    decay: Share = 0.997  # of the averaged copies
    average_ramp: Annotated[NonNegative, Epochs()] = 40_000 / 352  # "ramped": until it is reached

    def __post_init__(self) -> None:
        check(self)

    def plan(self) -> tuple[Phase, ...]:
        """One phase."""
        return (Phase("train", self.epochs, self.train, leave=self.score),)

    def setup(self, run: Run) -> State:
        """Two networks, each with its copy, and targets of 0."""
        return State((self.side(run), self.side(run)), torch.ones(run.task.size))

    def side(self, run: Run) -> Side:
        """A network with a linear head, its copy, its targets."""
        sgd = SGD(lr=self.lr, momentum=self.momentum, weight_decay=self.weight_decay)
        learner = run.learner(sgd, label=linear)
        targets = torch.zeros(run.task.size, run.task.num_classes, device=run.device)
        return Side(learner, deepcopy(learner.net).requires_grad_(False), targets)

    def train(self, state: State, run: Run) -> Logs:
        """One epoch of each network, in turn."""
        first, second = state.sides
        self.fit(first, second, run)
        self.fit(second, first, run)
        disagree = (first.targets + second.targets).argmax(1) != run.y
        return {"disagree": disagree.float().mean().item()}

    def fit(self, side: Side, peer: Side, run: Run) -> None:
        """One epoch of one network, with targets from the averaged copy of its peer."""
        learner = side.learner
        learner.net.train()
        peer.average.eval()
        learner.set_lr(fn.step_decay(self.lr, run.epoch, (round(self.decay_at * self.epochs),)))
        batches = run.batches(self.batch)
        for i, batch in enumerate(batches):
            self.update(side.targets, batch, peer.average)
            step = run.epoch * len(batches) + i
            losses = self.mixed_loss(side, batch, step / len(batches), run)
            run.step(learner, losses.mean())
            follow(side.average, learner.net, self.follow_decay(step + 1, len(batches)))

    @torch.no_grad()
    def update(self, targets: Tensor, batch: Batch, average: MultiHead) -> None:
        """t <- β t + (1 - β) p of the peer's copy on the unmixed inputs."""
        probs = average(batch.views[0]).softmax(1)
        targets[batch.index] = self.beta * targets[batch.index] + (1 - self.beta) * probs

    def mixed_loss(self, side: Side, batch: Batch, elapsed: float, run: Run) -> Tensor:
        """Cross-entropy + λ(t) ln(1 - <p, q>) on mixed inputs, labels and targets, (B,)."""
        mixed, weight, permutation = fn.mixup(batch.views[0], self.alpha, run.rng)
        labels = fn.mix(one_hot(batch.y, run.task.num_classes).float(), weight, permutation)
        targets = fn.mix(side.targets[batch.index], weight, permutation)
        if self.agree:
            labels = labels * targets
            labels = labels / labels.sum(1, keepdim=True)
        logits = side.learner.net(mixed)
        ramped = self.lam * fn.sigmoid_ramp(elapsed, self.lam_ramp)
        penalty = fn.early_learning_penalty(logits, targets)
        return fn.soft_cross_entropy(logits, labels) + ramped * penalty

    def follow_decay(self, step: int, steps: int) -> float:
        """How much of the averaged copy stays at this step, of `steps` an epoch."""
        if self.average == "running":
            return min(1 - 1 / step, self.decay)
        return self.decay * fn.sigmoid_ramp(step / steps, self.average_ramp)

    def score(self, state: State, run: Run) -> None:
        """Clean probability: share of the given label in both networks' t, (N,); 1 where t is 0."""
        first, second = state.sides
        targets = first.targets + second.targets
        given, total = targets.gather(1, run.y[:, None]).squeeze(1), targets.sum(1)
        state.clean = torch.where(total > 0, given / total, 1.0)

    def predict(self, state: State, x: Tensor) -> Tensor:
        """Softmax of the mean logits of the two networks themselves, (B, C)."""
        first, second = (side.learner.net(x) for side in state.sides)
        return ((first + second) / 2).softmax(1)


@torch.no_grad()
def follow(average: MultiHead, net: MultiHead, decay: float) -> None:
    """average <- decay average + (1 - decay) net, for weights and running statistics alike."""
    for mean, now in zip(average.state_dict().values(), net.state_dict().values(), strict=True):
        if mean.is_floating_point():
            mean.lerp_(now, 1 - decay)
        else:
            mean.copy_(now)
