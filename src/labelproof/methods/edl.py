"""EDL: evidential deep learning (Sensoy, Kaplan and Kandemir, NeurIPS 2018).

Paper: https://arxiv.org/abs/1806.01768. Code of its authors: notebooks at
https://muratsensoy.github.io/uncertainty.html. Departures: docs/methods/edl.md.

1. The network's outputs are evidence e >= 0 for each class, α = 1 + e parameters of a Dirichlet.
2. The loss is an expected loss under that Dirichlet,
3. plus a divergence, growing over the first epochs, that takes away the evidence for classes other
   than the given one.
4. Without evidence the answer is "I do not know": the uncertainty is C / Σα. DPC's loss descends
   from this one.

Shapes: B batch, C classes, N training examples.
"""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal

import torch
import torch.nn.functional as F
from torch import Tensor

from labelproof import functional as fn
from labelproof.nets.heads import linear
from labelproof.training import settings as hp
from labelproof.training.learner import OneNet, adam_or_sgd
from labelproof.training.loop import given_label
from labelproof.training.protocol import About, Logs, one_phase
from labelproof.training.run import Run

LEAST = 1e-30  # evidence below this is none


@hp.record
class EDL:
    """Hyper-parameters; loss and evidence are the authors', the rest is that of cross-entropy."""

    about: ClassVar[About] = About(
        title="Evidential deep learning",
        paper="Sensoy, Kaplan and Kandemir, NeurIPS 2018",
        year=2018,
        link="https://arxiv.org/abs/1806.01768",
        code="https://muratsensoy.github.io/uncertainty.html",
        cost="3 N",
        evidence=lambda method, state, x: method.log_evidence(state.learner.net(x)),
    )

    epochs: hp.Count = 300
    batch: hp.PerStep = 128
    optimiser: Literal["sgd", "adam"] = "sgd"
    lr: hp.Positive = 0.02
    momentum: hp.Share = 0.9  # of SGD
    weight_decay: hp.NonNegative = 5e-4
    decay_at: hp.Share = 0.5  # lr x 0.1 from this share of the epochs on
    risk: Literal["squared", "log", "digamma"] = "squared"  # eq. 5 | eq. 3 | eq. 4
    evidence: Literal["exp", "softplus", "relu"] = "exp"
    scale: hp.Positive = 10.0  # "exp": the output is divided by it and kept within ±10
    anneal: Annotated[hp.NonNegative, hp.Epochs()] = (
        10.0  # until the divergence has its full weight
    )
    divergence: hp.NonNegative = 1.0  # that full weight

    plan = one_phase

    def setup(self, run: Run) -> OneNet:
        """One network with a linear head."""
        chosen = adam_or_sgd(self.optimiser, self.lr, self.momentum, self.weight_decay)
        return OneNet(run.learner(chosen, label=linear), torch.ones(run.task.size))

    def train(self, state: OneNet, run: Run) -> Logs:
        """One epoch; the weight of the divergence rises with every step."""
        learner = state.learner
        learner.train_at(fn.stair_decay(self.lr, run.epoch, self.epochs, (self.decay_at,)))
        batches = run.batches(self.batch)
        for i, batch in enumerate(batches):
            log_evidence = self.log_evidence(learner.net(batch.views[0]))
            weight = self.divergence * fn.ramp(run.epoch + i / len(batches), 0, self.anneal)
            run.step(learner, self.loss(log_evidence, batch.y, weight).mean())
        return {}

    def log_evidence(self, logits: Tensor) -> Tensor:
        """ln e of the network's outputs, (B, C)."""
        if self.evidence == "exp":
            return (logits / self.scale).clamp(-10, 10)
        link = F.softplus if self.evidence == "softplus" else torch.relu
        return link(logits).clamp(min=LEAST).log()

    def loss(self, log_evidence: Tensor, labels: Tensor, weight: float) -> Tensor:
        """The expected loss + λ_t KL(Dir(α~) || Dir(1)), (B,)."""
        risk = {"squared": squared_risk, "log": log_risk, "digamma": digamma_risk}[self.risk]
        return risk(log_evidence, labels) + weight * fn.edl_kl(log_evidence, labels, gamma=1.0)

    def probability(self, logits: Tensor) -> Tensor:
        """Mean α / Σα of the Dirichlet, (B, C)."""
        return fn.calibrated_softmax(self.log_evidence(logits), gamma=1.0)

    score = given_label

    def predict(self, state: OneNet, x: Tensor) -> Tensor:
        """Expected class probabilities, (B, C)."""
        return self.probability(state.learner.net(x))


def log_risk(log_evidence: Tensor, labels: Tensor) -> Tensor:
    """Type-II likelihood, ln S - ln α_y, eq. 3; (B,)."""
    return fn.edl_nll(log_evidence, labels, gamma=1.0)


def digamma_risk(log_evidence: Tensor, labels: Tensor) -> Tensor:
    """Expected cross-entropy, ψ(S) - ψ(α_y), eq. 4; (B,)."""
    alpha = 1 + log_evidence.exp()
    given = fn.of_label(alpha, labels)
    return torch.digamma(alpha.sum(1)) - torch.digamma(given)


def squared_risk(log_evidence: Tensor, labels: Tensor) -> Tensor:
    """Expected squared error, Σ_c (y_c - p_c)² + p_c (1 - p_c) / (S + 1), eq. 5; (B,)."""
    alpha = 1 + log_evidence.exp()
    total = alpha.sum(1, keepdim=True)
    mean = alpha / total
    error = F.one_hot(labels, alpha.shape[1]) - mean
    return (error.square() + mean * (1 - mean) / (total + 1)).sum(1)
