"""SOP and SOP+: sparse over-parametrisation of the label noise (Liu, Zhu, Qu and You, ICML 2022).

Paper: https://arxiv.org/abs/2202.14026. Code of its authors: https://github.com/shengliu66/SOP.
Departures: docs/methods/sop.md, sop_plus.md.

1. Every example has factors u and v of its own, started from almost 0.
2. Its given label is modelled as the network's prediction plus u² on the given class, less v² on
   the others. Network, u and v are trained together, u and v by plain gradient descent.
3. They grow only where the network keeps contradicting a label, and explain it in its stead.
4. SOP+ adds two terms: the prediction for a strong view shall be that for the weak one, and the
   predictions with noise shall be spread evenly over the classes of a batch.
5. `loss="edl"` takes calibrated probabilities and adds the evidence term of DPC.

Shapes: B batch, C classes, N training examples.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar, Literal

import torch
from torch import Tensor

from labelproof import functional as fn
from labelproof.nets.heads import linear
from labelproof.training import settings as hp
from labelproof.training.batches import View
from labelproof.training.learner import Learner, sgd_of
from labelproof.training.protocol import About, Logs, one_phase
from labelproof.training.run import Run

START = 1e-8  # spread of u and v at the start; at 0 itself the squares would have no slope


@dataclass
class State:
    """What changes during training."""

    learner: Learner
    u: Tensor  # (N, 1)
    v: Tensor  # (N, C)
    clean: Tensor  # (N,) mean of p_y and of the part of the label that noise does not explain


@hp.record
class SOP:
    """Hyper-parameters; defaults are the paper's for CIFAR-10, symmetric noise."""

    about: ClassVar[About] = About(
        title="Sparse over-parametrisation",
        paper="Liu, Zhu, Qu and You, ICML 2022",
        year=2022,
        link="https://arxiv.org/abs/2202.14026",
        code="https://github.com/shengliu66/SOP",
        cost="3 N",
        evidence=lambda method, state, x: method.objective.log_evidence(state.learner.net(x)),
    )

    epochs: hp.Count = 120
    batch: hp.PerStep = 128
    lr: hp.Positive = 0.02
    schedule: Literal["steps", "cosine"] = "steps"
    decay_at: tuple[hp.Share, ...] = (1 / 3, 2 / 3)  # "steps": lr x 0.1 from these shares on
    lr_floor: hp.NonNegative = 2e-4  # "cosine": where the learning rate ends
    momentum: hp.Share = 0.9
    weight_decay: hp.NonNegative = 5e-4
    lr_u: hp.NonNegative = 10.0  # learning rate of u, constant
    lr_v: hp.NonNegative = 10.0  # learning rate of v, constant
    u_from: Literal["both", "ce"] = "both"  # of L_CE and L_MSE, what moves u: code | paper
    consistency: hp.NonNegative = 0.0  # SOP+: λ_C, between weak and strong views
    balance: hp.NonNegative = 0.0  # SOP+: λ_B; leave at 0 where classes differ much in size
    loss: Literal["ce", "edl"] = "ce"  # "edl": calibrated probabilities and L_kl of DPC
    gamma_c: hp.NonNegative = 10.0  # γ C of L_edl
    beta: hp.NonNegative = 0.5  # β of L_edl

    @property
    def objective(self) -> fn.Objective:
        """Probabilities, and the divergence of L_edl."""
        return fn.Objective(self.loss, self.gamma_c, self.beta)

    plan = one_phase

    def setup(self, run: Run) -> State:
        """One network with a linear head, and almost no noise."""
        n, c = run.task.size, run.task.num_classes
        return State(
            learner=run.learner(sgd_of(self), label=linear),
            u=(START * torch.randn(n, 1, generator=run.rng)).to(run.device),
            v=(START * torch.randn(n, c, generator=run.rng)).to(run.device),
            clean=torch.ones(n),
        )

    def train(self, state: State, run: Run) -> Logs:
        """One epoch: each step moves the network and the factors of the batch."""
        learner = state.learner
        learner.train_at(self.learning_rate(run.epoch))
        views: tuple[View, ...] = ("weak", "strong") if self.consistency else ("weak",)
        for batch in run.batches(self.batch, views=views):
            # only these rows have a slope, and plain descent needs no memory of the others
            u = state.u[batch.index].requires_grad_()
            v = state.v[batch.index].requires_grad_()
            logits = learner.net(torch.cat(batch.views))
            run.step(learner, *self.losses(logits, batch.y, u, v))
            state.u[batch.index] = fn.descended(u, self.lr_u)
            state.v[batch.index] = fn.descended(v, self.lr_v)
        return {"noise": self.noise(state, run).mean().item()}

    def learning_rate(self, epoch: int) -> float:
        """A tenth at each step, or half a cosine."""
        if self.schedule == "cosine":
            return fn.cosine_decay(self.lr, epoch, self.epochs, self.lr_floor)
        return fn.stair_decay(self.lr, epoch, self.epochs, self.decay_at)

    def losses(self, logits: Tensor, labels: Tensor, u: Tensor, v: Tensor) -> list[Tensor]:
        """L_CE + L_MSE (+ λ_B L_bal + λ_C L_con) (+ β L_kl), each a scalar.

        Rows of `logits` are weak views, followed by as many strong ones where there are any.
        """
        weak, strong = logits[: len(labels)], logits[len(labels) :]
        plus, minus = fn.label_noise(labels, u, v)
        expected = fn.with_noise(self.objective.probability(weak), plus, minus.detach())
        fixed = plus if self.u_from == "both" else plus.detach()
        losses = [
            -fn.of_label(expected, labels).log().mean(),
            fn.noise_gap(weak, labels, fixed, minus).mean(),
        ]
        if self.balance:
            losses.append(self.balance * fn.prior_penalty(expected))
        if len(strong):
            losses.append(self.consistency * self.apart(weak.detach(), strong).mean())
        kl = self.objective.divergence(weak, labels)
        return losses if kl is None else [*losses, kl.mean()]

    def apart(self, weak: Tensor, strong: Tensor) -> Tensor:
        """KL(p of the weak view || p of the strong view), (B,)."""
        p, q = self.objective.log_probability(weak), self.objective.log_probability(strong)
        return fn.kl_divergence(p, q)

    def noise(self, state: State, run: Run) -> Tensor:
        """How much of each given label is noise: the largest of U and V, (N,)."""
        plus, minus = fn.label_noise(run.y, state.u, state.v)
        return torch.maximum(plus, minus).amax(1)

    def score(self, state: State, run: Run) -> None:
        """Clean probability: mean of p_y by the network and of what the noise leaves, (N,)."""
        probs = self.objective.probability(run.predict(state.learner.net))
        state.clean = (fn.of_label(probs, run.y) + 1 - self.noise(state, run)) / 2

    def predict(self, state: State, x: Tensor) -> Tensor:
        """Class probabilities by the network alone, (B, C)."""
        return self.objective.probability(state.learner.net(x))


@hp.record
class SOPPlus(SOP):
    """SOP+: SOP with consistency, balance and a cosine schedule."""

    about: ClassVar[About] = replace(
        SOP.about, title="Sparse over-parametrisation with consistency", cost="6 N"
    )

    epochs: hp.Count = 300
    schedule: Literal["steps", "cosine"] = "cosine"
    consistency: hp.NonNegative = 0.9
    balance: hp.NonNegative = 0.1
