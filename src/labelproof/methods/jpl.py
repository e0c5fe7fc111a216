"""JPL (JNPL): joint negative and positive learning (Kim, Yun, Shon and Kim, CVPR 2021).

(1) Filter: the network learns that an example is *not* of a class drawn among the others (NL+), and
for examples of which it is sure, what they are (PL+); both losses have weights without gradient
that repair how fast they pull. Labels whose probability stays high are clean. (2) A new network
learns the clean labels. (3) It labels the rest, and a third network learns from all.

Paper: https://arxiv.org/abs/2104.06574. Authors' code: none; that of its predecessor NLNL is
https://github.com/ydkim1293/NLNL-Negative-Learning-for-Noisy-Labels.
Departures: docs/methods/jpl.md.
Shapes: B batch, C classes, K complementary labels, N training examples.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

import torch
import torch.nn.functional as F
from torch import Tensor

from labelproof import functional as fn
from labelproof.errors import BadInput
from labelproof.nets.heads import linear
from labelproof.training import settings as hp
from labelproof.training.batches import mean_of_steps
from labelproof.training.learner import SGD, Learner, sgd_of, softmax_of_net
from labelproof.training.protocol import About, Logs, Phase
from labelproof.training.run import Run

HISTORY = 10  # epochs whose probabilities are averaged, as in NLNL


@dataclass
class State:
    """What changes during training."""

    learner: Learner
    history: Tensor  # (N, HISTORY) probability of the given label in recent epochs, NaN before
    targets: Tensor  # (N, C) what the later stages learn
    kept: Tensor  # (N,) bool, labels that the filter calls clean
    clean: Tensor  # (N,) mean of the history


@hp.record
class JPL:
    """Hyper-parameters; defaults are those of the paper for CIFAR-10."""

    about: ClassVar[About] = About(
        title="JPL: joint negative and positive learning",
        paper="Kim, Yun, Shon and Kim, CVPR 2021",
        year=2021,
        link="https://arxiv.org/abs/2104.06574",
        cost="3 N",
    )

    epochs: hp.Count = 1960  # of all three stages
    final: hp.StageEpochs = 480  # of each of the two later stages
    batch: hp.PerStep = 128
    lr: hp.Positive = 0.01  # of the filter
    decay_at: hp.Share = 0.8  # of the filter: lr x 0.1 from this share of its epochs on
    final_lr: hp.Positive = 0.1  # of the later stages; x 0.1 after 40% and 60% of them
    momentum: hp.Share = 0.9
    weight_decay: hp.NonNegative = 1e-4
    complements: hp.Count = 1  # K, complementary labels an example and step
    powers: hp.Natural = 3  # N of PL+, whose slope is 1 - p^(2^(N + 1))
    positive_weight: hp.NonNegative = 0.01  # λ, weight of PL+
    positive_over: Literal["batch", "chosen"] = "batch"  # what PL+ is a mean over
    agree: bool = True  # PL+ only where the predicted class is the given one
    cut: hp.Share = 0.5  # mean probability from which a given label is clean

    def __post_init__(self) -> None:
        if 2 * self.final >= self.epochs:
            raise BadInput(
                f"JPL: twice final must be smaller than epochs, not {self.final} of {self.epochs}."
            )

    @property
    def filter_epochs(self) -> int:
        """Epochs of the filter."""
        return self.epochs - 2 * self.final

    def plan(self) -> tuple[Phase, ...]:
        """Filter, clean labels, all examples."""
        filtering = Phase("filter", self.filter_epochs, self.filter, leave=self.sort_out)
        if not self.final:
            return (filtering,)
        return (
            filtering,
            Phase("clean", self.final, self.learn_clean, self.start_anew, self.relabel),
            Phase("all", self.final, self.learn_all, self.start_anew),
        )

    def setup(self, run: Run) -> State:
        """One network at a time."""
        size, classes = run.task.size, run.task.num_classes
        return State(
            run.learner(sgd_of(self), label=linear),
            torch.full((size, HISTORY), torch.nan, device=run.device),
            F.one_hot(run.y, classes).float(),
            torch.ones(size, dtype=torch.bool, device=run.device),
            torch.ones(size),
        )

    predict = softmax_of_net

    # ---- the filter ----

    def filter(self, state: State, run: Run) -> Logs:
        """One epoch of NL+ + λ PL+."""
        milestone = round(self.decay_at * self.filter_epochs)
        learner = state.learner
        learner.train_at(self.lr * (0.1 if run.epoch >= milestone else 1.0))
        selected = []
        for batch in run.batches(self.batch):
            logits = learner.net(batch.views[0])
            others = complements(batch.y, run.task.num_classes, self.complements, run.rng)
            chosen = self.positives(logits.detach(), batch.y, run.rng)
            positive = positive_plus(logits, logits.argmax(1), self.powers) * chosen
            negative = negative_plus(logits, others).mean()
            if self.positive_over == "chosen":
                positive = positive * len(chosen) / chosen.sum().clamp(min=1)
            run.step(learner, negative, self.positive_weight * positive.mean())
            given = fn.of_label(logits.detach().softmax(1), batch.y)
            state.history[batch.index, run.epoch % HISTORY] = given
            selected.append(chosen.mean())
        return {"positive": mean_of_steps(selected)}

    def positives(self, logits: Tensor, given: Tensor, rng: torch.Generator) -> Tensor:
        """Which examples get PL+ (algorithm 1): sure ones, with their probability; (B,) 0 or 1."""
        probs = logits.softmax(1)
        top, predicted = probs.max(1)
        sure = (probs >= 1 / probs.shape[1]).sum(1) == 1
        if self.agree:
            sure &= predicted == given
        drawn = torch.rand(len(top), generator=rng).to(top.device) < top
        return (sure & drawn).float()

    def sort_out(self, state: State, run: Run) -> None:
        """Labels whose probability stayed at `cut` or above are clean."""
        seen = state.history.nanmean(1)
        missing = seen.isnan()  # never in a whole batch: the network as it is now
        if missing.any():
            now = fn.of_label(run.predict(state.learner.net).softmax(1), run.y)
            seen = torch.where(missing, now, seen)
        state.clean = run.trusted(seen)
        state.kept = state.clean >= self.cut
        if not state.kept.any():  # a filter that keeps nothing leaves all labels
            state.kept = torch.ones_like(state.kept)

    # ---- the later stages ----

    def start_anew(self, state: State, run: Run) -> None:
        """A new network; only the targets stay."""
        sgd = SGD(lr=self.final_lr, momentum=self.momentum, weight_decay=self.weight_decay)
        state.learner = run.learner(sgd, label=linear)

    def learn_clean(self, state: State, run: Run) -> Logs:
        """One epoch on the clean labels, every class with the same weight."""
        chosen = state.kept.nonzero().squeeze(1)
        counts = torch.bincount(run.y[chosen], minlength=run.task.num_classes).float()
        weights = torch.where(counts > 0, counts.max() / counts.clamp(min=1), 0.0)
        self.epoch_on(state, run, chosen, weights, self.filter_epochs)
        return {"selected": state.kept.float().mean().item()}

    def learn_all(self, state: State, run: Run) -> Logs:
        """One epoch on clean labels and on the second network's predictions of the rest."""
        equal = torch.ones(run.task.num_classes, device=run.device)
        self.epoch_on(state, run, None, equal, self.filter_epochs + self.final)
        return {}

    def epoch_on(
        self, state: State, run: Run, chosen: Tensor | None, weights: Tensor, first: int
    ) -> None:
        """One epoch of weighted cross-entropy with the targets; the stage began at `first`."""
        done = (run.epoch - first) / self.final
        learner = state.learner
        learner.train_at(self.final_lr * 0.1 ** ((done >= 0.4) + (done >= 0.6)))
        for batch in run.batches(self.batch, chosen):
            targets = state.targets[batch.index]
            losses = F.cross_entropy(learner.net(batch.views[0]), targets, reduction="none")
            weight = weights[batch.y]
            run.step(learner, (weight * losses).sum() / weight.sum())

    def relabel(self, state: State, run: Run) -> None:
        """Soft predictions become the targets of what the filter left out."""
        probs = run.predict(state.learner.net).softmax(1)
        state.targets = torch.where(state.kept[:, None], state.targets, probs)


def complements(labels: Tensor, classes: int, count: int, rng: torch.Generator) -> Tensor:
    """`count` classes other than each label, uniform and with replacement, (B, K)."""
    shift = torch.randint(1, max(2, classes), (len(labels), count), generator=rng)
    return (labels[:, None] + shift.to(labels.device)) % classes


def negative_plus(logits: Tensor, others: Tensor) -> Tensor:
    """NL+ = -(1 - p)^sg ln(1 - p) of the complementary labels, mean over them, (B,)."""
    log_rest = log_other(logits).gather(1, others)
    return -(log_rest.detach().exp() * log_rest).mean(1)


def positive_plus(logits: Tensor, labels: Tensor, powers: int) -> Tensor:
    """PL+ = -[Π_n (1 + p^(2^n))]^sg ln p for n = 0 ... `powers`, (B,)."""
    log_p = fn.of_label(logits.log_softmax(1), labels)
    p = log_p.detach().exp()
    weight = torch.stack([1 + p ** (2**n) for n in range(powers + 1)]).prod(0)
    return -weight * log_p


def log_other(logits: Tensor) -> Tensor:
    """ln(1 - p_c) of every class, from the other classes' logits, exact near p_c = 1, (B, C)."""
    classes = logits.shape[1]
    hidden = torch.eye(classes, dtype=torch.bool, device=logits.device)
    rest = logits[:, None, :].expand(-1, classes, -1).masked_fill(hidden, -torch.inf)
    return rest.logsumexp(2) - logits.logsumexp(1, keepdim=True)
