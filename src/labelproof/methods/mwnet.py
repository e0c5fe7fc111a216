"""Meta-Weight-Net (Shu, Xie, Yi, Zhao, Zhou, Xu and Meng, NeurIPS 2019).

A tiny network turns an example's loss into its weight. It is trained so that one imagined step on
the weighted losses lowers the loss on a small set of right labels: an example whose slope agrees
with that set's gains weight. Then the real step is made with the new weights.

Right labels are those that a person has confirmed; where there are none, the smallest losses of
each class after some epochs stand in for them.

Paper: https://arxiv.org/abs/1902.07379. Authors' code:
https://github.com/xjtushujun/meta-weight-net. Departures: docs/methods/mwnet.md.
Shapes: B batch, C classes, M examples with right labels, N training examples.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from labelproof import functional as fn
from labelproof.nets.heads import MultiHead, linear
from labelproof.training import settings as hp
from labelproof.training.batches import mean_of_steps
from labelproof.training.learner import SGD, Adam, Learner, called_with, sgd_of, softmax_of_net
from labelproof.training.protocol import About, Logs, Phase
from labelproof.training.run import Run

HIDDEN = 100  # units of the weighing network


@dataclass
class State:
    """What changes during training."""

    learner: Learner
    weigher: Learner  # V(loss; Θ)
    right: Tensor  # (M,) examples whose labels are taken to be right, left out of training
    clean: Tensor  # (N,) half the weight, half the given label's probability


@hp.record
class MWNet:
    """Hyper-parameters; defaults are those of the released "stable" script, and a scout."""

    about: ClassVar[About] = About(
        title="Meta-Weight-Net",
        paper="Shu, Xie, Yi, Zhao, Zhou, Xu and Meng, NeurIPS 2019",
        year=2019,
        link="https://arxiv.org/abs/1902.07379",
        code="https://github.com/xjtushujun/meta-weight-net",
        cost="9 N and 6 of the right labels for each",
        second_order=True,
    )

    epochs: hp.Count = 130
    scout: hp.StageEpochs = 10  # on the given labels, to find right ones
    batch: hp.PerStep = 100
    lr: hp.Positive = 0.1
    decay_at: tuple[hp.Share, ...] = (2 / 3, 5 / 6)  # lr x 0.1 from each share of the epochs on
    momentum: hp.Share = 0.9
    nesterov: bool = False
    weight_decay: hp.NonNegative = 5e-4
    meta: hp.Count = 1000  # M, where nobody confirmed labels
    meta_optimiser: Literal["adam", "sgd"] = "adam"  # of the weighing network
    meta_lr: hp.Positive = 1e-3  # its learning rate, constant
    meta_decay: hp.NonNegative = 1e-4  # its weight decay
    normalise: Literal["none", "sum"] = "none"  # "sum": weights of a batch add up to B
    every: hp.Count = 1  # steps between two updates of the weighing network

    def __post_init__(self) -> None:
        hp.check_shorter(self, "scout")

    def plan(self) -> tuple[Phase, ...]:
        """Perhaps a look at the data first; then both networks."""
        rest = self.epochs - self.scout
        weighted = Phase("weighted", rest, self.train, self.start, self.score)
        return (Phase("scout", self.scout, self.look), weighted) if self.scout else (weighted,)

    def setup(self, run: Run) -> State:
        """The network, and the one that weighs."""
        trunk = nn.Sequential(nn.Linear(1, HIDDEN), nn.ReLU())
        weigher = MultiHead(trunk, {"weight": nn.Linear(HIDDEN, 1)}).to(run.device)
        adam = Adam(lr=self.meta_lr, weight_decay=self.meta_decay)
        sgd = SGD(
            lr=self.meta_lr,
            momentum=self.momentum,
            weight_decay=self.meta_decay,
            nesterov=self.nesterov,
        )
        chosen = adam if self.meta_optimiser == "adam" else sgd
        return State(
            self.new_learner(run),
            Learner(weigher, chosen.of(weigher.parameters())),
            torch.zeros(0, dtype=torch.long),
            torch.ones(run.task.size),
        )

    def new_learner(self, run: Run) -> Learner:
        """A network with its optimiser."""
        return run.learner(sgd_of(self, nesterov=self.nesterov), label=linear)

    predict = softmax_of_net

    # ---- examples with right labels ----

    def look(self, state: State, run: Run) -> Logs:
        """One epoch of cross-entropy on the given labels."""
        learner = self.prepared(state, run.epoch, self.scout)
        for batch in run.batches(self.batch):
            run.step(learner, F.cross_entropy(learner.net(batch.views[0]), batch.y))
        return {}

    def start(self, state: State, run: Run) -> None:
        """Choose the right labels; a new network where one has looked at the data."""
        sure = run.trusted(torch.zeros(run.task.size)) > 0
        state.right = sure.nonzero().squeeze(1)
        if not len(state.right):
            losses = F.cross_entropy(run.predict(state.learner.net), run.y, reduction="none")
            state.right = smallest(losses.cpu(), run.y.cpu(), min(self.meta, run.task.size // 4))
        if self.scout:
            state.learner = self.new_learner(run)

    # ---- weighted training ----

    def train(self, state: State, run: Run) -> Logs:
        """One epoch over the other examples."""
        learner = self.prepared(state, run.epoch - self.scout, self.epochs - self.scout)
        others = torch.ones(run.task.size, dtype=torch.bool)
        others[state.right] = False
        rows = others.nonzero().squeeze(1)
        rows = rows if len(rows) else state.right  # everything is confirmed
        batches, total = run.batches(self.batch, rows), []
        checks = run.batches(self.batch, state.right, forever=True)
        for i, (batch, right) in enumerate(zip(batches, checks, strict=False)):
            x, y = batch.views[0], batch.y
            if i % self.every == 0:
                self.learn_weights(state, (x, y), (right.views[0], right.y))
            losses = F.cross_entropy(learner.net(x), y, reduction="none")
            weights = self.weights(state, losses).detach()
            run.step(learner, (weights * losses).mean())
            total.append(weights.mean())
        return {"weight": mean_of_steps(total)}

    def prepared(self, state: State, epoch: int, epochs: int) -> Learner:
        """The network in train mode at this epoch's learning rate."""
        state.learner.train_at(fn.stair_decay(self.lr, epoch, epochs, self.decay_at))
        return state.learner

    def weights(self, state: State, losses: Tensor) -> Tensor:
        """V of the losses, which are held fixed, (B,)."""
        values = state.weigher.net(losses.detach()[:, None]).squeeze(1).sigmoid()
        if self.normalise == "sum":
            return values * len(values) / (values.sum() + 1e-12)
        return values

    def learn_weights(
        self, state: State, batch: tuple[Tensor, Tensor], right: tuple[Tensor, Tensor]
    ) -> None:
        """A step of Θ down the loss of right labels, after an imagined step of the network."""
        loss = self.loss_after(state, batch, right)
        state.weigher.optimiser.zero_grad()
        slopes = torch.autograd.grad(loss, list(state.weigher.net.parameters()))
        for weight, slope in zip(state.weigher.net.parameters(), slopes, strict=True):
            weight.grad = slope
        state.weigher.optimiser.step()

    def loss_after(
        self, state: State, batch: tuple[Tensor, Tensor], right: tuple[Tensor, Tensor]
    ) -> Tensor:
        """Loss of right labels at w - lr ∂/∂w mean(V(L) L), differentiable by Θ. A scalar."""
        net = state.learner.net
        lr = state.learner.optimiser.param_groups[0]["lr"]
        params = dict(net.named_parameters())
        losses = F.cross_entropy(called_with(net, params, batch[0]), batch[1], reduction="none")
        weighted = (self.weights(state, losses) * losses).mean()
        slopes = torch.autograd.grad(weighted, list(params.values()), create_graph=True)
        moved = {
            name: value - lr * slope
            for (name, value), slope in zip(params.items(), slopes, strict=True)
        }
        return F.cross_entropy(called_with(net, moved, right[0]), right[1])

    def score(self, state: State, run: Run) -> None:
        """Clean probability: mean of the weight and p_y, (N,)."""
        losses = F.cross_entropy(run.predict(state.learner.net), run.y, reduction="none")
        with torch.no_grad():
            weights = state.weigher.net(losses[:, None]).squeeze(1).sigmoid()
        state.clean = run.trusted((weights + (-losses).exp()) / 2)


def smallest(losses: Tensor, labels: Tensor, count: int) -> Tensor:
    """Places of the smallest losses, about `count` in all and as many of each class, sorted."""
    each = count // len(torch.bincount(labels).nonzero())
    return fn.smallest_per_class(losses, labels, lambda _: each).nonzero().squeeze(1)
