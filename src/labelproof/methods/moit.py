"""MOIT and MOIT+: multi-objective interpolation training (Ortego and others, CVPR 2021).

A supervised contrastive loss and a classifier, both on mixed examples. Every epoch the neighbours
in the contrastive space vote on labels, twice, and each class keeps its best agreeing examples.
Later, labels that are not kept give way to predictions. MOIT+ then fine-tunes with a new classifier
on the kept examples, with mixup and hard bootstrapping.

Paper: https://arxiv.org/abs/2012.04462. Authors' code:
https://github.com/DiegoOrtego/LabelNoiseMOIT. Departures: docs/methods/moit.md.
Shapes: B batch, C classes, D width of embeddings, N training examples.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from labelproof import functional as fn
from labelproof.data.task import Strong
from labelproof.functional.contrast import label_votes, nearest_by_angle
from labelproof.nets.heads import linear
from labelproof.training import settings as hp
from labelproof.training.batches import Batch, View
from labelproof.training.learner import SGD, Learner, sgd_of, softmax_of_net
from labelproof.training.protocol import About, Logs, Phase
from labelproof.training.run import Run

WIDTH = 128  # D
STRONG = Strong(small="colour_jitter", large="colour_jitter")  # after a zooming crop and flip
VIEWS: tuple[View, ...] = (STRONG, STRONG, "plain")


def embedding(features: int, _classes: int) -> nn.Module:
    """The head of the contrastive loss."""
    return nn.Linear(features, WIDTH)


@dataclass
class State:
    """What changes during training."""

    learner: Learner
    memory: Tensor  # (K, D) recent embeddings, newest at `place`
    remembered: Tensor  # (K,) their given labels, -1 where nothing is stored yet
    place: int  # where the next embeddings go
    kept: Tensor  # (N,) bool, labels that the neighbours confirm
    clean: Tensor  # (N,) second vote of the neighbours for the given label


@dataclass(frozen=True)
class Pairs:
    """Mixed views of a batch, both one after the other: 2B rows."""

    logits: Tensor  # (2B, C)
    embeddings: Tensor  # (2B, D) of length 1
    partners: Tensor  # (2B,) place in the batch of the example mixed in
    weight: Tensor  # (2B,) λ of the example itself


@hp.record
class MOIT:
    """Hyper-parameters; defaults are those of MOIT+ in the released code for CIFAR."""

    about: ClassVar[About] = About(
        title="MOIT and MOIT+: multi-objective interpolation training",
        paper="Ortego, Arazo, Albert, O'Connor and McGuinness, CVPR 2021",
        year=2021,
        link="https://arxiv.org/abs/2012.04462",
        code="https://github.com/DiegoOrtego/LabelNoiseMOIT",
        cost="8 N and N² similarities; MOIT+ 4 of the kept",
    )

    epochs: hp.Count = 320  # both parts together
    plus: hp.StageEpochs = 70  # MOIT+: the last so many fine-tune; 0: MOIT
    batch: hp.PerStep = 128
    lr: hp.Positive = 0.1
    decay_at: tuple[hp.Share, ...] = (0.5, 0.8)  # lr x 0.1 from each share of the first part on
    momentum: hp.Share = 0.9
    weight_decay: hp.NonNegative = 1e-4
    alpha: hp.Positive = 1.0  # Beta(α, α) of the mixing weights
    temperature: hp.Positive = 0.1
    memory: hp.Natural = 100  # embeddings a class and view that are remembered; 0: none
    memory_from: hp.RampEpochs = 3  # epochs before the memory is used
    correct_from: hp.RampEpochs = 130  # epochs before labels are replaced
    strict_partner: bool = False  # a label counts only where its own example is kept
    neighbours: hp.Count = 250  # k
    plus_lr: hp.Positive = 1e-3
    plus_decay_at: tuple[hp.Share, ...] = ()  # lr x 0.1 from each share of the second part on
    boot_from: hp.RampEpochs = 30  # epochs of the second part without bootstrapping
    boot: hp.Share = 0.2  # part of the prediction in a bootstrapped target

    def __post_init__(self) -> None:
        hp.check_shorter(self, "plus")

    @property
    def first(self) -> int:
        """Epochs of the first part."""
        return self.epochs - self.plus

    def plan(self) -> tuple[Phase, ...]:
        """Contrast and classify; for MOIT+ fine-tune."""
        main = Phase("interpolate", self.first, self.train)
        if not self.plus:
            return (main,)
        return (main, Phase("fine-tune", self.plus, self.fine_tune, self.new_classifier))

    def setup(self, run: Run) -> State:
        """One network with two heads, an empty memory."""
        room = 2 * self.memory * run.task.num_classes
        return State(
            run.learner(sgd_of(self), label=linear, embed=embedding),
            torch.zeros(room, WIDTH, device=run.device),
            torch.full((room,), -1, device=run.device),
            0,
            torch.ones(run.task.size, dtype=torch.bool, device=run.device),
            torch.ones(run.task.size),
        )

    predict = softmax_of_net  # softmax of the classifier, (B, C)

    # ---- MOIT ----

    def train(self, state: State, run: Run) -> Logs:
        """One epoch of contrastive and classification loss; then the neighbours vote."""
        learner = state.learner
        learner.train_at(fn.stair_decay(self.lr, run.epoch, self.first, self.decay_at))
        correcting = run.epoch >= self.correct_from
        for batch in run.batches(self.batch, views=VIEWS):
            pairs = self.mixed_pairs(learner, batch, run)
            plain = predicted(learner, batch.views[2])  # running statistics see it from the start
            own = plain.softmax(1) if correcting else None
            losses = [self.classification(pairs, batch.y, state.kept[batch.index], own)]
            losses += self.contrasts(state, pairs, batch.y, run.epoch)
            run.step(learner, *losses)
        self.vote(state, run)
        return {"selected": state.kept.float().mean().item()}

    def mixed_pairs(self, learner: Learner, batch: Batch, run: Run) -> Pairs:
        """Both strong views, each mixed with its own weight and permutation, one pass each."""
        parts, partners, weights = [], [], []
        for view in batch.views[:2]:
            mixed, weight, permutation = fn.mixup(view, self.alpha, run.rng, run.device_rng)
            parts.append(learner.net(mixed, "label", "embed"))
            partners.append(permutation.to(batch.y.device))
            weights.append(torch.full((len(view),), float(weight), device=batch.y.device))
        logits, embeddings = (torch.cat(part) for part in zip(*parts, strict=True))
        return Pairs(
            logits, F.normalize(embeddings, dim=1), torch.cat(partners), torch.cat(weights)
        )

    def classification(self, pairs: Pairs, y: Tensor, kept: Tensor, own: Tensor | None) -> Tensor:
        """Mixup cross-entropy; with `own` predictions in place of labels that are not kept."""
        labels = y.repeat(2)
        given = F.cross_entropy(pairs.logits, labels, reduction="none")
        other = F.cross_entropy(pairs.logits, y[pairs.partners], reduction="none")
        mixed = pairs.weight * given + (1 - pairs.weight) * other
        if own is None:
            return mixed.mean()
        trust, trust_other = kept.float().repeat(2), kept.float()[pairs.partners]
        logs = pairs.logits.log_softmax(1)
        towards = -(own.repeat(2, 1) * logs).sum(1)
        towards_other = -(own[pairs.partners] * logs).sum(1)
        doubt = pairs.weight * (1 - trust) * towards
        doubt_other = (1 - pairs.weight) * (1 - trust_other) * towards_other
        labelled = trust * mixed
        if self.strict_partner:
            labelled = pairs.weight * trust * given + (1 - pairs.weight) * trust_other * other
        return (labelled + doubt + doubt_other).mean()

    def contrasts(self, state: State, pairs: Pairs, y: Tensor, epoch: int) -> list[Tensor]:
        """Contrastive loss among the batch, and with the memory once that is used."""
        labels, minor = y.repeat(2), y[pairs.partners]
        apart = ~torch.eye(len(labels), dtype=torch.bool, device=y.device)
        losses = [self.contrast(pairs, pairs.embeddings, labels, minor, labels, apart)]
        if not self.memory:
            return losses
        slots = remember(state, pairs.embeddings.detach(), labels)
        if epoch >= self.memory_from:
            known = (state.remembered >= 0).expand(len(labels), -1).clone()
            known[torch.arange(len(slots)), slots] = False  # an example is not its own neighbour
            others = (state.memory, state.remembered)
            losses.append(self.contrast(pairs, others[0], labels, minor, others[1], known))
        return losses

    def contrast(
        self,
        pairs: Pairs,
        others: Tensor,
        labels: Tensor,
        minor: Tensor,
        other_labels: Tensor,
        allowed: Tensor,
    ) -> Tensor:
        """Interpolated contrastive loss of 2B anchors against `others`, a scalar."""
        similarity = pairs.embeddings @ others.T / self.temperature
        logs = similarity - similarity.masked_fill(~allowed, -torch.inf).logsumexp(1, keepdim=True)
        first = mean_where(logs, (labels[:, None] == other_labels) & allowed)
        second = mean_where(logs, (minor[:, None] == other_labels) & allowed)
        return -(pairs.weight * first + (1 - pairs.weight) * second).mean()

    # ---- which labels are right ----

    def vote(self, state: State, run: Run) -> None:
        """Neighbours correct the labels, vote again, and each class keeps its best."""
        net = state.learner.net
        with torch.no_grad():
            embeddings = net.head("embed", run.features(net))
        near = nearest_by_angle(embeddings, self.neighbours)
        corrected = label_votes(run.y, near, run.task.num_classes).argmax(1)
        votes = label_votes(corrected, near, run.task.num_classes)
        given = fn.of_label(votes, run.y)
        state.clean = run.trusted(given)
        kept = balanced_selection(given, votes.argmax(1) == run.y, run.y, run.task.num_classes)
        state.kept = run.trusted(kept.float()) > 0

    # ---- MOIT+ ----

    def new_classifier(self, state: State, run: Run) -> None:
        """A new classifier and optimiser; the trunk stays."""
        net = state.learner.net
        head = net.heads["label"]
        assert isinstance(head, nn.Linear)
        head.reset_parameters()
        sgd = SGD(lr=self.plus_lr, momentum=self.momentum, weight_decay=self.weight_decay)
        state.learner = Learner(net, sgd.of(net.parameters()))
        if not state.kept.any():
            state.kept = torch.ones_like(state.kept)

    def fine_tune(self, state: State, run: Run) -> Logs:
        """One epoch on the kept examples: mixup, later with hard bootstrapping."""
        learner, epoch = state.learner, run.epoch - self.first
        learner.train_at(fn.stair_decay(self.plus_lr, epoch, self.plus, self.plus_decay_at))
        boot = self.boot if epoch >= self.boot_from else 0.0
        for batch in run.batches(self.batch, state.kept.nonzero().squeeze(1), ("weak", "plain")):
            mixed, weight, permutation = fn.mixup(
                batch.views[0], self.alpha, run.rng, run.device_rng
            )
            logits, plain = learner.net(mixed), predicted(learner, batch.views[1])
            given, own = (
                F.one_hot(labels, run.task.num_classes).float()
                for labels in (batch.y, plain.argmax(1))
            )
            targets = (1 - boot) * given + boot * own
            run.step(learner, F.cross_entropy(logits, fn.mix(targets, weight, permutation)))
        return {"selected": state.kept.float().mean().item()}


@torch.no_grad()
def predicted(learner: Learner, x: Tensor) -> Tensor:
    """Logits (B, C) of the network in train mode; its running statistics take part."""
    logits: Tensor = learner.net(x)
    return logits


def mean_where(values: Tensor, chosen: Tensor) -> Tensor:
    """Mean of the chosen values of each row, 0 where none is, (rows,)."""
    return (values * chosen).sum(1) / chosen.sum(1).clamp(min=1)


def remember(state: State, embeddings: Tensor, labels: Tensor) -> Tensor:
    """Store embeddings in place of the oldest; where each of them went, (2B,)."""
    room = len(state.memory)
    slots = (state.place + torch.arange(len(labels), device=labels.device)) % room
    state.memory[slots] = embeddings
    state.remembered[slots] = labels
    state.place = (state.place + len(labels)) % room
    return slots


def balanced_selection(given: Tensor, agree: Tensor, labels: Tensor, classes: int) -> Tensor:
    """Of each class the largest votes, as many as the lower median of agreements, (N,) bool."""
    present = torch.bincount(labels, minlength=classes) > 0
    counts = torch.bincount(labels[agree], minlength=classes)[present]
    number = int(counts.median())
    kept = torch.zeros_like(agree)
    for label in present.nonzero().squeeze(1):
        rows = (labels == label).nonzero().squeeze(1)
        kept[rows[given[rows].clamp(0.01, 0.99).argsort(descending=True, stable=True)[:number]]] = (
            True
        )
    return kept
