"""SOP+: SOP with consistency between views and balanced classes (Liu, Zhu, Qu and You, ICML 2022).

As in SOP, the label noise of every example is u² on its given class less v² on the others. Two
terms are added: the prediction for a strongly changed view shall be that for the weak one, and the
predictions with noise shall, over a batch, be spread evenly over the classes. `loss="edl"` takes
calibrated probabilities and adds the evidence term of DPC. Page: docs/methods/sop_plus.md.

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

HUMANS = ("aggre", "rand1", "rand2", "rand3", "worst")
SYMMETRIC, ASYMMETRIC = ("0.2", "0.5", "0.8"), ("0.1", "0.3", "0.4")
CIFAR_100: dict[str, object] = {"weight_decay": 1e-3, "lr_u": 1.0}
PUBLISHED: dict[str, dict[str, object]] = {
    **{f"cifar10-symmetric-{rate}": {} for rate in SYMMETRIC},
    **{f"cifar10-asymmetric-{rate}": {"lr_v": 100.0} for rate in ASYMMETRIC},
    **{f"cifar100-symmetric-{rate}": CIFAR_100 for rate in SYMMETRIC},
    **{
        f"cifar100-asymmetric-{rate}": {**CIFAR_100, "lr_u": 0.1, "lr_v": 100.0}
        for rate in ASYMMETRIC
    },
    **{f"cifar10n-{labels}": {} for labels in HUMANS},
    "cifar100n": CIFAR_100,
}
VECTORS: dict[str, object] = {"epochs": 15, "lr_u": 100.0, "lr_v": 100.0}
IMAGES: dict[str, object] = {"epochs": 60, "lr_u": 30.0, "lr_v": 30.0}
START = 1e-8  # spread of u and v at the start; at 0 itself the squares would have no slope


@dataclass
class State:
    """What changes during training."""

    learner: Learner
    u: Tensor  # (N, 1)
    v: Tensor  # (N, C)
    clean: Tensor  # (N,) mean of p_y and of the part of the label that noise does not explain


@dataclass(frozen=True, kw_only=True)
class SOPPlus:
    """Hyper-parameters; defaults are the paper's for CIFAR-10, symmetric noise."""

    title: ClassVar[str] = "Sparse over-parametrisation with consistency"
    paper: ClassVar[str] = "Liu, Zhu, Qu and You, ICML 2022"
    year: ClassVar[int] = 2022
    cost: ClassVar[str] = "6 N"

    epochs: Count = 300
    batch: Count = 128
    lr: Positive = 0.02
    lr_floor: NonNegative = 2e-4  # where the cosine of the learning rate ends
    momentum: Share = 0.9
    weight_decay: NonNegative = 5e-4
    lr_u: NonNegative = 10.0  # learning rate of u, constant
    lr_v: NonNegative = 10.0  # learning rate of v, constant
    u_from: Literal["both", "ce"] = "both"  # of L_CE and L_MSE, what moves u: code | paper
    consistency: NonNegative = 0.9  # λ_C
    balance: NonNegative = 0.1  # λ_B; set to 0 where classes differ much in size
    loss: Literal["ce", "edl"] = "ce"  # "edl": calibrated probabilities and L_kl of DPC
    gamma_c: NonNegative = 10.0  # γ C of L_edl
    beta: NonNegative = 0.5  # β of L_edl

    def __post_init__(self) -> None:
        check(self)

    def plan(self) -> tuple[Phase, ...]:
        """One phase."""
        return (Phase("train", self.epochs, self.train, leave=self.score),)

    def setup(self, run: Run) -> State:
        """One network with a linear head, and almost no noise."""
        sgd = SGD(lr=self.lr, momentum=self.momentum, weight_decay=self.weight_decay)
        n, c = run.task.size, run.task.num_classes
        return State(
            learner=run.learner(sgd, label=linear),
            u=(START * torch.randn(n, 1, generator=run.rng)).to(run.device),
            v=(START * torch.randn(n, c, generator=run.rng)).to(run.device),
            clean=torch.ones(n),
        )

    def train(self, state: State, run: Run) -> Logs:
        """One epoch: each step moves the network and the factors of the batch."""
        learner = state.learner
        learner.net.train()
        learner.set_lr(fn.cosine_decay(self.lr, run.epoch, self.epochs, self.lr_floor))
        for batch in run.batches(self.batch, views=("weak", "strong")):
            # only these rows have a slope, and plain descent needs no memory of the others
            u = state.u[batch.index].requires_grad_()
            v = state.v[batch.index].requires_grad_()
            weak, strong = learner.net(torch.cat(batch.views)).chunk(2)
            run.step(learner, *self.losses(weak, strong, batch.y, u, v))
            state.u[batch.index] = fn.descended(u, self.lr_u)
            state.v[batch.index] = fn.descended(v, self.lr_v)
        return {"noise": self.noise(state, run).mean().item()}

    def losses(
        self, weak: Tensor, strong: Tensor, labels: Tensor, u: Tensor, v: Tensor
    ) -> list[Tensor]:
        """L_CE + L_MSE + λ_B L_bal + λ_C L_con (+ β L_kl), each a scalar."""
        plus, minus = fn.label_noise(labels, u, v)
        expected = fn.with_noise(self.probability(weak), plus, minus.detach())
        cross_entropy = -expected.gather(1, labels[:, None]).log()
        fixed = plus if self.u_from == "both" else plus.detach()
        losses = [cross_entropy.mean(), fn.noise_gap(weak, labels, fixed, minus).mean()]
        losses.append(self.balance * fn.prior_penalty(expected))
        losses.append(self.consistency * self.divergence(weak.detach(), strong).mean())
        if self.loss == "edl" and self.beta:
            kl = fn.edl_kl(weak, labels, self.gamma(weak))
            losses.append(self.beta / weak.shape[1] * kl.mean())
        return losses

    def divergence(self, weak: Tensor, strong: Tensor) -> Tensor:
        """KL(p of the weak view || p of the strong view), (B,)."""
        gamma = self.gamma(weak)
        p, q = fn.calibrated_log_softmax(weak, gamma), fn.calibrated_log_softmax(strong, gamma)
        return (p.exp() * (p - q)).sum(1)

    def probability(self, logits: Tensor) -> Tensor:
        """Softmax, calibrated when trained with L_edl, (B, C)."""
        return fn.calibrated_softmax(logits, self.gamma(logits))

    def gamma(self, logits: Tensor) -> float:
        """γ from γ C; 0 is the plain softmax."""
        return self.gamma_c / logits.shape[1] if self.loss == "edl" else 0.0

    def noise(self, state: State, run: Run) -> Tensor:
        """How much of each given label is noise: the largest of U and V, (N,)."""
        plus, minus = fn.label_noise(run.y, state.u, state.v)
        return torch.maximum(plus, minus).amax(1)

    def score(self, state: State, run: Run) -> None:
        """Clean probability: mean of p_y by the network and of what the noise leaves, (N,)."""
        probs = self.probability(run.predict(state.learner.net))
        given = probs.gather(1, run.y[:, None]).squeeze(1)
        state.clean = (given + 1 - self.noise(state, run)) / 2

    def predict(self, state: State, x: Tensor) -> Tensor:
        """Class probabilities by the network alone, (B, C)."""
        return self.probability(state.learner.net(x))
