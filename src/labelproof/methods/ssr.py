"""SSR and SSR+: sample selection and relabelling (Feng, Tzimiropoulos and Patras, BMVC 2022).

One network and no noise rate to guess. Every epoch (1) relabels what the classifier is sure of,
starting from the given labels each time; (2) selects where nearest neighbours agree with the
label, votes balanced by class; (3) trains on the selected with mixup, every class as often. SSR+
adds (4) a consistency loss between a weak and a strong view of all examples.

Paper: https://arxiv.org/abs/2111.11288. Authors' code:
https://github.com/MrChenFeng/SSR_BMVC2022. Departures: docs/methods/ssr.md.
Shapes: B batch, C classes, F features, N training examples.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
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
from labelproof.training.learner import Learner, OneNet, sgd_of, softmax_of_net
from labelproof.training.protocol import About, Logs, Phase
from labelproof.training.run import Run

STRONG = Strong(small="cifar10_ninths", large="imagenet_zoomed")  # after crop and flip
HIDDEN = 256  # of the two heads of the consistency loss


class Compared(nn.Module):
    """Projection z and prediction of it, side by side: (B, F) to (B, 2 width)."""

    def __init__(self, features: int, _classes: int, width: int = 128) -> None:
        super().__init__()
        self.project = _two_layers(features, width)
        self.predict = _two_layers(width, width)

    def forward(self, features: Tensor) -> Tensor:
        """z first."""
        z = self.project(features)
        return torch.cat([z, self.predict(z)], 1)


@dataclass(frozen=True)
class Chosen:
    """What an epoch trains on."""

    labels: Tensor  # (N,) after relabelling
    selected: Tensor  # (N,) bool
    given: Tensor  # (N,) vote for the given label / largest vote


@hp.record
class SSR:
    """Hyper-parameters; defaults are those of SSR+ in the released code for CIFAR."""

    about: ClassVar[About] = About(
        title="SSR and SSR+: sample selection and relabelling",
        paper="Feng, Tzimiropoulos and Patras, BMVC 2022",
        year=2022,
        link="https://arxiv.org/abs/2111.11288",
        code="https://github.com/MrChenFeng/SSR_BMVC2022",
        cost="13 N and N² similarities; without consistency 7 N",
        soft=False,
    )

    epochs: hp.Count = 300
    batch: hp.PerStep = 128
    lr: hp.Positive = 0.02
    lr_floor: hp.Share = 0.02  # lowest rate of the cosine, as a share of lr
    decay_at: tuple[hp.Share, ...] = ()  # no cosine: lr x 0.1 from each share of the epochs on
    momentum: hp.Share = 0.9
    weight_decay: hp.NonNegative = 5e-4
    relabel_above: hp.Share = 0.9  # θ_r, largest probability above which a label is replaced
    select_from: hp.Share = 1.0  # θ_s, own vote / largest vote from which an example is selected
    neighbours: hp.Count = 200  # k
    alpha: hp.Positive = 4.0  # Beta(α, α) of the mixing weight
    consistency: hp.NonNegative = 1.0  # λ_fc; 0 is SSR
    width: hp.Count = 128  # of what the consistency loss compares

    def plan(self) -> tuple[Phase, ...]:
        """One phase, from the first epoch on."""
        return (Phase("select and relabel", self.epochs, self.train, leave=self.score),)

    def setup(self, run: Run) -> OneNet:
        """One network; heads of the consistency loss only where it is used."""
        compare = partial(Compared, width=self.width)
        heads = {"label": linear, "compare": compare} if self.consistency else {"label": linear}
        return OneNet(run.learner(sgd_of(self), **heads), torch.ones(run.task.size))

    predict = softmax_of_net

    def train(self, state: OneNet, run: Run) -> Logs:
        """One epoch: relabel, select, train."""
        learner = state.learner
        chosen = self.choose(state, run, view="weak")
        state.clean = run.trusted(chosen.given)
        learner.train_at(self.learning_rate(run.epoch))
        rows = balanced(chosen.labels, chosen.selected, run.rng)
        kept = run.batches(self.batch, rows, (STRONG, STRONG), forever=True)
        for x, u in zip(kept, run.batches(self.batch, views=("weak", STRONG)), strict=False):
            losses = [self.supervised(learner, x, chosen.labels, run)]
            if self.consistency:
                losses.append(self.consistency * compared(learner, u))
            run.step(learner, *losses)
        changed = (chosen.labels != run.y).float().mean().item()
        return {"selected": chosen.selected.float().mean().item(), "changed": changed}

    def learning_rate(self, epoch: int) -> float:
        """Half a cosine, or steps."""
        if self.decay_at:
            return fn.stair_decay(self.lr, epoch, self.epochs, self.decay_at)
        return fn.cosine_decay(self.lr, epoch, self.epochs, self.lr_floor * self.lr)

    def choose(self, state: OneNet, run: Run, view: View = "plain") -> Chosen:
        """Relabel and select by the network as it is."""
        net = state.learner.net
        features = run.features(net, view)
        sure, predicted = net.head("label", features).detach().softmax(1).max(1)
        fixed = run.trusted(torch.zeros_like(sure)) > 0
        labels = torch.where((sure > self.relabel_above) & ~fixed, predicted, run.y)
        near = nearest_by_angle(features, self.neighbours, with_self=True)
        votes = balanced_votes(label_votes(labels, near, run.task.num_classes), labels)
        most = votes.max(1).values
        own = fn.of_label(votes, labels) / most
        selected = (own >= self.select_from) | fixed
        if not selected.any():
            selected = torch.ones_like(selected)
        given = fn.of_label(votes, run.y) / most
        return Chosen(labels, selected, given)

    def supervised(self, learner: Learner, x: Batch, labels: Tensor, run: Run) -> Tensor:
        """Cross-entropy of mixed strong views, a scalar."""
        targets = F.one_hot(labels[x.index], run.task.num_classes).float().repeat(2, 1)
        mixed, weight, permutation = fn.mixup(
            torch.cat(x.views), self.alpha, run.rng, run.device_rng
        )
        logits = learner.net(mixed)
        return F.cross_entropy(logits, fn.mix(targets, weight, permutation))

    def score(self, state: OneNet, run: Run) -> None:
        """Clean probability: vote for the given label / largest vote, at the end, (N,)."""
        state.clean = run.trusted(self.choose(state, run).given)


def compared(learner: Learner, u: Batch) -> Tensor:
    """Negative cosine of the strong view's prediction and the weak one's projection, held fixed."""
    weak, strong = learner.net(torch.cat(u.views), "compare").chunk(2)
    (z, _), (_, guess) = weak.chunk(2, 1), strong.chunk(2, 1)
    return -F.cosine_similarity(guess, z.detach(), dim=1).mean()


def balanced_votes(votes: Tensor, labels: Tensor) -> Tensor:
    """Votes divided by the frequency of their class, summing to 1 again, (N, C)."""
    frequency = torch.bincount(labels, minlength=votes.shape[1]) / len(labels)
    weighted = votes / (frequency + 1e-12)
    return weighted / weighted.sum(1, keepdim=True)


def balanced(labels: Tensor, selected: Tensor, rng: torch.Generator) -> Tensor:
    """Selected places, those of smaller classes repeated until all are as often as the largest."""
    rows = selected.nonzero().squeeze(1).cpu()
    own = labels.cpu()[rows]
    most = int(torch.bincount(own).max())
    parts = []
    for label in torch.bincount(own).nonzero().squeeze(1):
        places = rows[own == label]
        order = places[torch.randperm(len(places), generator=rng)]
        parts.append(order.repeat(-(-most // len(places)))[:most])
    return torch.cat(parts)


def _two_layers(inputs: int, outputs: int) -> nn.Sequential:
    return nn.Sequential(
        nn.Linear(inputs, HIDDEN), nn.BatchNorm1d(HIDDEN), nn.ReLU(), nn.Linear(HIDDEN, outputs)
    )
