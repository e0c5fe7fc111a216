"""Co-teaching (Han, Yao, Yu, Niu, Xu, Hu, Tsang and Sugiyama, NeurIPS 2018).

Two networks see the same batch. Each picks the examples with the smallest losses and hands them to
the other, which takes its step on these alone: what one network mistakes for clean, its peer may
refuse. The share that is kept falls from all to 1 - τ over the first epochs, since networks learn
right labels before they memorise wrong ones. Departures: docs/methods/coteaching.md.

Shapes: B batch, C classes, N training examples.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, Literal

import torch
from torch import Tensor

from labelproof import functional as fn
from labelproof.nets.heads import linear
from labelproof.training.learner import SGD, Learner
from labelproof.training.protocol import Logs, Phase
from labelproof.training.run import Run
from labelproof.training.settings import Count, Epochs, NonNegative, Positive, Share, check

# what the method must be told: the share of labels that really are wrong; of these experiments
# those with pairs and with symmetric-exclusive noise are the authors', the others ours
AUTHORS = ("mnist", "cifar10", "cifar100")
WRONG: dict[str, float] = {
    **{f"cifar10-symmetric-{rate}": 0.9 * rate for rate in (0.2, 0.5, 0.8)},
    **{f"cifar100-symmetric-{rate}": 0.99 * rate for rate in (0.2, 0.5, 0.8)},
    **{f"cifar10-asymmetric-{rate}": 0.5 * rate for rate in (0.1, 0.3, 0.4)},
    **{f"cifar100-asymmetric-{rate}": rate for rate in (0.1, 0.3, 0.4)},
    **{f"{data}-pair-0.45": 0.45 for data in AUTHORS},
    **{f"{data}-symmetric-exclusive-{rate}": rate for data in AUTHORS for rate in (0.2, 0.5)},
}
WRONG_BY_HUMANS: dict[str, float] = {
    "cifar10n-aggre": 0.0903,
    "cifar10n-rand1": 0.1723,
    "cifar10n-rand2": 0.1812,
    "cifar10n-rand3": 0.1764,
    "cifar10n-worst": 0.4021,
    "cifar100n": 0.4020,
}
LATER: dict[str, Any] = {"decay_from": 0.5}  # CIFAR-100
PUBLISHED: dict[str, dict[str, Any]] = {
    name: {"noise_rate": rate}
    | (LATER if name.startswith("cifar100") else {})
    | ({"net": "resnet34"} if name in WRONG_BY_HUMANS else {})
    | ({} if "pair" in name or "exclusive" in name else {"ours": True})
    for name, rate in (WRONG | WRONG_BY_HUMANS).items()
}
VECTORS: dict[str, Any] = {"epochs": 15, "ramp": 4, "lr": 3e-4, "view": "weak"}
IMAGES: dict[str, Any] = {"epochs": 60, "view": "weak"}


@dataclass
class State:
    """What changes during training."""

    learners: tuple[Learner, Learner]
    clean: Tensor  # (N,) probability of the given label, mean of the two networks'


@dataclass(frozen=True, kw_only=True)
class CoTeaching:
    """Hyper-parameters; defaults are those of the released code for CIFAR-10."""

    title: ClassVar[str] = "Co-teaching"
    paper: ClassVar[str] = "Han, Yao, Yu, Niu, Xu, Hu, Tsang and Sugiyama, NeurIPS 2018"
    year: ClassVar[int] = 2018
    cost: ClassVar[str] = "6 N"

    epochs: Count = 200
    batch: Count = 128
    noise_rate: Share = 0.2  # τ, share of wrong labels; the paper takes it as known
    ramp: Annotated[Count, Epochs()] = 10  # T_k, epochs until τ is left out
    exponent: Positive = 1.0  # c
    schedule: Literal["released", "paper"] = "released"  # of the share left out
    optimiser: Literal["adam", "sgd"] = "adam"
    lr: Positive = 1e-3
    momentum: Share = 0.9  # Adam's first moment, or SGD's momentum
    late_momentum: Share = 0.1  # of Adam from `decay_from` on
    weight_decay: NonNegative = 0.0
    decay_from: Share = 0.4  # share of the epochs from which lr falls straight towards 0
    view: Literal["plain", "weak"] = "plain"  # "weak" trains on augmented inputs
    loss: Literal["ce", "edl"] = "ce"  # "edl" puts DPC's L_edl and calibrated softmax in
    gamma_c: NonNegative = 10.0  # γ C of L_edl
    beta: NonNegative = 0.5  # β of L_edl

    def __post_init__(self) -> None:
        check(self)

    def plan(self) -> tuple[Phase, ...]:
        """One phase."""
        return (Phase("co-teaching", self.epochs, self.teach, leave=self.score),)

    def setup(self, run: Run) -> State:
        """Two networks, each with its own optimiser."""
        return State((self.new_learner(run), self.new_learner(run)), torch.ones(run.task.size))

    def new_learner(self, run: Run) -> Learner:
        """A network with Adam, or SGD where asked."""
        sgd = SGD(lr=self.lr, momentum=self.momentum, weight_decay=self.weight_decay)
        learner = run.learner(sgd, label=linear)
        if self.optimiser == "adam":
            learner.optimiser = torch.optim.Adam(
                learner.net.parameters(), self.lr, weight_decay=self.weight_decay
            )
        return learner

    def predict(self, state: State, x: Tensor) -> Tensor:
        """Mean of the two networks' probabilities, (B, C)."""
        first, second = state.learners
        return (self.probability(first.net(x)) + self.probability(second.net(x))) / 2

    def teach(self, state: State, run: Run) -> Logs:
        """One epoch: each network steps on the examples its peer trusts."""
        first, second = state.learners
        self.prepare(first, run)
        self.prepare(second, run)
        forget = fn.forget_rate(run.epoch, self.noise_rate, self.ramp, self.exponent, self.schedule)
        for batch in run.batches(self.batch, views=(self.view,)):
            (x,) = batch.views
            losses_1 = self.supervised(first.net(x), batch.y)
            losses_2 = self.supervised(second.net(x), batch.y)
            trusted_1, trusted_2 = fn.small_loss(losses_1, forget), fn.small_loss(losses_2, forget)
            run.step(first, losses_1[trusted_2].mean())
            run.step(second, losses_2[trusted_1].mean())
        return {"kept": 1 - forget}

    def prepare(self, learner: Learner, run: Run) -> None:
        """Training mode, and this epoch's learning rate and momentum."""
        learner.net.train()
        learner.set_lr(fn.late_decay(self.lr, run.epoch, self.epochs, self.decay_from))
        late = run.epoch >= round(self.decay_from * self.epochs)
        if self.optimiser == "adam":
            for group in learner.optimiser.param_groups:
                group["betas"] = (self.late_momentum if late else self.momentum, 0.999)

    def score(self, state: State, run: Run) -> None:
        """Clean probability: what both networks give the given label, (N,)."""
        first, second = (self.probability(run.predict(each.net)) for each in state.learners)
        state.clean = ((first + second) / 2).gather(1, run.y[:, None]).squeeze(1)

    # ---- losses with this method's constants ----

    def supervised(self, logits: Tensor, labels: Tensor) -> Tensor:
        """Cross-entropy or L_edl, (B,)."""
        beta = self.beta if self.loss == "edl" else 0.0
        return fn.edl_loss(logits, labels, self.gamma(logits), beta)

    def probability(self, logits: Tensor) -> Tensor:
        """Softmax, calibrated when trained with L_edl, (B, C)."""
        return fn.calibrated_softmax(logits, self.gamma(logits))

    def gamma(self, logits: Tensor) -> float:
        """γ from γ C; 0 is the plain softmax."""
        return self.gamma_c / logits.shape[1] if self.loss == "edl" else 0.0
