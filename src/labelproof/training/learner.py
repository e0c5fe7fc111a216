"""A network and its optimiser, the unit a method trains."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Literal, Protocol

import torch
from torch import Tensor, nn
from torch.func import functional_call

from labelproof.nets.heads import MultiHead
from labelproof.nets.pretrained import Pretrained, layer_groups
from labelproof.training.optimisers import LightAdam, LightSGD

Weights = Iterable[nn.Parameter] | list[dict[str, Any]]


@dataclass(frozen=True, kw_only=True)
class SGD:
    """Settings of stochastic gradient descent."""

    lr: float
    momentum: float = 0.9
    weight_decay: float = 5e-4
    nesterov: bool = False

    def of(self, weights: Weights) -> torch.optim.Optimizer:
        """The optimiser of these weights."""
        return LightSGD(
            weights,
            lr=self.lr,
            momentum=self.momentum,
            weight_decay=self.weight_decay,
            nesterov=self.nesterov and self.momentum > 0,
        )


class Descent(Protocol):
    """A method with the settings of plain gradient descent under their usual names."""

    @property
    def lr(self) -> float:
        """Learning rate."""

    @property
    def momentum(self) -> float:
        """Share of a step that is repeated in the next."""

    @property
    def weight_decay(self) -> float:
        """Share of a weight that pulls it towards 0."""


def sgd_of(method: Descent, nesterov: bool = False) -> SGD:
    """Gradient descent with a method's settings."""
    return SGD(
        lr=method.lr,
        momentum=method.momentum,
        weight_decay=method.weight_decay,
        nesterov=nesterov,
    )


@dataclass(frozen=True, kw_only=True)
class Adam:
    """Settings of Adam."""

    lr: float
    betas: tuple[float, float] = (0.9, 0.999)
    weight_decay: float = 0.0

    def of(self, weights: Weights) -> torch.optim.Optimizer:
        """The optimiser of these weights."""
        return LightAdam(weights, lr=self.lr, betas=self.betas, weight_decay=self.weight_decay)


def adam_or_sgd(
    name: Literal["adam", "sgd"], lr: float, momentum: float, weight_decay: float
) -> Adam | SGD:
    """The optimiser of this name; Adam keeps its own momentum."""
    if name == "adam":
        return Adam(lr=lr, weight_decay=weight_decay)
    return SGD(lr=lr, momentum=momentum, weight_decay=weight_decay)


def weights_of(net: MultiHead) -> Weights:
    """What an optimiser changes: all weights alike, or by layers where the trunk is pretrained."""
    if not isinstance(net.trunk, Pretrained):
        return net.parameters()
    return layer_groups(net.trunk, list(net.heads.parameters()))


@dataclass
class Learner:
    """A network with its own optimiser."""

    net: MultiHead
    optimiser: torch.optim.Optimizer

    @contextmanager
    def clipped(self, norm: float) -> Iterator[None]:
        """Gradients are cut to this norm before every step inside."""

        def cut(*_: object) -> None:
            nn.utils.clip_grad_norm_(self.net.parameters(), norm)

        hook = self.optimiser.register_step_pre_hook(cut)
        try:
            yield
        finally:
            hook.remove()

    def set_adam_momentum(self, first: float) -> None:
        """Use this decay of Adam's first moment from the next step on."""
        for group in self.optimiser.param_groups:
            group["betas"] = (first, 0.999)

    def set_lr(self, lr: float) -> None:
        """Use this learning rate from the next step on."""
        for group in self.optimiser.param_groups:
            group["lr"] = lr * group.get("scale", 1.0)  # layers of a pretrained trunk have theirs

    def train_at(self, lr: float) -> None:
        """Put the network into training mode, and use this learning rate."""
        self.net.train()
        self.set_lr(lr)


Pair = tuple[Learner, Learner]


@dataclass
class OneNet:
    """Everything that changes in a method that trains one network and keeps nothing beside it."""

    learner: Learner
    clean: Tensor  # (N,) how far each given label is believed, as the method's `score` says


@dataclass
class TwoNets:
    """The same of a method that trains two."""

    learners: Pair
    clean: Tensor  # (N,) as of one network, mean of the two


class WithLearner(Protocol):
    """The state of a method that predicts by one network, whatever else it keeps."""

    learner: Learner


class WithPair(Protocol):
    """The state of a method that predicts by two networks, whatever else it keeps."""

    learners: Pair


# ---- what methods share word for word: a method writes `predict = softmax_of_net` ----


def softmax_of_net(_method: object, state: WithLearner, x: Tensor) -> Tensor:
    """`predict` of a method with one network: its softmax, (B, C)."""
    return state.learner.net(x).softmax(1)


def softmax_of_nets(_method: object, state: WithPair, x: Tensor) -> Tensor:
    """`predict` of a method with two networks: the mean of their softmax, (B, C)."""
    first, second = state.learners
    return (first.net(x).softmax(1) + second.net(x).softmax(1)) / 2


def logits_of_nets(_method: object, state: WithPair, x: Tensor) -> Tensor:
    """`logits` of a method with two networks: the mean of theirs, (B, C)."""
    first, second = state.learners
    return (first.net(x) + second.net(x)) / 2


def copied(learner: Learner) -> dict[str, Tensor]:
    """Weights and statistics of a network as they are now."""
    return {name: value.detach().clone() for name, value in learner.net.state_dict().items()}


def called_with(net: MultiHead, weights: Mapping[str, Tensor], x: Tensor) -> Tensor:
    """Logits (B, C) of the network with other weights; its running statistics stay as they are."""
    buffers = {name: buffer.clone() for name, buffer in net.named_buffers()}
    logits: Tensor = functional_call(net, {**weights, **buffers}, (x,))
    return logits
