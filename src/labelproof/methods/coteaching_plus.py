"""Co-teaching+ (Yu, Han, Yao, Niu, Tsang and Sugiyama, ICML 2019).

Paper: https://arxiv.org/abs/1901.04215. Code of its authors:
https://github.com/xingruiyu/coteaching_plus. Departures: docs/methods/coteaching_plus.md.

1. Co-teaching for some epochs: each network picks the smallest losses for the other.
2. After that, both look only at the examples of a batch on which they disagree.
3. Among these each picks the smallest losses and hands them to the other. Without this the two
   grow alike, and exchanging examples is worth nothing.

Shapes: B batch, C classes, N training examples; D examples of a batch with different predictions.
"""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal

import torch
from torch import Tensor

from labelproof import functional as fn
from labelproof.nets.heads import linear
from labelproof.training import settings as hp
from labelproof.training.batches import Batch
from labelproof.training.learner import TwoNets, adam_or_sgd, softmax_of_nets
from labelproof.training.loop import given_label
from labelproof.training.protocol import About, Logs, Phase
from labelproof.training.run import Run


@hp.record
class CoTeachingPlus:
    """Hyper-parameters; defaults are those of the released code for CIFAR-10."""

    about: ClassVar[About] = About(
        title="Co-teaching+",
        paper="Yu, Han, Yao, Niu, Tsang and Sugiyama, ICML 2019",
        year=2019,
        link="https://arxiv.org/abs/1901.04215",
        code="https://github.com/xingruiyu/coteaching_plus",
        cost="6 N",
    )

    epochs: hp.Count = 200
    together: hp.RampEpochs = 20  # of plain Co-teaching, before disagreement counts
    batch: hp.PerStep = 128
    noise_rate: hp.WrongShare = 0.2  # τ, share of wrong labels; the paper takes it as known
    ramp: Annotated[hp.Count, hp.Epochs()] = 10  # E_k, epochs until τ is left out
    exponent: hp.Positive = 1.0  # c
    schedule: Literal["released", "paper"] = "released"  # of the share left out
    settle: hp.Natural = 5000  # steps during which a batch without disagreement is trained on whole
    optimiser: Literal["adam", "sgd"] = "adam"
    lr: hp.Positive = 1e-3
    momentum: hp.Share = 0.9  # Adam's first moment, or SGD's momentum
    late_momentum: hp.Share = 0.1  # of Adam from `decay_from` on
    weight_decay: hp.NonNegative = 0.0
    decay_from: hp.Share = 0.4  # share of the epochs from which lr falls straight towards 0
    view: Literal["plain", "weak"] = "plain"  # "weak" trains on augmented inputs

    def __post_init__(self) -> None:
        hp.check_shorter(self, "together")

    def plan(self) -> tuple[Phase, ...]:
        """Co-teaching, then disagreement."""
        apart = self.epochs - self.together
        return (
            Phase("co-teaching", self.together, self.teach),
            Phase("disagreement", apart, self.teach_apart, leave=self.score),
        )

    def setup(self, run: Run) -> TwoNets:
        """Two networks, each with its own optimiser."""
        chosen = adam_or_sgd(self.optimiser, self.lr, self.momentum, self.weight_decay)
        return TwoNets(run.pair(chosen, label=linear), torch.ones(run.task.size))

    predict = softmax_of_nets
    score = given_label

    def teach(self, state: TwoNets, run: Run) -> Logs:
        """One epoch of Co-teaching: small losses of the whole batch are exchanged."""
        forget = self.prepare(state, run)
        for batch in run.batches(self.batch, views=(self.view,)):
            self.exchange(state, *self.logits(state, batch), batch.y, forget, run)
        return {"kept": 1 - forget}

    def teach_apart(self, state: TwoNets, run: Run) -> Logs:
        """One epoch in which small losses are exchanged where the networks disagree."""
        forget, count = self.prepare(state, run), 0
        batches = run.batches(self.batch, views=(self.view,))
        for step, batch in enumerate(batches, run.epoch * len(batches)):
            first, second = self.logits(state, batch)
            apart = (first.argmax(1) != second.argmax(1)).nonzero().squeeze(1)
            count += len(apart)
            if len(apart):
                self.exchange(state, first[apart], second[apart], batch.y[apart], forget, run)
            elif step < self.settle:
                self.exchange(state, first, second, batch.y, 0.0, run)
        return {"kept": 1 - forget, "disagreeing": count / run.task.size}

    def logits(self, state: TwoNets, batch: Batch) -> tuple[Tensor, Tensor]:
        """What both networks say of a batch, (B, C) each."""
        first, second = state.learners
        return first.net(batch.views[0]), second.net(batch.views[0])

    def exchange(
        self, state: TwoNets, logits_1: Tensor, logits_2: Tensor, y: Tensor, forget: float, run: Run
    ) -> None:
        """Each network steps on the mean loss of the rows its peer trusts."""
        first, second = state.learners
        losses_1, losses_2 = fn.edl_nll(logits_1, y, gamma=0), fn.edl_nll(logits_2, y, gamma=0)
        trusted_1, trusted_2 = fn.small_loss(losses_1, forget), fn.small_loss(losses_2, forget)
        run.step(first, losses_1[trusted_2].mean())
        run.step(second, losses_2[trusted_1].mean())

    def prepare(self, state: TwoNets, run: Run) -> float:
        """Set this epoch's learning rate and momentum; the share to leave out."""
        late = run.epoch >= round(self.decay_from * self.epochs)
        for learner in state.learners:
            learner.train_at(fn.late_decay(self.lr, run.epoch, self.epochs, self.decay_from))
            if self.optimiser == "adam":
                learner.set_adam_momentum(self.late_momentum if late else self.momentum)
        return fn.forget_rate(run.epoch, self.noise_rate, self.ramp, self.exponent, self.schedule)
