"""SAT: self-adaptive training (Huang, Zhang and Zhang, NeurIPS 2020).

After some epochs on the given labels, every example has a soft target that moves slowly from the
given label to the network's predictions; examples count as much as the largest entry of their
target. A wrong label is overruled once the network has contradicted it for about seven epochs.

Paper: https://arxiv.org/abs/2002.10319. Authors' code:
https://github.com/LayneH/self-adaptive-training. Departures: docs/methods/sat.md.
Shapes: B batch, C classes, N training examples.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
import torch.nn.functional as F
from torch import Tensor

from labelproof import functional as fn
from labelproof.nets.heads import linear
from labelproof.training import settings as hp
from labelproof.training.learner import Learner, sgd_of, softmax_of_net
from labelproof.training.protocol import About, Logs, Phase
from labelproof.training.run import Run

LEAST = 1e-4  # smallest target in a logarithm, for the reverse cross-entropy


@dataclass
class State:
    """What changes during training."""

    learner: Learner
    targets: Tensor  # (N, C) t
    clean: Tensor  # (N,) what the target gives the given label


@hp.record
class SAT:
    """Hyper-parameters; defaults are those of the paper for CIFAR."""

    about: ClassVar[About] = About(
        title="SAT: self-adaptive training",
        paper="Huang, Zhang and Zhang, NeurIPS 2020",
        year=2020,
        link="https://arxiv.org/abs/2002.10319",
        code="https://github.com/LayneH/self-adaptive-training",
        cost="3 N",
    )

    epochs: hp.Count = 200
    warmup: hp.WarmUp = 60  # E_s, epochs on the given labels
    batch: hp.PerStep = 256
    lr: hp.Positive = 0.1  # falls to 0 along half a cosine
    momentum: hp.Share = 0.9
    weight_decay: hp.NonNegative = 5e-4
    keep: hp.Share = 0.9  # α, part of a target that stays at each visit
    reverse: hp.NonNegative = 0.0  # weight of the reverse cross-entropy; 0.3 is the SCE variant

    def plan(self) -> tuple[Phase, ...]:
        """Given labels, then targets that adapt."""
        warmup = min(self.warmup, self.epochs)
        return (
            Phase("warm-up", warmup, self.warm_up),
            Phase("adapt", self.epochs - warmup, self.adapt, leave=self.score),
        )

    def setup(self, run: Run) -> State:
        """One network; targets at the given labels."""
        targets = F.one_hot(run.y, run.task.num_classes).float()
        return State(run.learner(sgd_of(self), label=linear), targets, torch.ones(run.task.size))

    predict = softmax_of_net

    def warm_up(self, state: State, run: Run) -> Logs:
        """One epoch of cross-entropy on the given labels."""
        learner = state.learner
        learner.train_at(fn.cosine_decay(self.lr, run.epoch, self.epochs))
        for batch in run.batches(self.batch):
            run.step(learner, F.cross_entropy(learner.net(batch.views[0]), batch.y))
        return {}

    def adapt(self, state: State, run: Run) -> Logs:
        """One epoch: targets move first, then they are learnt."""
        learner = state.learner
        learner.train_at(fn.cosine_decay(self.lr, run.epoch, self.epochs))
        free = run.trusted(torch.zeros(run.task.size, device=run.device)) == 0
        for batch in run.batches(self.batch):
            logits = learner.net(batch.views[0])
            before = state.targets[batch.index]
            moved = self.keep * before + (1 - self.keep) * logits.detach().softmax(1)
            targets = torch.where(free[batch.index, None], moved, before)
            state.targets[batch.index] = targets
            run.step(learner, self.loss(logits, targets))
        changed = state.targets.argmax(1) != run.y
        return {"changed": changed.float().mean().item()}

    def loss(self, logits: Tensor, targets: Tensor) -> Tensor:
        """Mean of w_i times the cross-entropy with t_i; weights add up to B. A scalar."""
        losses = -(targets * logits.log_softmax(1)).sum(1)
        if self.reverse:
            logs = targets.clamp(min=LEAST).log()
            losses = losses - self.reverse * (logits.softmax(1) * logs).sum(1)
        weights = targets.max(1).values
        return (weights * losses).sum() / weights.sum()

    def score(self, state: State, run: Run) -> None:
        """Clean probability: what the target gives the given label, (N,)."""
        state.clean = run.trusted(fn.of_label(state.targets, run.y))
