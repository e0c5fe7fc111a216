"""Co-teaching (Han, Yao, Yu, Niu, Xu, Hu, Tsang and Sugiyama, NeurIPS 2018).

Paper: https://arxiv.org/abs/1804.06872. Code of its authors: https://github.com/bhanML/Co-teaching.
Departures: docs/methods/coteaching.md.

1. Two networks see the same batch.
2. Each picks the examples with the smallest losses and hands them to the other.
3. The other takes its step on these alone: what one mistakes for clean, its peer may refuse.
4. The share that is kept falls from all to 1 - τ over the first epochs, since networks learn right
   labels before they memorise wrong ones.

Shapes: B batch, C classes, N training examples.
"""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal

import torch
from torch import Tensor

from labelproof import functional as fn
from labelproof.nets.heads import linear
from labelproof.training import settings as hp
from labelproof.training.learner import Learner, TwoNets, adam_or_sgd, logits_of_nets
from labelproof.training.loop import given_label
from labelproof.training.protocol import About, Logs, Phase
from labelproof.training.run import Run


@hp.record
class CoTeaching:
    """Hyper-parameters; defaults are those of the released code for CIFAR-10."""

    about: ClassVar[About] = About(
        title="Co-teaching",
        paper="Han, Yao, Yu, Niu, Xu, Hu, Tsang and Sugiyama, NeurIPS 2018",
        year=2018,
        link="https://arxiv.org/abs/1804.06872",
        code="https://github.com/bhanML/Co-teaching",
        cost="6 N",
        evidence=lambda method, state, x: method.objective.log_evidence(method.logits(state, x)),
    )

    epochs: hp.Count = 200
    batch: hp.PerStep = 128
    noise_rate: hp.WrongShare = 0.2  # τ, share of wrong labels; the paper takes it as known
    ramp: Annotated[hp.Count, hp.Epochs()] = 10  # T_k, epochs until τ is left out
    exponent: hp.Positive = 1.0  # c
    schedule: Literal["released", "paper"] = "released"  # of the share left out
    optimiser: Literal["adam", "sgd"] = "adam"
    lr: hp.Positive = 1e-3
    momentum: hp.Share = 0.9  # Adam's first moment, or SGD's momentum
    late_momentum: hp.Share = 0.1  # of Adam from `decay_from` on
    weight_decay: hp.NonNegative = 0.0
    decay_from: hp.Share = 0.4  # share of the epochs from which lr falls straight towards 0
    view: Literal["plain", "weak"] = "plain"  # "weak" trains on augmented inputs
    loss: Literal["ce", "edl"] = "ce"  # "edl" puts DPC's L_edl and calibrated softmax in
    gamma_c: hp.NonNegative = 10.0  # γ C of L_edl
    beta: hp.NonNegative = 0.5  # β of L_edl

    @property
    def objective(self) -> fn.Objective:
        """Loss and probabilities."""
        return fn.Objective(self.loss, self.gamma_c, self.beta)

    def plan(self) -> tuple[Phase, ...]:
        """One phase."""
        return (Phase("co-teaching", self.epochs, self.teach, leave=self.score),)

    def setup(self, run: Run) -> TwoNets:
        """Two networks, each with its own optimiser."""
        chosen = adam_or_sgd(self.optimiser, self.lr, self.momentum, self.weight_decay)
        return TwoNets(run.pair(chosen, label=linear), torch.ones(run.task.size))

    logits = logits_of_nets

    score = given_label

    def predict(self, state: TwoNets, x: Tensor) -> Tensor:
        """Mean of the two networks' probabilities, (B, C)."""
        first, second = state.learners
        return (
            self.objective.probability(first.net(x)) + self.objective.probability(second.net(x))
        ) / 2

    def teach(self, state: TwoNets, run: Run) -> Logs:
        """One epoch: each network steps on the examples its peer trusts."""
        first, second = state.learners
        self.prepare(first, run)
        self.prepare(second, run)
        forget = fn.forget_rate(run.epoch, self.noise_rate, self.ramp, self.exponent, self.schedule)
        for batch in run.batches(self.batch, views=(self.view,)):
            (x,) = batch.views
            losses_1 = self.objective.of_labels(first.net(x), batch.y)
            losses_2 = self.objective.of_labels(second.net(x), batch.y)
            trusted_1, trusted_2 = fn.small_loss(losses_1, forget), fn.small_loss(losses_2, forget)
            run.step(first, losses_1[trusted_2].mean())
            run.step(second, losses_2[trusted_1].mean())
        return {"kept": 1 - forget}

    def prepare(self, learner: Learner, run: Run) -> None:
        """Training mode, and this epoch's learning rate and momentum."""
        learner.train_at(fn.late_decay(self.lr, run.epoch, self.epochs, self.decay_from))
        late = run.epoch >= round(self.decay_from * self.epochs)
        if self.optimiser == "adam":
            learner.set_adam_momentum(self.late_momentum if late else self.momentum)
