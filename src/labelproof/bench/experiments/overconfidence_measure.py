"""How confident, how right and how well selected: the numbers of the over-confidence experiment.

A probability of two networks can be made in several ways, and the paper does not say which one its
figure shows; here each is measured by itself, before and after calibration.

Shapes: C classes, K networks, M test examples, N training examples.
"""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from labelproof import functional as fn
from labelproof import metrics
from labelproof.bench.experiments.overconfidence_outputs import Outputs

BINS = 15  # of the tables
FIGURE_BINS = 10  # of the paper's reliability diagram
LOGITS = ((0.0, 2.0, 0.0, 0.0), (-2.0, 0.0, -2.0, -2.0))  # x1 and x2 of figure 1
CAT = 1  # the class that figure 1 speaks of
FIGURE_1_GAMMA = 1.0  # the printed numbers need it; γ C = 10 of all experiments would be 2.5

ONE, SECOND_HEAD = "one network", "one network, second head"
MEAN_PROBABILITY = "mean probability"
MEAN_LOGITS, SUMMED_LOGITS = "mean logits", "summed logits"
NO_GAMMA = "mean logits, γ left out"


@dataclass(frozen=True, kw_only=True)
class Honesty:
    """Confidence against accuracy on the test set."""

    accuracy: float
    confidence: float
    ece: float  # BINS bins
    ece_figure: float  # FIGURE_BINS bins

    @property
    def gap(self) -> float:
        """Confidence minus accuracy: above 0 is over-confident, below 0 under-confident."""
        return self.confidence - self.accuracy


@dataclass(frozen=True, kw_only=True)
class Variant:
    """One way to turn the networks' logits into probabilities of the test set."""

    before: tuple[Tensor, ...]  # (M, C), one for each network or one of both
    after: tuple[Tensor, ...]  # the same by the run's calibration; empty where it has no meaning


def figure_1(gamma: float) -> Tensor:
    """Probabilities of the four classes for x1 and x2, (2, 4); γ = 0 is plain softmax."""
    return fn.calibrated_softmax(torch.tensor(LOGITS, dtype=torch.float64), gamma)


def variants(run: Outputs) -> dict[str, Variant]:
    """All ways to make probabilities of the test set, by name.

    The calibration was fitted to the mean logits. A scale fitted to their sum would be half of it
    and give the same probabilities, so both share them.
    """
    logits = run.classifier
    mean, total = logits.mean(0), logits.sum(0)
    own, linked = run.probability, run.linked
    one = Variant(before=tuple(map(own, logits)), after=tuple(map(linked, logits)))
    found = {ONE: one}
    for head in list(run.test.values())[1:]:
        found[SECOND_HEAD] = Variant(before=tuple(map(own, head)), after=tuple(map(linked, head)))
    found[MEAN_PROBABILITY] = Variant(before=(_mean(one.before),), after=(_mean(one.after),))
    found[MEAN_LOGITS] = Variant(before=(own(mean),), after=(linked(mean),))
    found[SUMMED_LOGITS] = Variant(before=(own(total),), after=(linked(mean),))
    if run.method.objective.gamma(mean) > 0:
        found[NO_GAMMA] = Variant(before=(mean.softmax(1),), after=())
    return found


def _mean(probs: Sequence[Tensor]) -> Tensor:
    return torch.stack(list(probs)).mean(0)


def honesty(probs: Sequence[Tensor], labels: Tensor) -> Honesty:
    """Confidence and accuracy of probabilities; means where there are several."""
    return Honesty(
        accuracy=statistics.mean(metrics.accuracy(p, labels) for p in probs),
        confidence=statistics.mean(p.amax(1).double().mean().item() for p in probs),
        ece=statistics.mean(metrics.ece(p, labels, BINS) for p in probs),
        ece_figure=statistics.mean(metrics.ece(p, labels, FIGURE_BINS) for p in probs),
    )


def suspicion(run: Outputs, network: int) -> dict[str, Tensor]:
    """Two scores of every training label by one and the same network, higher for wrong ones."""
    logits = run.train[network]
    return {"small loss": run.loss(logits), "large margin": -fn.label_margin(logits, run.given)}


def selection(run: Outputs) -> dict[str, float]:
    """AUROC of each criterion, mean over the networks."""
    scores = [suspicion(run, network) for network in range(len(run.train))]
    return {
        name: statistics.mean(metrics.error_auroc(run.wrong, score[name]) for score in scores)
        for name in scores[0]
    }
