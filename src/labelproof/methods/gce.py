"""GCE: generalised cross-entropy, plain and truncated (Zhang and Sabuncu, NeurIPS 2018).

Paper: https://arxiv.org/abs/1805.07836. No code of its authors is known to us; the port in common
use is https://github.com/AlanChou/Truncated-Loss. Departures: docs/methods/gce.md.

1. L_q = (1 - p_y^q) / q lies between cross-entropy (q -> 0, learns fast, believes every label) and
   the absolute error (q = 1, tolerates wrong labels, learns slowly).
2. The truncated form gives a constant loss where the given label has a probability of at most k.
3. It is trained by turns: the network with a fixed set of kept examples, then the set with a fixed
   network.

Shapes: B batch, C classes, N training examples.
"""

from __future__ import annotations

from copy import deepcopy
from dataclasses import dataclass
from typing import Annotated, ClassVar

import torch
from torch import Tensor

from labelproof import functional as fn
from labelproof.nets.heads import MultiHead, linear
from labelproof.training import settings as hp
from labelproof.training.learner import Learner, sgd_of, softmax_of_net
from labelproof.training.protocol import About, Logs, one_phase
from labelproof.training.run import Run


@dataclass
class State:
    """What changes during training."""

    learner: Learner
    kept: Tensor  # (N,) w, 1 for examples that are trained on, 0 for pruned ones
    fitted: Tensor  # examples trained on; the others, if any, choose the best epoch
    best: MultiHead | None  # network of the best epoch so far, where examples are held out
    best_accuracy: float
    clean: Tensor  # (N,) probability of the given label


@hp.record
class GCE:
    """Hyper-parameters; defaults are the paper's for CIFAR-10, not truncated."""

    about: ClassVar[About] = About(
        title="Generalised cross-entropy",
        paper="Zhang and Sabuncu, NeurIPS 2018",
        year=2018,
        link="https://arxiv.org/abs/1805.07836",
        cost="3 N (truncated: N more whenever it prunes)",
    )

    epochs: hp.Count = 120
    batch: hp.PerStep = 128
    lr: hp.Positive = 0.01
    momentum: hp.Share = 0.9
    weight_decay: hp.NonNegative = 1e-4
    decay_at: tuple[hp.Share, ...] = (1 / 3, 2 / 3)  # lr x 0.1 from these shares of the epochs on
    q: Annotated[float, hp.Range(0, 1, open_low=True)] = 0.7
    truncate: bool = False
    k: hp.Share = 0.5  # examples with p_y <= k are pruned
    prune_from: hp.Share = 1 / 3  # share of the epochs before the first pruning
    prune_every: Annotated[hp.Count, hp.Epochs()] = 10  # epochs between prunings
    hold_out: Annotated[float, hp.Range(0, 0.5)] = (
        0.0  # share that picks the pruning epoch; 0: latest
    )

    plan = one_phase

    def setup(self, run: Run) -> State:
        """One network with a linear head; every example is kept."""
        learner = run.learner(sgd_of(self), label=linear)
        held = int(self.hold_out * run.task.size) if self.truncate else 0
        order = torch.randperm(run.task.size, generator=run.rng)
        return State(
            learner=learner,
            kept=torch.ones(run.task.size, device=run.device),
            fitted=order[held:].sort().values,
            best=deepcopy(learner.net) if held else None,
            best_accuracy=0.0,
            clean=torch.ones(run.task.size),
        )

    def train(self, state: State, run: Run) -> Logs:
        """One epoch of L_q on the kept examples, after a new pruning where one is due."""
        learner = state.learner
        if self.prunes(run.epoch):
            state.kept = self.prune(state.best or learner.net, run)
        learner.train_at(fn.stair_decay(self.lr, run.epoch, self.epochs, self.decay_at))
        for batch in run.batches(self.batch, state.fitted):
            losses = generalised_cross_entropy(learner.net(batch.views[0]), batch.y, self.q)
            # the mean is over pruned examples too, as released: fewer kept, smaller steps
            run.step(learner, (state.kept[batch.index] * losses).mean())
        if state.best is not None:
            self.keep_best(state, state.best, run)
        return {"kept": state.kept.mean().item()} if self.truncate else {}

    def prunes(self, epoch: int) -> bool:
        """Whether the set of kept examples is chosen anew before this epoch."""
        since = epoch - round(self.prune_from * self.epochs)
        return self.truncate and since >= 0 and since % self.prune_every == 0

    def prune(self, net: MultiHead, run: Run) -> Tensor:
        """w = 1[p_y > k], the minimiser of Σ w (L_q(p_y) - L_q(k)); (N,), all 1 if none is left."""
        kept = (self.given_probability(net, run) > self.k).float()
        return kept if kept.any() else torch.ones_like(kept)

    def keep_best(self, state: State, best: MultiHead, run: Run) -> None:
        """Remember the network if it agrees with more held-out labels than any before."""
        right = (run.predict(state.learner.net).argmax(1) == run.y).float()
        right[state.fitted] = 0.0
        accuracy = right.sum().item() / (run.task.size - len(state.fitted))
        if accuracy >= state.best_accuracy:
            state.best_accuracy = accuracy
            best.load_state_dict(state.learner.net.state_dict())

    def given_probability(self, net: MultiHead, run: Run) -> Tensor:
        """p_y of every training example, (N,)."""
        return fn.of_label(run.predict(net).softmax(1), run.y)

    def score(self, state: State, run: Run) -> None:
        """Clean probability: what the trained network gives the given label, (N,)."""
        state.clean = self.given_probability(state.learner.net, run)

    predict = softmax_of_net


def generalised_cross_entropy(logits: Tensor, labels: Tensor, q: float) -> Tensor:
    """L_q = (1 - p_y^q) / q, (B,), from 0 to 1 / q; its slope is p_y^q times cross-entropy's."""
    log_p = -fn.edl_nll(logits, labels, gamma=0)
    return -torch.expm1(q * log_p) / q
