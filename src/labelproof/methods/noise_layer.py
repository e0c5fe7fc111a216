"""Noise adaptation layer (Goldberger and Ben-Reuven, ICLR 2017).

A softmax over the given labels is put on top of the softmax over the true ones; its weights are the
chances that a class is given as another. The simple form has one matrix for all examples, the
complex one lets the chances depend on the features. Both layers are trained together after a phase
without the upper one, and prediction uses the lower one alone.

Paper: https://openreview.net/forum?id=H12GRgcxg. Authors' code:
https://github.com/udibr/noisy_labels. Departures: docs/methods/noise_layer.md.
Shapes: B batch, C classes, F features, N training examples.
"""

from __future__ import annotations

from typing import ClassVar, Literal

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from labelproof import functional as fn
from labelproof.nets.heads import linear
from labelproof.training import settings as hp
from labelproof.training.learner import OneNet, adam_or_sgd, softmax_of_net
from labelproof.training.protocol import About, Logs, Phase
from labelproof.training.run import Run

LEAST = 1e-8  # smallest estimated chance, before its logarithm


class Channel(nn.Module):
    """Logits (B, C * C) of the given label j for each true label i: b_ij, the same for all."""

    def __init__(self, _features: int, classes: int) -> None:
        super().__init__()
        self.bias = nn.Parameter(torch.zeros(classes**2))

    def forward(self, features: Tensor) -> Tensor:
        """(B, F) to (B, C * C), i before j."""
        return self.bias.expand(len(features), -1)


class FeatureChannel(Channel):
    """The complex form: u_ij·h + b_ij."""

    def __init__(self, features: int, classes: int) -> None:
        super().__init__(features, classes)
        self.by_features = nn.Linear(features, classes**2, bias=False)
        nn.init.zeros_(self.by_features.weight)

    def forward(self, features: Tensor) -> Tensor:
        """(B, F) to (B, C * C), i before j."""
        out: Tensor = self.by_features(features) + self.bias
        return out


@hp.record
class NoiseLayer:
    """Hyper-parameters; defaults are those of the released script, without its early stop."""

    about: ClassVar[About] = About(
        title="Noise adaptation layer",
        paper="Goldberger and Ben-Reuven, ICLR 2017",
        year=2017,
        link="https://openreview.net/forum?id=H12GRgcxg",
        code="https://github.com/udibr/noisy_labels",
        cost="3 N",
    )

    epochs: hp.Count = 80
    warmup: hp.WarmUp = 40  # epochs without the noise layer
    batch: hp.PerStep = 256
    optimiser: Literal["adam", "sgd"] = "adam"
    lr: hp.Positive = 1e-3
    momentum: hp.Share = 0.9
    weight_decay: hp.NonNegative = 0.0
    form: Literal["simple", "complex"] = "simple"
    start: Literal["confusion", "declared"] = "confusion"  # of the noise layer's bias
    noise_rate: hp.Share = 0.46  # start="declared": share of wrong labels, evenly over the others

    def __post_init__(self) -> None:
        hp.check_shorter(self, "warmup")

    def plan(self) -> tuple[Phase, ...]:
        """Without the noise layer, then with it."""
        rest = self.epochs - self.warmup
        return (
            Phase("warm-up", self.warmup, self.warm_up),
            Phase("noise layer", rest, self.train, self.start_layer, self.score),
        )

    def setup(self, run: Run) -> OneNet:
        """One network with a head for the noise."""
        optimiser = adam_or_sgd(self.optimiser, self.lr, self.momentum, self.weight_decay)
        channel = Channel if self.form == "simple" else FeatureChannel
        learner = run.learner(optimiser, label=linear, channel=channel)
        return OneNet(learner, torch.ones(run.task.size))

    predict = softmax_of_net  # softmax of the lower layer: true labels, (B, C)

    def warm_up(self, state: OneNet, run: Run) -> Logs:
        """One epoch of cross-entropy without the noise layer."""
        learner = state.learner
        learner.net.train()
        for batch in run.batches(self.batch):
            run.step(learner, F.cross_entropy(learner.net(batch.views[0]), batch.y))
        return {}

    @torch.no_grad()
    def start_layer(self, state: OneNet, run: Run) -> None:
        """b_ij = ln of the chance that i is given as j; no dependence on features yet."""
        channel = state.learner.net.heads["channel"]
        assert isinstance(channel, Channel)
        classes = run.task.num_classes
        chances = torch.full((classes, classes), self.noise_rate / max(1, classes - 1))
        chances.fill_diagonal_(1 - self.noise_rate)
        if self.start == "confusion":
            probs = run.predict(state.learner.net).softmax(1)
            chances = confusion(probs, run.y).cpu()
        channel.bias.copy_(chances.clamp(min=LEAST).log().flatten())

    def train(self, state: OneNet, run: Run) -> Logs:
        """One epoch of -ln p(given label), through both layers."""
        learner = state.learner
        learner.net.train()
        for batch in run.batches(self.batch):
            logits, channel = learner.net(batch.views[0], "label", "channel")
            run.step(learner, -log_given(logits, channel, batch.y).mean())
        return {}

    def score(self, state: OneNet, run: Run) -> None:
        """Clean probability: that of the true label to be the given one, given both, (N,)."""
        net = state.learner.net
        features = run.features(net)
        with torch.no_grad():
            logits, channel = net.head("label", features), net.head("channel", features)
            joint = logits.log_softmax(1) + chance(channel, run.y)
        posterior = fn.of_label(joint.softmax(1), run.y)
        state.clean = run.trusted(posterior)


def log_given(logits: Tensor, channel: Tensor, labels: Tensor) -> Tensor:
    """ln Σ_i p(true i) p(given label | true i), (B,)."""
    return torch.logsumexp(logits.log_softmax(1) + chance(channel, labels), 1)


def chance(channel: Tensor, labels: Tensor) -> Tensor:
    """ln p(given label | true i) for every i, (B, C)."""
    classes = round(channel.shape[1] ** 0.5)
    logs = channel.view(-1, classes, classes).log_softmax(2)
    return logs.gather(2, labels.view(-1, 1, 1).expand(-1, classes, 1)).squeeze(2)


def confusion(probs: Tensor, labels: Tensor) -> Tensor:
    """Σ_t p_ti [given_t = j] / Σ_t p_ti of all examples t, rows sum to 1, (C, C)."""
    given = F.one_hot(labels, probs.shape[1]).to(probs)
    counts = probs.T @ given
    return counts / counts.sum(1, keepdim=True).clamp(min=1e-12)
