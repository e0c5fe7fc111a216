"""UniCon: uniform selection and contrastive learning (Karim and others, CVPR 2022).

Paper: https://arxiv.org/abs/2203.14542. Code of its authors:
https://github.com/nazmul-karim170/UNICON-Noisy-Label. Departures: docs/methods/unicon.md.

1. Two networks warm up. Then, every epoch and for each network in turn:
2. every given label is scored by its Jensen-Shannon divergence from the mean prediction of both;
3. the share R of labels that diverge less than the mean is kept, as many of every class;
4. MixMatch trains on both parts: weak views make the targets, strong views are mixed;
5. and a contrastive loss joins two strong views of the unlabelled examples.

Shapes: B batch, C classes, N training examples; X labelled part, U unlabelled part of a split.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Annotated, ClassVar, Literal

import torch
from torch import Tensor, nn
from torch.nn.functional import one_hot

from labelproof import functional as fn
from labelproof.data.task import Strong
from labelproof.errors import BadInput
from labelproof.nets.heads import linear
from labelproof.training import settings as hp
from labelproof.training.batches import Batch, View
from labelproof.training.learner import Learner, TwoNets, logits_of_nets, sgd_of
from labelproof.training.mixmatch import GivenLabels, Guess, Mixed, pairs, parts, square_loss
from labelproof.training.protocol import About, Logs, Phase
from labelproof.training.run import Run

# the released strong views: the policy after crop and flip, CIFAR-10's on CIFAR-100 too, no Cutout
STRONG = Strong(small="cifar10_ninths", large="imagenet")
VIEWS: tuple[View, ...] = ("weak", "weak", STRONG, STRONG)
WIDTH = 128  # of the features that the contrastive loss compares
MOST = 4  # times B that an unlabelled batch may have, however small R is
SURE = 0.5  # labels of less divergence are not refined


def projection(features: int, _classes: int) -> nn.Module:
    """The head of the contrastive loss."""
    return nn.Sequential(nn.Linear(features, WIDTH), nn.BatchNorm1d(WIDTH))


@dataclass(frozen=True)
class Split:
    """Which labels are kept, and how far they are believed."""

    kept: Tensor  # (N,) bool
    weight: Tensor  # (N,) w, the part of the given label in a refined target
    share: float  # R
    given: Tensor  # (N,) probability of the given label


@hp.record
class UniCon:
    """Hyper-parameters; defaults are those of CIFAR-10 with symmetric noise."""

    about: ClassVar[About] = About(
        title="UniCon: uniform selection and contrastive learning",
        paper="Karim, Rizve, Rahnavard, Mian and Shah, CVPR 2022",
        year=2022,
        link="https://arxiv.org/abs/2203.14542",
        code="https://github.com/nazmul-karim170/UNICON-Noisy-Label",
        cost="20 N + 16 X, X of the N labels kept",
        evidence=lambda method, state, x: method.objective.log_evidence(method.logits(state, x)),
    )

    epochs: hp.Count = 350
    warmup: hp.WarmUp = 10
    batch: hp.PerStep = 64  # B; B / 2R unlabelled examples join the labelled ones in a step
    warm_batch: hp.Natural = 0  # examples a step of the warm-up; 0: 2 B
    others_batch: hp.Natural = 0  # unlabelled examples a step; 0: B / 2R
    lr: hp.Positive = 0.02
    momentum: hp.Share = 0.9
    weight_decay: hp.NonNegative = 5e-4
    schedule: Literal["cosine", "step"] = "cosine"
    lowest_at: Annotated[float, hp.Range(0, 1, open_low=True)] = 0.8  # cosine: share of the epochs
    lr_floor: hp.Share = 0.01  # cosine: the lowest rate, as a share of lr
    decay_at: hp.Share = 0.5  # step: lr x 0.1 from this share of the epochs on
    rewarm: hp.RampEpochs = 0  # an epoch in so many is on the given labels
    rewarm_lr: hp.Positive = 0.001
    confidence_penalty: hp.NonNegative = 0.0  # weight of the negative entropy in the warm-up
    units: Literal["nats", "bits"] = "nats"  # of the divergence: released code | paper
    lower_above: hp.NonNegative = 0.7  # d_μ: a mean divergence above it lowers the threshold, ...
    lower_part: Annotated[float, hp.Range(1)] = 5.0  # τ: ... by 1/τ of the way to the least one
    temperature: hp.Positive = 0.5  # T
    alpha: hp.Positive = 4.0  # Beta(α, α) of the mixing weight
    lambda_u: hp.LambdaU = 30.0  # λ_u, weight of L_U
    ramp: Annotated[hp.Positive, hp.Epochs()] = 16.0  # epochs until λ_u is reached
    lambda_c: hp.NonNegative = 0.025  # λ_c, weight of the contrastive loss
    contrast_temperature: hp.Positive = 0.05
    prior_weight: hp.NonNegative = 1.0  # λ_r, weight of L_reg
    rows: Literal["all", "labelled"] = "all"  # rows that are forwarded; WebVision: labelled alone
    loss: Literal["ce", "edl"] = "ce"  # "edl" puts DPC's L_edl and calibrated softmax in
    gamma_c: hp.NonNegative = 10.0  # γ C of L_edl
    beta: hp.NonNegative = 0.5  # β of L_edl

    def __post_init__(self) -> None:
        if self.rows == "labelled" and self.lambda_u not in (0, "auto"):
            raise BadInput(
                "UniCon: rows='labelled' leaves no rows for L_U; set lambda_u=0 with it."
            )

    @property
    def objective(self) -> fn.Objective:
        """Loss and probabilities."""
        return fn.Objective(self.loss, self.gamma_c, self.beta)

    def plan(self) -> tuple[Phase, ...]:
        """Warm-up, then select and train."""
        return (
            Phase("warm-up", self.warmup, self.warm_up),
            Phase("uniform", self.epochs - self.warmup, self.uniform, leave=self.score),
        )

    def setup(self, run: Run) -> TwoNets:
        """Two networks; the projection exists only where the contrastive loss uses it."""
        heads = {"label": linear, "contrast": projection} if self.lambda_c else {"label": linear}
        return TwoNets(run.pair(sgd_of(self), **heads), torch.ones(run.task.size))

    @property
    def weight_u(self) -> float:
        """λ_u as a number."""
        return hp.settled("UniCon", "lambda_u", self.lambda_u)

    logits = logits_of_nets

    def predict(self, state: TwoNets, x: Tensor) -> Tensor:
        """Probabilities of the mean logits, (B, C)."""
        return self.objective.probability(self.logits(state, x))

    # ---- warm-up ----

    def warm_up(self, state: TwoNets, run: Run) -> Logs:
        """One epoch on the given labels, each network by itself."""
        for learner in state.learners:
            self.fit_given(learner, run, self.learning_rate(run))
        return {}

    def fit_given(self, learner: Learner, run: Run, lr: float) -> None:
        """Cross-entropy on all given labels, plus the negative entropy where asked."""

        def loss(logits: Tensor, labels: Tensor) -> Tensor:
            return self.objective.of_targets(logits, one_hot(labels, logits.shape[1]).float())

        given = GivenLabels(loss, self.objective.probability, self.confidence_penalty)
        given.fit(learner, run, self.warm_batch or 2 * self.batch, lr)

    def learning_rate(self, run: Run) -> float:
        """A cosine that climbs again after its lowest point, or a step."""
        if self.schedule == "step":
            return fn.stair_decay(self.lr, run.epoch, self.epochs, (self.decay_at,))
        lowest = self.lowest_at * self.epochs
        mirrored = lowest - abs(lowest - run.epoch)
        return fn.cosine_decay(self.lr, mirrored, lowest, self.lr_floor * self.lr)

    # ---- uniform selection ----

    def uniform(self, state: TwoNets, run: Run) -> Logs:
        """One epoch: each network trains on a split by both as they are when its turn comes."""
        if self.rewarm and (run.epoch + 1) % self.rewarm == 0:
            for learner in state.learners:
                self.fit_given(learner, run, self.rewarm_lr)
            return {}
        first, second = state.learners
        for learner, peer in ((first, second), (second, first)):
            split = self.split(state, run)
            self.mixmatch(learner, peer, split, run)
        state.clean = run.trusted(split.given)
        return {"selected": split.kept.float().mean().item()}

    def score(self, state: TwoNets, run: Run) -> None:
        """Clean probabilities by the networks as they are at the end."""
        state.clean = run.trusted(self.split(state, run).given)

    def split(self, state: TwoNets, run: Run) -> Split:
        """The share R of labels that diverge less than the threshold, as many of every class."""
        first, second = (
            self.objective.probability(run.predict(each.net)) for each in state.learners
        )
        probs = (first + second) / 2
        divergence = fn.label_divergence(probs, run.y)
        if self.units == "bits":
            divergence = divergence / math.log(2)
        share = (divergence < self.threshold(divergence)).cpu().double().mean().item()
        present = len(torch.bincount(run.y).nonzero())
        kept = fn.uniform_selection(divergence, run.y, present, share)
        weight = torch.where(divergence < SURE, torch.ones_like(divergence), 1 - divergence)
        return Split(
            kept=run.trusted(kept.float()) > 0,
            weight=run.trusted(weight),
            share=share,
            given=fn.of_label(probs, run.y),
        )

    def threshold(self, divergence: Tensor) -> Tensor:
        """The mean divergence, lowered where that is high; never so in nats, which end at ln 2."""
        mean = divergence.mean()
        if mean > self.lower_above:
            return mean - (mean - divergence.min()) / self.lower_part
        return mean

    def others(self, share: float) -> int:
        """Unlabelled examples of a step, int(B / 2R), at most `MOST` times B."""
        if self.others_batch:
            return self.others_batch
        return max(1, int(min(self.batch / max(2 * share, 1e-9), MOST * self.batch)))

    # ---- MixMatch on the two parts ----

    def mixmatch(self, learner: Learner, peer: Learner, split: Split, run: Run) -> None:
        """One epoch of one network."""
        labelled, unlabelled = parts(split.kept)
        if len(labelled) == 0:  # nothing to trust: another epoch on the given labels
            self.fit_given(learner, run, self.learning_rate(run))
            return
        learner.train_at(self.learning_rate(run))
        peer.net.eval()
        batches = run.batches(self.batch, labelled, VIEWS)
        others = run.batches(self.others(split.share), unlabelled, VIEWS, forever=True)
        for i, (x, u) in enumerate(pairs(batches, others)):
            mixed = self.mix(learner, peer, x, u, split.weight[x.index], run)
            losses = self.losses(learner, mixed, run.epoch + i / len(batches))
            if self.lambda_c and u is not None:
                losses.append(self.lambda_c * self.contrast(learner, u))
            run.step(learner, *losses)

    @property
    def guess(self) -> Guess:
        """Targets by the weak views: refined labels for X, guesses of both networks for U."""
        return Guess(self.objective.probability, self.temperature)

    @torch.no_grad()
    def mix(
        self, learner: Learner, peer: Learner, x: Batch, u: Batch | None, w: Tensor, run: Run
    ) -> Mixed:
        """Targets by the weak views; strong views mixed with one weight and one permutation."""
        targets = one_hot(x.y, run.task.num_classes).float()
        if (w < 1).any():  # else the given labels are the targets
            targets = self.guess.refined(learner, x, targets, w)
        targets, inputs = targets.repeat(2, 1), [*x.views[2:]]
        if u is not None:
            targets = torch.cat([targets, self.guess.guessed(learner, peer, u).repeat(2, 1)])
            inputs += u.views[2:]
        mixed, weight, permutation = fn.mixup(
            torch.cat(inputs), self.alpha, run.rng, run.device_rng
        )
        return Mixed(mixed, fn.mix(targets, weight, permutation), 2 * len(x.index))

    def losses(self, learner: Learner, mixed: Mixed, elapsed: float) -> list[Tensor]:
        """L_X + λ_r L_reg + λ_u(t) L_U, each a scalar."""
        n = mixed.labelled
        logits = learner.net(mixed.x[:n] if self.rows == "labelled" else mixed.x)
        probs = self.objective.probability(logits)
        losses = [self.objective.of_targets(logits[:n], mixed.targets[:n]).mean()]
        if self.prior_weight:
            losses.append(self.prior_weight * fn.prior_penalty(probs))
        if self.weight_u and len(logits) > n:
            l_u = square_loss(probs[n:], mixed.targets[n:])
            losses.append(self.weight_u * fn.ramp(elapsed, self.warmup, self.ramp) * l_u)
        return losses

    def contrast(self, learner: Learner, u: Batch) -> Tensor:
        """NT-Xent of the projected strong views of U, a scalar; one pass, so never a single row."""
        first, second = learner.net(torch.cat(u.views[2:]), "contrast").chunk(2)
        return fn.nt_xent(first, second, self.contrast_temperature).mean()
