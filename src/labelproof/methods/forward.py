"""Forward correction of the loss (Patrini, Rozza, Menon, Nock and Qu, CVPR 2017).

If class i is labelled j with probability T_ij, a network p of the true class gives the given label
the probability (p T)_y, and cross-entropy is taken on that. T is declared, or estimated: a first
network is trained on the given labels, and its predictions for the surest example of every class
are the rows of T. A second network, from new weights, is then trained with the corrected loss.
Page: docs/methods/forward.md.

Shapes: B batch, C classes, N training examples.
"""

from __future__ import annotations

from copy import deepcopy
from dataclasses import dataclass
from typing import Annotated, ClassVar, Literal

import torch
from torch import Tensor

from labelproof import functional as fn
from labelproof.errors import BadInput
from labelproof.nets.heads import MultiHead, linear
from labelproof.training.learner import SGD, Learner
from labelproof.training.protocol import Logs, Phase
from labelproof.training.run import Run
from labelproof.training.settings import Count, NonNegative, Positive, Range, Share, check

NOISES = "symmetric-0.2 symmetric-0.5 symmetric-0.8 asymmetric-0.1 asymmetric-0.3 asymmetric-0.4"
CIFAR_100: dict[str, object] = {
    "epochs": 300,
    "weight_decay": 1e-3,
    "decay_at": (80 / 150, 120 / 150),
    "quantile": 1.0,
}
PUBLISHED: dict[str, dict[str, object]] = {
    **{f"cifar10-{noise}": {} for noise in NOISES.split()},
    **{f"cifar100-{noise}": CIFAR_100 for noise in NOISES.split()},
}
OWN: dict[str, object] = {"lr": 0.02, "weight_decay": 5e-4, "decay_at": (0.5,)}
VECTORS: dict[str, object] = {**OWN, "epochs": 20, "estimate_for": 0.4}
IMAGES: dict[str, object] = {**OWN, "epochs": 60, "estimate_for": 0.4}


@dataclass
class State:
    """What changes during training."""

    first: Learner  # trained on the given labels, to estimate T
    best: MultiHead  # the first network at the epoch of least loss on held-out labels
    best_loss: float
    held: Tensor  # (H,) held-out examples
    transition: Tensor  # (C, C) T
    known: bool  # whether T is declared, or estimated already
    learner: Learner  # trained with the corrected loss
    clean: Tensor  # (N,) probability that the given label is the true one


@dataclass(frozen=True, kw_only=True)
class Forward:
    """Hyper-parameters; defaults are those of the released code for CIFAR-10."""

    title: ClassVar[str] = "Forward correction"
    paper: ClassVar[str] = "Patrini, Rozza, Menon, Nock and Qu, CVPR 2017"
    year: ClassVar[int] = 2017
    cost: ClassVar[str] = "3.7 N while T is estimated, then 3 N"

    epochs: Count = 240
    estimate_for: Share = 0.5  # share of the epochs spent on the network that estimates T
    batch: Count = 128
    lr: Positive = 0.1
    momentum: Share = 0.9
    weight_decay: NonNegative = 1e-4
    decay_at: tuple[Share, ...] = (1 / 3, 2 / 3)  # lr x 0.1 from these shares of each part on
    hold_out: Annotated[float, Range(0, 0.5)] = 0.1  # share that picks the epoch to estimate with
    quantile: Share = 0.97  # anchors are the surest examples below it; 1: the surest of all
    transition: tuple[float, ...] = ()  # T declared, row after row; empty: estimated
    clean_by: Literal["network", "bayes"] = "network"  # clean probability p_y | p_y T_yy / (p T)_y

    def __post_init__(self) -> None:
        check(self)
        if self.epochs < 2 and not self.transition:
            raise BadInput(
                "Forward: epochs must be at least 2, one to estimate the transition matrix and one "
                "to train with it; set epochs=2 or declare transition."
            )

    def plan(self) -> tuple[Phase, ...]:
        """Estimate T, unless it is declared, then train with it."""
        first = self.estimation
        return (
            Phase("estimate", first, self.fit_given),
            Phase("train", self.epochs - first, self.train, enter=self.estimate, leave=self.score),
        )

    @property
    def estimation(self) -> int:
        """Epochs spent on estimating T."""
        if self.transition:
            return 0
        return min(max(1, round(self.estimate_for * self.epochs)), self.epochs - 1)

    def setup(self, run: Run) -> State:
        """Two networks with linear heads; held-out examples; T where it is declared."""
        sgd = SGD(lr=self.lr, momentum=self.momentum, weight_decay=self.weight_decay)
        first, second = run.learner(sgd, label=linear), run.learner(sgd, label=linear)
        n, c = run.task.size, run.task.num_classes
        given = fn.declared_transition(self.transition, c) if self.transition else torch.eye(c)
        held = torch.randperm(n, generator=run.rng)[: int(self.hold_out * n)]
        return State(
            first=first,
            best=deepcopy(first.net),
            best_loss=float("inf"),
            held=held,
            transition=given.to(run.device),
            known=bool(self.transition),
            learner=second,
            clean=torch.ones(n),
        )

    # ---- first network ----

    def fit_given(self, state: State, run: Run) -> Logs:
        """One epoch of cross-entropy on the given labels, held-out ones apart."""
        net = state.first.net
        fitted = torch.ones(run.task.size, dtype=torch.bool).index_fill(0, state.held, False)
        state.first.set_lr(self.learning_rate(run.epoch, self.estimation))
        net.train()
        for batch in run.batches(self.batch, fitted.nonzero().squeeze(1)):
            run.step(state.first, fn.edl_nll(net(batch.views[0]), batch.y, gamma=0).mean())
        loss = fn.edl_nll(run.predict(net), run.y, gamma=0)[state.held].mean().item()
        if loss < state.best_loss or len(state.held) == 0:
            state.best_loss = loss
            state.best.load_state_dict(net.state_dict())
        return {}

    def estimate(self, state: State, run: Run) -> None:
        """T from the anchors of the best epoch, unless it is declared."""
        if state.known:
            return
        probs = run.predict(state.best).softmax(1)
        state.transition = fn.anchor_transition(probs, self.quantile)
        state.known = True

    # ---- second network ----

    def train(self, state: State, run: Run) -> Logs:
        """One epoch of the corrected loss on all examples, from new weights."""
        learner = state.learner
        learner.net.train()
        rate = self.learning_rate(run.epoch - self.estimation, self.epochs - self.estimation)
        learner.set_lr(rate)
        for batch in run.batches(self.batch):
            losses = forward_loss(learner.net(batch.views[0]), batch.y, state.transition)
            run.step(learner, losses.mean())
        return {"stays": state.transition.diagonal().mean().item()}

    def learning_rate(self, epoch: int, epochs: int) -> float:
        """A tenth at each of the shares of this part's epochs."""
        milestones = tuple(round(share * epochs) for share in self.decay_at)
        return fn.step_decay(self.lr, epoch, milestones)

    def score(self, state: State, run: Run) -> None:
        """Clean probability: p_y, or what is left of it once the given label is known, (N,)."""
        logits = run.predict(state.learner.net)
        if self.clean_by == "bayes":
            state.clean = fn.true_given(logits, run.y, state.transition)
        else:
            state.clean = logits.softmax(1).gather(1, run.y[:, None]).squeeze(1)

    def predict(self, state: State, x: Tensor) -> Tensor:
        """Softmax p of the true class, (B, C); by the first network while T is estimated."""
        net = state.learner.net if state.known else state.first.net
        return net(x).softmax(1)


def forward_loss(logits: Tensor, labels: Tensor, transition: Tensor) -> Tensor:
    """-ln (p T)_y, (B,)."""
    return -fn.log_given(logits, labels, transition)
