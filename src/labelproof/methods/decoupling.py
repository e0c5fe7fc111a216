"""Decoupling when to update from how to update (Malach and Shalev-Shwartz, NeurIPS 2017).

Two networks with different first weights see the same batches. After some epochs each of them steps
only on the examples on which their predictions differ. Where both agree, right or wrong, nothing is
learnt, so wrong labels pull less and less.

Paper: https://arxiv.org/abs/1706.02613. Authors' code:
https://github.com/emalach/UpdateByDisagreement. Departures: docs/methods/decoupling.md.
Shapes: B batch, C classes, N training examples.
"""

from __future__ import annotations

from typing import ClassVar, Literal

import torch
import torch.nn.functional as F
from torch import Tensor

from labelproof import functional as fn
from labelproof.nets.heads import linear
from labelproof.training import settings as hp
from labelproof.training.batches import mean_of_steps
from labelproof.training.learner import TwoNets, adam_or_sgd, softmax_of_nets
from labelproof.training.loop import given_label
from labelproof.training.protocol import About, Logs, Phase
from labelproof.training.run import Run


@hp.record
class Decoupling:
    """Hyper-parameters; defaults are those Co-teaching's authors compare with on CIFAR-10."""

    about: ClassVar[About] = About(
        title="Decoupling",
        paper="Malach and Shalev-Shwartz, NeurIPS 2017",
        year=2017,
        link="https://arxiv.org/abs/1706.02613",
        code="https://github.com/emalach/UpdateByDisagreement",
        cost="2 N, and 4 for each example on which the networks disagree",
    )

    epochs: hp.Count = 200
    warmup: hp.WarmUp = 20  # epochs on all examples
    batch: hp.PerStep = 128
    optimiser: Literal["adam", "sgd"] = "adam"
    lr: hp.Positive = 1e-3
    decay_from: hp.Share = 0.4  # share of the epochs from which lr falls straight towards 0
    momentum: hp.Share = 0.9
    weight_decay: hp.NonNegative = 0.0
    view: Literal["plain", "weak"] = "plain"
    least: hp.Share = 0.1  # share of a batch that a step's loss is divided by at the least

    def plan(self) -> tuple[Phase, ...]:
        """All examples, then those of disagreement."""
        rest = self.epochs - self.warmup
        return (
            Phase("warm-up", self.warmup, self.warm_up),
            Phase("disagreement", rest, self.disagree, leave=self.score),
        )

    def setup(self, run: Run) -> TwoNets:
        """Two networks."""
        chosen = adam_or_sgd(self.optimiser, self.lr, self.momentum, self.weight_decay)
        return TwoNets(run.pair(chosen, label=linear), torch.ones(run.task.size))

    predict = softmax_of_nets
    score = given_label

    def warm_up(self, state: TwoNets, run: Run) -> Logs:
        """One epoch on all examples, each network by itself."""
        self.epoch(state, run, everything=True)
        return {}

    def disagree(self, state: TwoNets, run: Run) -> Logs:
        """One epoch on the examples whose predictions differ."""
        return {"disagreement": self.epoch(state, run, everything=False)}

    def epoch(self, state: TwoNets, run: Run, *, everything: bool) -> float:
        """One epoch; the share of examples that were stepped on."""
        for learner in state.learners:
            learner.train_at(fn.late_decay(self.lr, run.epoch, self.epochs, self.decay_from))
        share = []
        for batch in run.batches(self.batch, views=(self.view,)):
            both = [learner.net(batch.views[0]) for learner in state.learners]
            chosen = differ(*both) | everything
            share.append(chosen.float().mean())
            rows = chosen.nonzero().squeeze(1)  # the host waits for their number
            if len(rows):
                for learner, logits in zip(state.learners, both, strict=True):
                    loss = F.cross_entropy(logits[rows], batch.y[rows], reduction="sum")
                    run.step(learner, loss / max(self.least * len(chosen), len(rows)))
        return mean_of_steps(share)


def differ(first: Tensor, second: Tensor) -> Tensor:
    """Whether two networks predict different classes, (B,) bool."""
    return first.argmax(1) != second.argmax(1)
