"""The link between what networks put out and probabilities to rely on: one scale on the scores.

A score is a logit where a method's probabilities follow from the mean logits of its networks, as
DPC's do, and the logarithm of a probability elsewhere. The constant γ that DPC adds to every
exponential keeps training stable and leaves probabilities far too flat; the link leaves it out.

Methods trained as a Dirichlet declare more than probabilities (`About.evidence`): the size of their
logits, which says how much is known of an input at all.

Where a softmax regression or a random forest was found to help (see `joining`), its scores are
added.

Predictions should be as sure on average as they are right. How often they are right is estimated
twice: by the judge's noise model, and by how often different models agree (`sharpness`). Neither
is always the better one, so the scale lies halfway between the two.

Shapes: B batch, C classes, D numbers of an input, N training examples, V views.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor

from labelproof import functional as fn
from labelproof.errors import BadInput
from labelproof.judging.forest import Forest
from labelproof.judging.judgement import Judgement
from labelproof.judging.numbers import Floats, log_softmax, minimise
from labelproof.judging.sharpness import Near, share_right
from labelproof.training.protocol import Method

Scores = Literal["logits", "log-probabilities"]
TINY = 1e-12  # probabilities below this count as this, so that their logarithm exists
MOST = 200_000  # examples that a scale is fitted to
ABOVE_CHANCE, SUREST = 1.05, 0.995  # how sure predictions are at least, times 1 / C, and at most
BOUNDS = (math.log(1e-3), math.log(1e3))  # of the logarithm of a scale


@dataclass(frozen=True, kw_only=True, eq=False)
class Partner:
    """A softmax regression, and for tables a forest, whose scores are added to a network's."""

    weight: Tensor  # (D, C)
    bias: Tensor  # (C,)
    network: float  # factor of the network's scores
    linear: float  # factor of the regression's logits
    trees: float = 0.0  # factor of the forest's scores
    forest: Forest | None = None

    def joined(self, scores: Tensor, x: Tensor) -> Tensor:
        """Scores (B, C) of all together, for network input `x`."""
        x = x.flatten(1).to(scores)
        both = self.without_forest(scores, x)
        return both if self.forest is None else both + self.trees * self.forest(x)

    def without_forest(self, scores: Tensor, x: Tensor) -> Tensor:
        """Those of the network and the regression alone, (B, C)."""
        logits = x.flatten(1).to(scores) @ self.weight.to(scores) + self.bias.to(scores)
        return self.network * scores + self.linear * logits


@dataclass(frozen=True, kw_only=True)
class Link:
    """softmax(scale * scores): the order of the classes, and so the accuracy, stays as it was."""

    of: Scores = "log-probabilities"
    scale: float = 1.0  # one over the temperature
    partner: Partner | None = None

    def __post_init__(self) -> None:
        if self.of not in ("logits", "log-probabilities"):
            raise BadInput(f"a link is of logits or log-probabilities, not of {self.of!r}.")
        if not 0 < self.scale < math.inf:
            raise BadInput(f"a link needs a scale above 0, not {self.scale}.")

    def __call__(self, scores: Tensor) -> Tensor:
        """Calibrated probabilities, (B, C)."""
        return (self.scale * scores).softmax(-1)

    def joined(self, scores: Tensor, x: Tensor) -> Tensor:
        """Scores (B, C) with those of the partner, if there is one, for network input `x`."""
        return scores if self.partner is None else self.partner.joined(scores, x)

    def describe(self) -> dict[str, Any]:
        """The link as plain values, for JSON; the partner's weights are tensors of the model."""
        joined = self.partner and {name: vars(self.partner)[name] for name in FACTORS}
        return {"of": self.of, "scale": self.scale, "partner": joined}

    def tensors(self) -> dict[str, Tensor]:
        """The weights of the partner, by the name they have in the model's file."""
        if self.partner is None:
            return {}
        trees = self.partner.forest.tensors() if self.partner.forest else {}
        return {WEIGHT: self.partner.weight, BIAS: self.partner.bias, **trees}

    @staticmethod
    def revive(record: Mapping[str, Any], tensors: Mapping[str, Tensor]) -> Link:
        """The link that `describe` and `tensors` gave."""
        joined, partner = record.get("partner"), None
        if joined:
            weight, bias = tensors[WEIGHT], tensors[BIAS]
            factors = {name: float(joined.get(name, 0)) for name in FACTORS}
            forest = Forest.revive(tensors) if factors["trees"] else None
            partner = Partner(weight=weight, bias=bias, forest=forest, **factors)
        return Link(of=record["of"], scale=float(record["scale"]), partner=partner)


WEIGHT, BIAS = "link:weight", "link:bias"
FACTORS = ("network", "linear", "trees")


def log_evidence(method: Method, state: Any, x: Tensor) -> Tensor | None:
    """ln(α - 1) of a method trained as a Dirichlet, (B, C); None of any other."""
    return method.about.evidence(method, state, x) if method.about.evidence else None


@torch.no_grad()
def kind_of_scores(method: Method, state: Any, x: Tensor) -> Scores:
    """Logits if the method's probabilities follow from its evidence alone, as `x` shows."""
    evidence = log_evidence(method, state, x)
    if evidence is None:
        return "log-probabilities"
    own = fn.calibrated_softmax(evidence, gamma=1.0)
    same = torch.allclose(own, method.predict(state, x).to(own), atol=1e-5)
    return "logits" if same else "log-probabilities"


def scores(method: Method, state: Any, x: Tensor, of: Scores) -> Tensor:
    """The scores of the given kind, (B, C), for network input `x`."""
    evidence = log_evidence(method, state, x) if of == "logits" else None
    if evidence is not None:
        return evidence
    return method.predict(state, x).clamp_min(TINY).log()


def mean_scores(method: Method, states: Sequence[Any], x: Tensor, of: Scores) -> Tensor:
    """The mean scores (B, C) of networks that predict together."""
    return torch.stack([scores(method, state, x, of) for state in states]).mean(0)


def mean_evidence(method: Method, states: Sequence[Any], x: Tensor) -> Tensor | None:
    """Their mean ln(α - 1), (B, C), where the method was trained as a Dirichlet."""
    found = [log_evidence(method, state, x) for state in states]
    known = [each for each in found if each is not None]
    return torch.stack(known).mean(0) if known else None


def vacuity(evidence: Tensor) -> Tensor:
    """C / Σα of the Dirichlet with the logarithmic evidence given, (B,): 1 without evidence."""
    return fn.dirichlet_uncertainty(evidence, gamma=1.0)[0]


def entropy(probs: Tensor) -> Tensor:
    """Entropy of the class probabilities as a share of the largest possible one, (B,)."""
    return -fn.neg_entropy(probs) / math.log(probs.shape[1])


def rights(
    values: Tensor,
    judged: Judgement,
    labels: Tensor,
    views: Floats,
    near: Near | None,
    forest: int | None = None,
) -> tuple[float, ...]:
    """How often predictions are right, by the noise model and, with two views, by `sharpness`.

    Never less often than they name the given label: wrong labels do not make models better. Where
    nobody can tell wrong labels from hard examples, the noise model cannot say more than that.
    Weak models agree with each other far more often than they are right, and a noise model then
    blames the labels: there, agreement with given labels is all that is known.

    Args:
        values: (N, C) held-out scores of what predicts.
        judged: what was found of the labels.
        labels: (N,) given labels before any review.
        views: (V, N, C) of single models.
        near: what neighbours say of some examples, where no view has those of all.
        forest: which of the views is a forest, if one is.
    """
    given, trust = labels.numpy(), judged.trust
    agreement = float((values.argmax(1).numpy() == given).mean())
    if trust.weak:
        return (agreement,)
    found = agreement if trust.ambiguous else max(1 - trust.model_error, agreement)
    some = slice(None, None, step_of(len(given))) if near is None else near.rows
    said = views[:, some].argmax(2)
    if near is not None:
        said = np.concatenate([said, near.said[None]])
    if len(said) < 2:
        return (found,)
    return found, share_right(said, log_softmax(values.numpy()[some]), given[some], forest)


def halfway(values: Tensor, shares: Sequence[float]) -> float:
    """The scale of scores (N, C) halfway between those that are as sure as each share says."""
    scales = [math.log(sure_scale(values, share)) for share in shares]
    return math.exp(sum(scales) / len(scales))


def sure_scale(values: Tensor, share: float) -> float:
    """The scale at which the likeliest class of scores (N, C) has this probability on average."""
    values, (low, high) = spread_rows(values), BOUNDS
    share = min(max(share, ABOVE_CHANCE / values.shape[1]), SUREST)
    for _ in range(40):
        middle = (low + high) / 2
        less = (math.exp(middle) * values).softmax(1).amax(1).mean().item() < share
        low, high = (middle, high) if less else (low, middle)
    return math.exp(low)


def spread_rows(values: Tensor) -> Tensor:
    """Rows (N, C) spread evenly over very many, all of fewer: one number needs no more."""
    return values[:: step_of(len(values))]


def step_of(size: int) -> int:
    """Every how manieth row is taken."""
    return max(1, -(-size // MOST))


def fit_scale(values: Tensor, target: Tensor) -> float:
    """The scale whose softmax has the least cross-entropy to the target distributions."""
    values, target = spread_rows(values), spread_rows(target)
    log_scale = torch.zeros((), dtype=torch.float64)

    def loss() -> Tensor:
        log_probs = (log_scale.exp() * values).log_softmax(1)
        return 0.5 / len(values) * log_scale.square() - (target * log_probs).sum(1).mean()

    minimise(loss, [log_scale], steps=30)
    return log_scale.exp().item()
