"""Forward and backward correction of the loss (Patrini, Rozza, Menon, Nock and Qu, CVPR 2017).

Paper: https://arxiv.org/abs/1609.03683. Code of its authors:
https://github.com/giorgiop/loss-correction. Departures: docs/methods/forward.md, backward.md.

1. Class i is labelled j with probability T_ij. T is declared, or estimated as follows.
2. A first network is trained on the given labels; its predictions for the surest example of every
   class are the rows of T. A second network, from new weights, is trained with a corrected loss.
3. Forward: a network p of the true class gives the given label (p T)_y; the loss is -ln (p T)_y.
4. Backward: the losses of all labels, multiplied by the inverse of T, are on average the loss of
   the true label. They can be negative.

Shapes: B batch, C classes, N training examples.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from copy import deepcopy
from dataclasses import dataclass, replace
from typing import Annotated, ClassVar, Literal

import torch
from torch import Tensor

from labelproof import functional as fn
from labelproof.errors import BadInput
from labelproof.functional.dirichlet import at_best_double
from labelproof.nets.heads import MultiHead, linear
from labelproof.training import settings as hp
from labelproof.training.learner import Learner, sgd_of
from labelproof.training.protocol import About, Logs, Phase
from labelproof.training.run import Run

CLIP = 1e-7  # of probabilities, as released; it keeps the negative part of the loss bounded


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


@hp.record
class Forward:
    """Hyper-parameters; defaults are those of the released code for CIFAR-10."""

    about: ClassVar[About] = About(
        title="Forward correction",
        paper="Patrini, Rozza, Menon, Nock and Qu, CVPR 2017",
        year=2017,
        link="https://arxiv.org/abs/1609.03683",
        code="https://github.com/giorgiop/loss-correction",
        cost="3.7 N while T is estimated, then 3 N",
    )

    epochs: hp.Count = 240
    correction: Literal["forward", "backward"] = "forward"
    estimate_for: hp.Share = 0.5  # share of the epochs spent on the network that estimates T
    batch: hp.PerStep = 128
    lr: hp.Positive = 0.1
    momentum: hp.Share = 0.9
    weight_decay: hp.NonNegative = 2e-4  # Keras' l2(1e-4): its slope is 2e-4 w
    decay_at: tuple[hp.Share, ...] = (1 / 3, 2 / 3)  # lr x 0.1 from these shares of each part on
    hold_out: Annotated[float, hp.Range(0, 0.5)] = (
        0.1  # share that picks the epoch to estimate with
    )
    quantile: hp.Share = 0.97  # anchors are the surest examples below it; 1: the surest of all
    transition: tuple[float, ...] = ()  # T declared, row after row; empty: estimated
    max_condition: hp.Positive = 100.0  # "backward": T is drawn to the identity until below it
    clean_by: Literal["network", "bayes"] = "network"  # clean probability p_y | p_y T_yy / (p T)_y

    def __post_init__(self) -> None:
        if self.epochs < 2 and not self.transition:
            raise BadInput(
                f"{type(self).__name__}: epochs must be at least 2, one to estimate the transition "
                "matrix and one to train with it; set epochs=2 or declare transition."
            )

    def plan(self) -> tuple[Phase, ...]:
        """Estimate T, unless it is declared, then train with it."""
        first = self.estimation
        return (
            Phase("estimate", first, self.fit_given),
            Phase("train", self.epochs - first, self.train, enter=self.estimate, leave=self.score),
        )

    @property
    def inverts(self) -> bool:
        """Whether the inverse of T corrects the loss."""
        return self.correction == "backward"

    @property
    def estimation(self) -> int:
        """Epochs spent on estimating T."""
        if self.transition:
            return 0
        return min(max(1, round(self.estimate_for * self.epochs)), self.epochs - 1)

    def setup(self, run: Run) -> State:
        """Two networks with linear heads; held-out examples; T where it is declared."""
        sgd = sgd_of(self)
        first, second = run.learner(sgd, label=linear), run.learner(sgd, label=linear)
        n, c = run.task.size, run.task.num_classes
        read = invertible if self.inverts else fn.declared_transition
        given = read(self.transition, c) if self.transition else torch.eye(c)
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
        estimate = fn.anchor_transition(run.predict(state.best).softmax(1), self.quantile)
        if self.inverts:
            estimate = fn.conditioned(estimate, self.max_condition)
        state.transition = estimate
        state.known = True

    # ---- second network ----

    def train(self, state: State, run: Run) -> Logs:
        """One epoch of the corrected loss on all examples, from new weights."""
        learner = state.learner
        rate = self.learning_rate(run.epoch - self.estimation, self.epochs - self.estimation)
        learner.train_at(rate)
        inverse = None
        if self.inverts:
            inverse = torch.linalg.inv(at_best_double(state.transition)).float()
        for batch in run.batches(self.batch):
            logits = learner.net(batch.views[0])
            if inverse is None:
                losses = forward_loss(logits, batch.y, state.transition)
            else:
                losses = backward_loss(logits, batch.y, inverse)
            run.step(learner, losses.mean())
        return {"stays": state.transition.diagonal().mean().item()}

    def learning_rate(self, epoch: int, epochs: int) -> float:
        """A tenth at each of the shares of this part's epochs."""
        return fn.stair_decay(self.lr, epoch, epochs, self.decay_at)

    def score(self, state: State, run: Run) -> None:
        """Clean probability: p_y, or what is left of it once the given label is known, (N,)."""
        logits = run.predict(state.learner.net)
        if self.clean_by == "bayes":
            state.clean = fn.true_given(logits, run.y, state.transition)
        else:
            state.clean = fn.of_label(logits.softmax(1), run.y)

    def predict(self, state: State, x: Tensor) -> Tensor:
        """Softmax p of the true class, (B, C); by the first network while T is estimated."""
        net = state.learner.net if state.known else state.first.net
        return net(x).softmax(1)


@hp.record
class Backward(Forward):
    """The same with the other correction."""

    about: ClassVar[About] = replace(Forward.about, title="Backward correction")

    correction: Literal["forward", "backward"] = "backward"


def forward_loss(logits: Tensor, labels: Tensor, transition: Tensor) -> Tensor:
    """-ln (p T)_y, (B,)."""
    return -fn.log_given(logits, labels, transition)


def backward_loss(logits: Tensor, labels: Tensor, inverse: Tensor) -> Tensor:
    """-Σ_j (T⁻¹)_yj ln p_j, (B,); its mean over labels drawn from row i of T is -ln p_i."""
    log_p = logits.log_softmax(-1).clamp(min=math.log(CLIP))
    return -(inverse.to(logits.dtype)[labels] * log_p).sum(-1)


def invertible(values: Sequence[float], classes: int) -> Tensor:
    """The matrix a user declares, or a refusal if it has no inverse."""
    matrix = fn.declared_transition(values, classes)
    if not torch.linalg.cond(matrix.double()) < 1e6:
        raise BadInput(
            "Backward: the declared transition has no inverse, because two classes are labelled "
            "alike; use the forward method or declare other numbers."
        )
    return matrix
