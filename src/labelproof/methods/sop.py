"""SOP: sparse over-parametrisation of the label noise (Liu, Zhu, Qu and You, ICML 2022).

Every example has factors u and v of its own, and its given label is modelled as the network's
prediction plus u² on the given class, less v² on the others. Started from almost 0 and trained by
plain gradient descent, they grow only where the network keeps contradicting the label, and then
explain the wrong label in the network's stead. `loss="edl"` takes calibrated probabilities and adds
the evidence term of DPC. Page: docs/methods/sop.md.

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
CIFAR_10: dict[str, object] = {"net": "resnet34"}
CIFAR_100: dict[str, object] = {
    "epochs": 150,
    "weight_decay": 1e-3,
    "decay_at": (80 / 150, 120 / 150),
    "lr_u": 1.0,
    "net": "resnet34",
}
PUBLISHED: dict[str, dict[str, object]] = {
    **{f"cifar10-symmetric-{rate}": CIFAR_10 for rate in SYMMETRIC},
    **{f"cifar10-asymmetric-{rate}": {**CIFAR_10, "lr_v": 100.0} for rate in ASYMMETRIC},
    **{f"cifar100-symmetric-{rate}": CIFAR_100 for rate in SYMMETRIC},
    **{
        f"cifar100-asymmetric-{rate}": {**CIFAR_100, "lr_u": 0.1, "lr_v": 100.0}
        for rate in ASYMMETRIC
    },
    **{f"cifar10n-{labels}": CIFAR_10 for labels in HUMANS},
    "cifar100n": CIFAR_100,
}
VECTORS: dict[str, object] = {"epochs": 15, "lr": 0.05, "lr_u": 300.0, "lr_v": 300.0}
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
class SOP:
    """Hyper-parameters; defaults are the paper's for CIFAR-10, symmetric noise."""

    title: ClassVar[str] = "Sparse over-parametrisation"
    paper: ClassVar[str] = "Liu, Zhu, Qu and You, ICML 2022"
    year: ClassVar[int] = 2022
    cost: ClassVar[str] = "3 N"

    epochs: Count = 120
    batch: Count = 128
    lr: Positive = 0.02
    momentum: Share = 0.9
    weight_decay: NonNegative = 5e-4
    decay_at: tuple[Share, ...] = (1 / 3, 2 / 3)  # lr x 0.1 from these shares of the epochs on
    lr_u: NonNegative = 10.0  # learning rate of u, constant
    lr_v: NonNegative = 10.0  # learning rate of v, constant
    u_from: Literal["both", "ce"] = "both"  # losses that move u: released code | the paper
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
        milestones = tuple(round(share * self.epochs) for share in self.decay_at)
        learner.set_lr(fn.step_decay(self.lr, run.epoch, milestones))
        for batch in run.batches(self.batch):
            # only these rows have a slope, and plain descent needs no memory of the others
            u = state.u[batch.index].requires_grad_()
            v = state.v[batch.index].requires_grad_()
            run.step(learner, self.losses(learner.net(batch.views[0]), batch.y, u, v).mean())
            state.u[batch.index] = fn.descended(u, self.lr_u)
            state.v[batch.index] = fn.descended(v, self.lr_v)
        return {"noise": self.noise(state, run).mean().item()}

    def losses(self, logits: Tensor, labels: Tensor, u: Tensor, v: Tensor) -> Tensor:
        """L_CE on the prediction with noise + L_MSE (+ β L_kl), (B,)."""
        plus, minus = fn.label_noise(labels, u, v)
        expected = fn.with_noise(self.probability(logits), plus, minus.detach())
        cross_entropy = -expected.gather(1, labels[:, None]).squeeze(1).log()
        fixed = plus if self.u_from == "both" else plus.detach()
        total = cross_entropy + fn.noise_gap(logits, labels, fixed, minus)
        if self.loss == "edl" and self.beta:
            kl = fn.edl_kl(logits, labels, self.gamma(logits))
            total = total + self.beta / logits.shape[1] * kl
        return total

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
