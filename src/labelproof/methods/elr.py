"""ELR and ELR+: early-learning regularisation (Liu and others, NeurIPS 2020).

Paper: https://arxiv.org/abs/2007.00151. Code of its authors: https://github.com/shengliu66/ELR.
Departures: docs/methods/elr.md, elr_plus.md.

1. Before a network memorises a wrong label it predicts the right one.
2. A running average t of the predictions for every example remembers that.
3. λ ln(1 - <p, t>) joins cross-entropy: its slope cancels cross-entropy's on wrongly labelled
   examples and strengthens it on the others.
4. ELR+ has two networks, each of which takes its t from the other's slowly averaged copy, on
   unmixed inputs, while it is trained on mixed ones: labels and targets are mixed alike.

Shapes: B batch, C classes, N training examples.
"""

from __future__ import annotations

from copy import deepcopy
from dataclasses import dataclass, replace
from typing import Annotated, ClassVar, Literal

import torch
from torch import Tensor
from torch.nn.functional import one_hot

from labelproof import functional as fn
from labelproof.nets.heads import MultiHead, linear
from labelproof.training import settings as hp
from labelproof.training.batches import Batch
from labelproof.training.learner import Learner, sgd_of, softmax_of_net
from labelproof.training.protocol import About, Logs, one_phase
from labelproof.training.run import Run


@dataclass
class State:
    """What changes during training."""

    learner: Learner
    targets: Tensor  # (N, C) t, running averages of predictions
    clean: Tensor  # (N,) share of the given label in t


@hp.record
class ELR:
    """Hyper-parameters; defaults are those of the released code for CIFAR-10, symmetric noise."""

    about: ClassVar[About] = About(
        title="Early-learning regularisation",
        paper="Liu, Niles-Weed, Razavian and Fernandez-Granda, NeurIPS 2020",
        year=2020,
        link="https://arxiv.org/abs/2007.00151",
        code="https://github.com/shengliu66/ELR",
        cost="3 N",
    )

    epochs: hp.Count = 150
    batch: hp.PerStep = 128
    lr: hp.Positive = 0.02
    momentum: hp.Share = 0.9
    weight_decay: hp.NonNegative = 1e-3
    schedule: Literal["cosine", "steps"] = "cosine"
    cycle: Annotated[hp.Count, hp.Epochs()] = (
        10  # "cosine": epochs until the learning rate starts anew
    )
    lr_floor: hp.NonNegative = 1e-3  # "cosine": where each cycle ends
    decay_at: tuple[hp.Share, ...] = (1 / 3, 2 / 3)  # "steps": shares of the epochs
    decay: hp.Positive = 0.01  # "steps": what the learning rate is multiplied by at each of them
    beta: hp.Share = 0.7  # β, how much of t is kept at each update
    lam: hp.NonNegative = 3.0  # λ, weight of the regulariser

    plan = one_phase

    def setup(self, run: Run) -> State:
        """One network with a linear head, and targets of 0."""
        return State(
            learner=run.learner(sgd_of(self), label=linear),
            targets=torch.zeros(run.task.size, run.task.num_classes, device=run.device),
            clean=torch.ones(run.task.size),
        )

    def train(self, state: State, run: Run) -> Logs:
        """One epoch: the targets of a batch are updated first, then its loss is taken."""
        learner = state.learner
        learner.train_at(self.learning_rate(run.epoch))
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
        return fn.stair_decay(self.lr, epoch, self.epochs, self.decay_at, self.decay)

    def score(self, state: State, run: Run) -> None:
        """Clean probability: t_y / ||t||_1, (N,); 1 for an example that never was in a batch."""
        state.clean = share_of_label(state.targets, run.y)

    predict = softmax_of_net


@dataclass
class Side:
    """One of the two networks with what belongs to it."""

    learner: Learner
    average: MultiHead  # slowly following copy of the network
    targets: Tensor  # (N, C) t, running averages of the peer's predictions


@dataclass
class PairState:
    """What changes during training."""

    sides: tuple[Side, Side]
    clean: Tensor  # (N,) share of the given label in t of both


@hp.record
class ELRPlus:
    """Hyper-parameters; defaults are those of the released code for CIFAR-10, symmetric noise."""

    about: ClassVar[About] = replace(
        ELR.about, title="Early-learning regularisation with two networks", cost="8 N"
    )

    epochs: hp.Count = 200
    batch: hp.PerStep = 128
    lr: hp.Positive = 0.02
    momentum: hp.Share = 0.9
    weight_decay: hp.NonNegative = 5e-4
    decay_at: hp.Share = 0.75  # lr x 0.1 from this share of the epochs on
    beta: hp.Share = 0.7  # β, how much of t is kept at each update
    lam: hp.NonNegative = 3.0  # λ, weight of the regulariser
    lam_ramp: Annotated[hp.NonNegative, hp.Epochs()] = 0.0  # epochs until λ is reached
    alpha: hp.NonNegative = 1.0  # Beta(α, α) of the mixing weight
    agree: bool = False  # labels weighted by the targets, as released for 100 classes
    average: Literal["ramped", "running"] = "ramped"  # how the decay of the copies begins
    decay: hp.Share = 0.997  # of the averaged copies
    average_ramp: Annotated[hp.NonNegative, hp.Epochs()] = (
        40_000 / 352
    )  # "ramped": until it is reached

    plan = one_phase

    def setup(self, run: Run) -> PairState:
        """Two networks, each with its copy, and targets of 0."""
        return PairState((self.side(run), self.side(run)), torch.ones(run.task.size))

    def side(self, run: Run) -> Side:
        """A network with a linear head, its copy, its targets."""
        learner = run.learner(sgd_of(self), label=linear)
        targets = torch.zeros(run.task.size, run.task.num_classes, device=run.device)
        return Side(learner, deepcopy(learner.net).requires_grad_(False), targets)

    def train(self, state: PairState, run: Run) -> Logs:
        """One epoch of each network, in turn."""
        first, second = state.sides
        self.fit(first, second, run)
        self.fit(second, first, run)
        disagree = (first.targets + second.targets).argmax(1) != run.y
        return {"disagree": disagree.float().mean().item()}

    def fit(self, side: Side, peer: Side, run: Run) -> None:
        """One epoch of one network, with targets from the averaged copy of its peer."""
        learner = side.learner
        learner.train_at(fn.stair_decay(self.lr, run.epoch, self.epochs, (self.decay_at,)))
        peer.average.eval()
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
        mixed, weight, permutation = fn.mixup(batch.views[0], self.alpha, run.rng, run.device_rng)
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

    def score(self, state: PairState, run: Run) -> None:
        """Clean probability: share of the given label in both networks' t, (N,); 1 where t is 0."""
        first, second = state.sides
        state.clean = share_of_label(first.targets + second.targets, run.y)

    def predict(self, state: PairState, x: Tensor) -> Tensor:
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


def share_of_label(targets: Tensor, labels: Tensor) -> Tensor:
    """t_y / ||t||_1, (N,); 1 for an example that never was in a batch."""
    given, total = fn.of_label(targets, labels), targets.sum(1)
    return torch.where(total > 0, given / total, 1.0)
