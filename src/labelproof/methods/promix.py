"""ProMix: the most of the clean examples (Xiao, Dong, Wang, Feng, Wu, Chen and Zhao, IJCAI 2023).

1. Two networks warm up on the given labels; each has a main head and a pseudo head.
2. Every epoch keeps as many small losses of every given class; every batch adds examples whose
   given label is predicted with confidence, and late in training those both networks agree on.
3. The main head trains on the kept ones: weak and strong views, mixup and FMix.
4. The pseudo head trains on the rest too, so that wrong guesses stay out of the main head.
5. Logits are corrected by running class shares, of the kept and of the rest apart.

Paper: https://arxiv.org/abs/2207.10276. Authors' code: https://github.com/Justherozen/ProMix.
Departures: docs/methods/promix.md.
Shapes: B batch, C classes, K kept rows of a batch, N training examples.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Annotated, ClassVar

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import cross_entropy, one_hot

from labelproof import functional as fn
from labelproof.data.task import Strong
from labelproof.functional.mix import low_frequency_mask
from labelproof.nets.heads import linear
from labelproof.training import settings as hp
from labelproof.training.batches import Batch, View
from labelproof.training.learner import Learner, Pair, logits_of_nets, sgd_of
from labelproof.training.protocol import About, Logs, Phase
from labelproof.training.run import Run

STRONG = Strong(small="randaugment_3_15", large="randaugment_3_15")
VIEWS: tuple[View, ...] = ("weak", STRONG)
MAIN, PSEUDO = "label", "pseudo"
KEPT, REST = 0, 1  # places in the class shares


@dataclass
class State:
    """What changes during training."""

    learners: Pair
    shares: Tensor  # (2, 2, C) running class shares: by network, of the kept and of the rest
    clean: Tensor  # (N,) probability of the given label, mean of the two networks


@dataclass(frozen=True)
class Seen:
    """Logits of a batch by one network, (B, C) each."""

    main: Tensor
    pseudo: Tensor
    main_strong: Tensor
    pseudo_strong: Tensor


@dataclass(frozen=True)
class Weights:
    """What the parts of the loss count in this epoch."""

    views: float  # w, of strong views and mixed ones
    rest: float  # β, of the examples that were not kept


@hp.record
class ProMix:
    """Hyper-parameters; defaults are the released ones for CIFAR-10."""

    about: ClassVar[About] = About(
        title="ProMix: maximal use of clean examples",
        paper="Xiao, Dong, Wang, Feng, Wu, Chen and Zhao, IJCAI 2023",
        year=2023,
        link="https://arxiv.org/abs/2207.10276",
        code="https://github.com/Justherozen/ProMix",
        cost="14 N + 24 K, K of the N labels kept",
    )

    epochs: hp.Count = 600
    warmup: hp.WarmUp = 10
    batch: hp.PerStep = 256
    lr: hp.Positive = 0.05
    lr_floor: hp.Share = 0.001  # lowest rate of the cosine, as a share of lr
    momentum: hp.Share = 0.9
    weight_decay: hp.NonNegative = 5e-4
    confidence_penalty: hp.NonNegative = 0.0  # weight of the negative entropy in the warm-up
    base: hp.Share = 0.5  # ρ, small losses kept of each given class, as a share of N / C
    sure_above: hp.Share = 0.99  # τ
    agree: hp.StageEpochs = 250  # last epochs, in which agreement adds labels
    fill: hp.Share = 0.9  # share of a batch up to which agreement adds
    ramp: Annotated[hp.Positive, hp.Epochs()] = (
        50.0  # epochs until w = 1; β rises for twice as many
    )
    rest_weight: hp.NonNegative = 0.1  # β at the end of its rise; then 0, as released
    temperature: hp.Positive = 0.5  # T
    debias: hp.NonNegative = 0.8  # strength of the correction by class shares
    shares_momentum: hp.Share = 0.9999
    alpha: hp.Positive = 4.0  # Beta(α, α) of mixup
    fmix_alpha: hp.NonNegative = 1.0  # the same of FMix, for images; 0 leaves it out

    def plan(self) -> tuple[Phase, ...]:
        """Warm-up, then selection and training at once."""
        rest = Phase("select and train", self.epochs - self.warmup, self.train, leave=self.score)
        return (Phase("warm-up", self.warmup, self.warm_up), rest)

    def setup(self, run: Run) -> State:
        """Two networks with two heads, all classes as frequent."""
        heads = {MAIN: linear, PSEUDO: linear}
        classes = run.task.num_classes
        return State(
            learners=run.pair(sgd_of(self), **heads),
            shares=torch.full((2, 2, classes), 1 / classes, device=run.device),
            clean=torch.ones(run.task.size),
        )

    def predict(self, state: State, x: Tensor) -> Tensor:
        """Softmax of the main heads' mean logits, (B, C)."""
        return logits_of_nets(self, state, x).softmax(1)

    def warm_up(self, state: State, run: Run) -> Logs:
        """One epoch of both main heads on all given labels."""
        for learner in state.learners:
            learner.train_at(self.learning_rate(run))
        for batch in run.batches(self.batch):
            for learner in state.learners:
                logits = learner.net(batch.views[0])
                losses = [cross_entropy(logits, batch.y)]
                if self.confidence_penalty:
                    sure = fn.neg_entropy(logits.softmax(1)).mean()
                    losses.append(self.confidence_penalty * sure)
                run.step(learner, *losses)
        return {}

    def learning_rate(self, run: Run) -> float:
        """Half a cosine."""
        return fn.cosine_decay(self.lr, run.epoch, self.epochs, self.lr_floor * self.lr)

    def weights(self, epoch: int) -> Weights:
        """w rises over `ramp` epochs; β over twice as many, and is 0 from then on."""
        rising = epoch < 2 * self.ramp
        rest = self.rest_weight * fn.ramp(epoch, 0, 2 * self.ramp) if rising else 0.0
        return Weights(fn.ramp(epoch, 0, self.ramp), rest)

    # ---- selection ----

    def base_selection(self, state: State, run: Run) -> list[Tensor]:
        """What each network keeps by small losses, (N,) bool each; scores the labels as well."""
        logits = [run.predict(learner.net) for learner in state.learners]
        given = torch.stack([fn.of_label(each.softmax(1), run.y) for each in logits])
        state.clean = run.trusted(given.mean(0))
        fixed = run.trusted(torch.zeros_like(given[0])) > 0
        losses = [cross_entropy(each, run.y, reduction="none") for each in logits]
        each_class = self.base * run.task.size / run.task.num_classes
        return [smallest_of_classes(loss, run.y, each_class) | fixed for loss in losses]

    def kept(self, probs: Tensor, base: Tensor, y: Tensor) -> Tensor:
        """The base selection and labels predicted with confidence, (B,) bool."""
        return base | (fn.of_label(probs, y) > self.sure_above)

    def agreed(self, probs: tuple[Tensor, Tensor], kept: Tensor) -> Tensor:
        """Rows to add: both networks sure of one class, until `fill` of the batch is kept, (B,)."""
        (sure_1, class_1), (sure_2, class_2) = (each.max(1) for each in probs)
        both = (sure_1 > self.sure_above) & (sure_2 > self.sure_above) & (class_1 == class_2)
        room = int(self.fill * len(kept)) - int(kept.sum())
        score = torch.where(both & ~kept, sure_1 + sure_2, -torch.ones_like(sure_1))
        added = torch.zeros_like(kept)
        if room > 0:
            added[score.topk(min(room, len(score))).indices] = True
        return added & both & ~kept

    # ---- training ----

    def train(self, state: State, run: Run) -> Logs:
        """One epoch: both networks on the same batches, each with its own selection."""
        base = self.base_selection(state, run)
        weights, kept_rows = self.weights(run.epoch), []
        for learner in state.learners:
            learner.train_at(self.learning_rate(run))
        for batch in run.batches(self.batch, views=VIEWS):
            both = (seen_by(state.learners[0], batch), seen_by(state.learners[1], batch))
            probs = (both[0].main.detach().softmax(1), both[1].main.detach().softmax(1))
            for k, learner in enumerate(state.learners):
                kept, labels = self.chosen(probs, base[k][batch.index], batch.y, k, run)
                losses = self.losses(learner, batch, both[k], kept, labels, state.shares[k], run)
                scaled = self.total(losses, weights)
                self.count_classes(state.shares[k], probs[k], kept)
                if scaled:
                    run.step(learner, *scaled)
                kept_rows.append(kept.float().mean())
        return {"selected": torch.stack(kept_rows).mean().item()} if kept_rows else {}

    def chosen(
        self, probs: tuple[Tensor, Tensor], base: Tensor, y: Tensor, k: int, run: Run
    ) -> tuple[Tensor, Tensor]:
        """Rows that network k trains on as labelled, (B,) bool, and their labels (B,)."""
        kept = self.kept(probs[k], base, y)
        if run.epoch < self.epochs - self.agree:
            return kept, y
        added = self.agreed(probs, kept)
        return kept | added, torch.where(added, probs[k].argmax(1), y)

    def losses(
        self,
        learner: Learner,
        batch: Batch,
        seen: Seen,
        kept: Tensor,
        labels: Tensor,
        shares: Tensor,
        run: Run,
    ) -> dict[str, list[Tensor]]:
        """Scalars by what they are multiplied with: 1, w, β, and w β."""
        out: dict[str, list[Tensor]] = {"one": [], "views": [], "rest": [], "both": []}
        log_kept, log_rest = (self.debias * shares.clamp(min=1e-12).log()).unbind()
        targets, x = one_hot(labels[kept], shares.shape[1]).float(), batch.views[0][kept]
        if len(x):
            for head, weak, strong in (
                (MAIN, seen.main, seen.main_strong),
                (PSEUDO, seen.pseudo, seen.pseudo_strong),
            ):
                out["one"].append(mean_loss(weak[kept] + log_kept, targets))
                out["views"].append(mean_loss(strong[kept] + log_kept, targets))
                out["views"] += self.mixed(learner, head, x, targets, log_kept, run)
        if len(x) < len(kept):
            guess = fn.sharpen((seen.main.detach() - log_rest).softmax(1), self.temperature)[~kept]
            out["rest"].append(mean_loss(seen.pseudo[~kept] + log_rest, guess))
            out["both"].append(mean_loss(seen.pseudo_strong[~kept] + log_rest, guess))
        return out

    def mixed(
        self, learner: Learner, head: str, x: Tensor, targets: Tensor, shift: Tensor, run: Run
    ) -> list[Tensor]:
        """Losses of mixup and, for images, FMix of the kept rows' weak views; scalars."""
        if len(x) < 2:  # nobody to mix with
            return []
        mixed, weight, permutation = fn.mixup(x, self.alpha, run.rng, run.device_rng)
        logits = learner.net(mixed, head) + shift
        losses = [mean_loss(logits, fn.mix(targets, weight, permutation))]
        if self.fmix_alpha and x.ndim == 4:
            inputs, goal = fmixed(x, targets, self.fmix_alpha, run.rng)
            losses.append(mean_loss(learner.net(inputs, head) + shift, goal))
        return losses

    def total(self, losses: dict[str, list[Tensor]], weights: Weights) -> list[Tensor]:
        """The losses times their weights; those without weight are left out."""
        w, beta = weights.views, weights.rest
        factors = {"one": 1.0, "views": w, "rest": beta, "both": w * beta}
        return [factors[kind] * loss for kind in losses for loss in losses[kind] if factors[kind]]

    def count_classes(self, shares: Tensor, probs: Tensor, kept: Tensor) -> None:
        """Move the running class shares (2, C) of kept and rest towards this batch's."""
        for place, rows in ((KEPT, probs[kept]), (REST, probs[~kept])):
            if len(rows):
                shares[place].lerp_(rows.mean(0), 1 - self.shares_momentum)

    def score(self, state: State, run: Run) -> None:
        """Clean probability: mean probability of the given label at the end, (N,)."""
        self.base_selection(state, run)


def seen_by(learner: Learner, batch: Batch) -> Seen:
    """Both heads on both views, in two passes as released: statistics of a view are its own."""
    main, pseudo = learner.net(batch.views[0], MAIN, PSEUDO)
    main_strong, pseudo_strong = learner.net(batch.views[1], MAIN, PSEUDO)
    return Seen(main, pseudo, main_strong, pseudo_strong)


def mean_loss(logits: Tensor, targets: Tensor) -> Tensor:
    """Mean cross-entropy of soft targets, a scalar."""
    return fn.soft_cross_entropy(logits, targets).mean()


def smallest_of_classes(losses: Tensor, labels: Tensor, each: float) -> Tensor:
    """The ceil(`each`) smallest losses of every class that has labels, at least one, (N,) bool."""
    return fn.smallest_per_class(losses, labels, lambda _: math.ceil(each))


def fmixed(x: Tensor, targets: Tensor, alpha: float, rng: torch.Generator) -> tuple[Tensor, Tensor]:
    """FMix: images (K, 3, H, W) cut together along one mask, and their soft targets (K, C)."""
    seed = int(torch.randint(2**62, (1,), generator=rng))
    share = float(np.random.default_rng(seed).beta(alpha, alpha))
    mask = low_frequency_mask((x.shape[2], x.shape[3]), share, rng).to(x.device)
    permutation = torch.randperm(len(x), generator=rng).to(x.device)
    return mask * x + (1 - mask) * x[permutation], fn.mix(targets, share, permutation)
