"""PENCIL: probabilistic end-to-end noise correction (Yi and Wu, CVPR 2019).

Every example owns the logits of a label distribution, which start at the given label. (1) Plain
cross-entropy at a high, constant learning rate. (2) Network and label distributions are trained
together by one backward pass: the network towards the distributions, those towards the network's
predictions and, weakly, towards the given labels. (3) The distributions stay, the network is
fine-tuned on them.

Paper: https://arxiv.org/abs/1903.07788. Authors' code: https://github.com/yikun2019/PENCIL.
Departures: docs/methods/pencil.md.
Shapes: B batch, C classes, N training examples.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, ClassVar

import torch
import torch.nn.functional as F
from torch import Tensor

from labelproof import functional as fn
from labelproof.errors import BadInput
from labelproof.nets.heads import linear
from labelproof.training import settings as hp
from labelproof.training.learner import Learner, sgd_of, softmax_of_net
from labelproof.training.protocol import About, Logs, Phase
from labelproof.training.run import Run

USUAL_BATCH = 128  # that λ is stated for


@dataclass
class State:
    """What changes during training."""

    learner: Learner
    labels: Tensor  # (N, C) ỹ, logits of the label distributions
    clean: Tensor  # (N,) what the label distribution gives the given label


@hp.record
class PENCIL:
    """Hyper-parameters; defaults are those of the released code for CIFAR-10."""

    about: ClassVar[About] = About(
        title="PENCIL: probabilistic end-to-end noise correction",
        paper="Yi and Wu, CVPR 2019",
        year=2019,
        link="https://arxiv.org/abs/1903.07788",
        code="https://github.com/yikun2019/PENCIL",
        cost="3 N",
    )

    epochs: hp.Count = 320  # of all three stages
    warmup: hp.WarmUp = 70  # stage 1, on the given labels
    joint: Annotated[hp.Count, hp.Epochs("stage")] = 130  # stage 2, labels are learnt
    batch: hp.PerStep = 128
    lr: hp.Positive = 0.06  # of stages 1 and 2
    last_lr: hp.Positive = 0.2  # of stage 3; a tenth and a hundredth after each third
    momentum: hp.Share = 0.9
    weight_decay: hp.NonNegative = 1e-4
    start: hp.Positive = 10.0  # K, first logit of the given label
    label_lr: hp.NonNegative = 600.0  # λ, step of the labels down the mean loss of 128 examples
    alpha: hp.NonNegative = 0.4  # α, weight of L_o
    beta: hp.NonNegative = 0.1  # β, weight of L_e
    double_softmax: bool = False  # L_o as the released code has it

    def __post_init__(self) -> None:
        if self.warmup + self.joint > self.epochs:
            raise BadInput(
                f"PENCIL: warmup and joint must fit into epochs, not {self.warmup} and "
                f"{self.joint} into {self.epochs}."
            )

    def plan(self) -> tuple[Phase, ...]:
        """The three stages."""
        rest = self.epochs - self.warmup - self.joint
        return (
            Phase("warm-up", self.warmup, self.warm_up),
            Phase("joint", self.joint, self.learn_labels, leave=self.score),
            Phase("fine-tune", rest, self.fine_tune),
        )

    def setup(self, run: Run) -> State:
        """One network; label distributions at the given labels."""
        labels = self.start * F.one_hot(run.y, run.task.num_classes).float()
        return State(run.learner(sgd_of(self), label=linear), labels, torch.ones(run.task.size))

    predict = softmax_of_net

    # ---- the stages ----

    def warm_up(self, state: State, run: Run) -> Logs:
        """Stage 1, one epoch: cross-entropy on the given labels."""
        learner = state.learner
        learner.train_at(self.lr)
        for batch in run.batches(self.batch):
            run.step(learner, F.cross_entropy(learner.net(batch.views[0]), batch.y))
        return {}

    def learn_labels(self, state: State, run: Run) -> Logs:
        """Stage 2, one epoch: L_c / C + α L_o + β L_e / C moves weights and labels."""
        learner = state.learner
        learner.train_at(self.lr)
        free = run.trusted(torch.zeros(run.task.size, device=run.device)) == 0
        for batch in run.batches(self.batch):
            rows = state.labels[batch.index].requires_grad_()
            logits = learner.net(batch.views[0])
            run.step(learner, *self.losses(logits, rows, batch.y))
            assert rows.grad is not None
            # a row's slope is that of a mean, so other batches take a step of the same size
            step = self.label_lr * len(rows) / USUAL_BATCH * rows.grad * free[batch.index, None]
            state.labels[batch.index] = rows.detach() - step
        changed = state.labels.argmax(1) != run.y
        return {"changed": changed.float().mean().item()}

    def fine_tune(self, state: State, run: Run) -> Logs:
        """Stage 3, one epoch: the network alone, towards the label distributions."""
        before = self.warmup + self.joint
        third = int(3 * (run.epoch - before) / (self.epochs - before))
        learner = state.learner
        learner.train_at(self.last_lr * 0.1**third)
        for batch in run.batches(self.batch):
            logits = learner.net(batch.views[0])
            loss = correction(logits, state.labels[batch.index])
            run.step(learner, loss.mean() / logits.shape[1])
        return {}

    def losses(self, logits: Tensor, rows: Tensor, given: Tensor) -> tuple[Tensor, ...]:
        """L_c / C, α L_o and β L_e / C (eq. 3 to 5 of the paper), each a mean over the batch."""
        classes = logits.shape[1]
        distribution = rows.softmax(1) if self.double_softmax else rows
        return (
            correction(logits, rows).mean() / classes,
            self.alpha * F.cross_entropy(distribution, given),
            self.beta * entropy(logits).mean() / classes,
        )

    def score(self, state: State, run: Run) -> None:
        """Clean probability: what the label distribution gives the given label, (N,)."""
        given = fn.of_label(state.labels.softmax(1), run.y)
        state.clean = run.trusted(given)


def correction(logits: Tensor, rows: Tensor) -> Tensor:
    """L_c: KL(f || y^d) of the prediction f from the label distribution, prediction first, (B,)."""
    return fn.kl_divergence(logits.log_softmax(1), rows.log_softmax(1))


def entropy(logits: Tensor) -> Tensor:
    """L_e: -Σ_c f_c ln f_c, (B,)."""
    log_f = logits.log_softmax(1)
    return -(log_f.exp() * log_f).sum(1)
