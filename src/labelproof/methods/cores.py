"""CORES and CORES*: confidence-regularised sample sieve (Cheng and others, ICLR 2021).

Paper: https://arxiv.org/abs/2010.02347. Code of its authors: https://github.com/UCSC-REAL/cores.
Departures: docs/methods/cores.md.

1. One network, cross-entropy less β times the loss expected when labels are drawn from their
   frequencies, which rewards confident predictions.
2. From some epoch on, examples whose loss exceeds its mean over all labels are left out of the
   batch. No noise rate is needed.
3. CORES* (`consistency` epochs) then starts a new network on the kept examples, with the others
   unlabelled in consistency training.

Shapes: B batch, C classes, N training examples.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import repeat
from typing import Annotated, ClassVar, Literal

import torch
from torch import Tensor

from labelproof import functional as fn
from labelproof.errors import BadInput
from labelproof.nets.heads import linear
from labelproof.training import settings as hp
from labelproof.training.batches import Batch
from labelproof.training.learner import SGD, Learner, sgd_of, softmax_of_net
from labelproof.training.protocol import About, Logs, Phase
from labelproof.training.run import Run


@dataclass
class State:
    """What changes during training."""

    learner: Learner
    prior: Tensor  # (C,) class frequencies of the kept labels
    kept: Tensor  # (N,) bool, what the sieve last said of each example
    clean: Tensor  # (N,) half the sieve's verdict, half the given label's probability


@hp.record
class CORES:
    """Hyper-parameters; defaults are those of the released code for CIFAR-10."""

    about: ClassVar[About] = About(
        title="CORES: confidence-regularised sample sieve",
        paper="Cheng, Zhu, Li, Gong, Sun and Liu, ICLR 2021",
        year=2021,
        link="https://arxiv.org/abs/2010.02347",
        code="https://github.com/UCSC-REAL/cores",
        cost="3 N; consistency phase 3 K + 6 K others / labelled, K labels kept",
    )

    epochs: hp.Count = 100  # both phases together
    batch: hp.PerStep = 64
    lr: hp.Positive = 0.1  # divided by 1 + β
    momentum: hp.Share = 0.0
    weight_decay: hp.NonNegative = 0.0
    decay_at: hp.Share = 0.5  # lr x 0.1 from this share of the sieve's epochs on
    beta: hp.NonNegative = 2.0  # β, weight of the confidence regulariser
    beta_from: hp.RampEpochs = 10  # epoch from which β rises from 0
    beta_full: Annotated[hp.Count, hp.Epochs()] = 40  # epoch from which β is whole
    floor: hp.NonNegative = 1e-8  # added to probabilities in the mean over labels; 0: unbounded
    sieve_from: hp.RampEpochs = 31  # first epoch that leaves examples out
    prior: Literal["given", "uniform"] = "given"  # labels expected by the regulariser
    consistency: hp.RampEpochs = 0  # CORES*: the last so many are its second phase
    labelled: Annotated[hp.Count, hp.BatchSize("kept")] = 320  # kept examples a step
    others: Annotated[hp.Count, hp.BatchSize("kept", beside="labelled")] = (
        160  # sieved-out examples a step
    )
    consistency_weight: hp.NonNegative = 0.4  # r
    consistency_lr: hp.Positive = 0.3
    consistency_rise: hp.Share = 0.075  # share of the phase in which lr rises from a 300th
    consistency_decay: hp.NonNegative = 5e-4  # weight decay
    consistency_momentum: hp.Share = 0.9  # Nesterov's
    clip: hp.Positive = 5.0  # largest norm of a gradient

    def __post_init__(self) -> None:
        hp.check_shorter(self, "consistency")
        if self.beta_full < self.beta_from:
            raise BadInput(
                f"CORES: beta_full must not be less than beta_from, not {self.beta_full} after "
                f"{self.beta_from}."
            )

    @property
    def sieve_epochs(self) -> int:
        """Epochs of the first phase."""
        return self.epochs - self.consistency

    def plan(self) -> tuple[Phase, ...]:
        """The sieve, and for CORES* the consistency phase."""
        sieve = Phase("sieve", self.sieve_epochs, self.sieve, leave=self.score)
        if not self.consistency:
            return (sieve,)
        return (
            sieve,
            Phase("consistency", self.consistency, self.consist, self.start_anew, self.score),
        )

    def setup(self, run: Run) -> State:
        """One network; the prior is the frequency of the given labels."""
        nothing = torch.zeros(run.task.num_classes, device=run.device)
        prior = frequencies(run.y, nothing)
        if self.prior == "uniform":
            prior = torch.full_like(prior, 1 / len(prior))
        kept = torch.ones(run.task.size, dtype=torch.bool, device=run.device)
        return State(
            run.learner(sgd_of(self), label=linear), prior, kept, torch.ones(run.task.size)
        )

    predict = softmax_of_net

    # ---- phase 1: the sieve ----

    def sieve(self, state: State, run: Run) -> Logs:
        """One epoch on the examples that pass the sieve."""
        learner, beta = state.learner, self.beta_at(run.epoch)
        learner.train_at(self.learning_rate(run.epoch))
        left_out = torch.zeros_like(state.prior)
        confirmed = run.trusted(torch.zeros(run.task.size, device=run.device)) > 0
        for batch in run.batches(self.batch):
            logits = learner.net(batch.views[0])
            losses = regularised_loss(logits, batch.y, state.prior, beta, self.floor)
            score = sieve_score(logits.detach(), batch.y, self.floor)
            passed = (score <= 0) | confirmed[batch.index] | (run.epoch < self.sieve_from)
            state.kept[batch.index] = passed
            left_out += torch.bincount(batch.y[~passed], minlength=len(left_out))
            if passed.any():
                run.step(learner, losses[passed].mean())
        if self.prior == "given":
            state.prior = frequencies(run.y, left_out)
        return {"selected": state.kept.float().mean().item(), "beta": beta}

    def beta_at(self, epoch: int) -> float:
        """0, then a straight line that reaches β in the epoch before `beta_full`."""
        steps = max(1, self.beta_full - self.beta_from - 1)
        return self.beta * min(1.0, max(0.0, (epoch - self.beta_from) / steps))

    def learning_rate(self, epoch: int) -> float:
        """Constant, then a tenth; divided by 1 + β, since the regulariser adds to the slope."""
        rate = fn.stair_decay(self.lr, epoch, self.sieve_epochs, (self.decay_at,))
        return rate / (1 + self.beta_at(epoch))

    def score(self, state: State, run: Run) -> None:
        """Clean probability: mean of the sieve's verdict and p_y, so 1/2 is the sieve, (N,)."""
        logits = run.predict(state.learner.net)
        passed = sieve_score(logits, run.y, self.floor) <= 0
        given = fn.of_label(logits.softmax(1), run.y)
        state.clean = run.trusted((passed + given) / 2)

    # ---- phase 2: consistency training, CORES* ----

    def start_anew(self, state: State, run: Run) -> None:
        """A new network with its own optimiser; of the first only the sieve's verdict stays."""
        sgd = SGD(
            lr=self.consistency_lr,
            momentum=self.consistency_momentum,
            weight_decay=self.consistency_decay,
            nesterov=True,
        )
        state.learner = run.learner(sgd, label=linear)

    def consist(self, state: State, run: Run) -> Logs:
        """One epoch: kept examples supervised, the others consistent under strong views."""
        learner = state.learner
        kept, out = (part.nonzero().squeeze(1) for part in (state.kept, ~state.kept))
        learner.train_at(self.consistency_rate(run.epoch))
        # a sieve that keeps nothing leaves all labels to train on
        batches = run.batches(self.labelled, kept if len(kept) else None, ("strong",))
        others = run.batches(self.others, out, ("weak", "strong"), forever=True)
        pairs = zip(batches, others if len(out) else repeat(None), strict=False)
        with learner.clipped(self.clip):
            for x, u in pairs:
                run.step(learner, *self.consistency_losses(learner, x, u))
        return {"selected": state.kept.float().mean().item()}

    def consistency_losses(self, learner: Learner, x: Batch, u: Batch | None) -> list[Tensor]:
        """Cross-entropy of X + r KL(weak view, held fixed, to strong view) of U, each a scalar."""
        if u is None:
            return [fn.edl_nll(learner.net(x.views[0]), x.y, gamma=0).mean()]
        logits = learner.net(torch.cat([x.views[0], *u.views]))
        given, (weak, strong) = logits[: len(x.index)], logits[len(x.index) :].chunk(2)
        kl = fn.kl_divergence(weak.detach().log_softmax(1), strong.log_softmax(1)).mean()
        return [fn.edl_nll(given, x.y, gamma=0).mean(), self.consistency_weight * kl]

    def consistency_rate(self, epoch: int) -> float:
        """A straight rise from a 300th, then half a cosine to 0."""
        done = epoch - self.sieve_epochs
        rise = self.consistency_rise * self.consistency
        if done < rise:
            return self.consistency_lr * (1 + 299 * done / rise) / 300
        return fn.cosine_decay(self.consistency_lr, done - rise, self.consistency - rise)


def expected_loss(logits: Tensor, prior: Tensor, floor: float) -> Tensor:
    """Cross-entropy expected of labels drawn from `prior`, Σ_c -prior_c ln(p_c + floor), (B,)."""
    logs = (logits.softmax(1) + floor).log() if floor else logits.log_softmax(1)
    return -(logs * prior).sum(1)


def regularised_loss(
    logits: Tensor, labels: Tensor, prior: Tensor, beta: float, floor: float = 0.0
) -> Tensor:
    """Cross-entropy less β times the one expected of labels drawn from `prior`, (B,)."""
    return fn.edl_nll(logits, labels, gamma=0) - beta * expected_loss(logits, prior, floor)


def sieve_score(logits: Tensor, labels: Tensor, floor: float = 0.0) -> Tensor:
    """Cross-entropy of the label less its mean over all labels; mean_c o_c - o_y at floor 0."""
    uniform = torch.full_like(logits[0], 1 / logits.shape[1])
    return fn.edl_nll(logits, labels, gamma=0) - expected_loss(logits, uniform, floor)


def frequencies(labels: Tensor, left_out: Tensor) -> Tensor:
    """Share of each class in the labels less those left out, of all where none are left, (C,)."""
    counts = torch.bincount(labels, minlength=len(left_out)).float()
    rest = counts - left_out
    return rest / rest.sum() if rest.sum() > 0 else counts / counts.sum()
