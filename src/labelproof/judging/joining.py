"""A softmax regression and a random forest joined to a network, as held-out given labels say.

On few examples, tables and texts a regression can be ahead of any network, and elsewhere far
behind; so can a forest on tables. All predict the given labels of examples they were trained
without. The regression is joined to the network, and then the forest to both. Who agrees with the
labels less often counts less, by how sure the difference is:

    share of the one that joins : share of the rest = exp(t) : PREFERENCE,  t > 0 where it is ahead

t is the paired t-statistic of agreement, examples of rare classes counting more (count^-1/2). The
scores of each are divided by their mean margin, so that the louder one does not decide.

Shapes: C classes, D numbers of an input, N training examples.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from labelproof import functional as fn
from labelproof.functional.softmax_regression import CrossFit
from labelproof.judging.forest import Forest
from labelproof.judging.link import Partner

PREFERENCE = 2.0  # of the network, where both are level
MOST = 12.0  # |t| beyond which nothing changes
LEAST_SHARE = 0.01  # below which the one that joins is left out
LITTLE = 0.005  # share that would be printed as 0%
REGRESSION, FOREST = "a softmax regression", "a random forest"


@dataclass(frozen=True, kw_only=True)
class Join:
    """A network and what predicts along with it, with what each is worth."""

    partner: Partner | None  # None where nothing adds anything
    share: float  # of the regression
    network: float  # share of held-out given labels that the network predicts
    linear: float  # and the regression
    forest_share: float = 0.0
    forest: float | None = None  # share of held-out given labels that a forest predicts, if grown

    def describe(self, folds: int = 0) -> Mapping[str, Any]:
        """Plain values, for summary.json; networks of so many folds predict too."""
        return {
            "linear_share": round(self.share, 4),
            "forest_share": round(self.forest_share, 4),
            "network_agreement": self.network,
            "linear_agreement": self.linear,
            "forest_agreement": self.forest,
            "fold_networks": folds,
            "why": self.sentence(folds),
        }

    def sentence(self, folds: int = 0) -> str:
        """What predicts, and why."""
        agreed = {"DPC": self.network, REGRESSION: self.linear}
        agreed |= {} if self.forest is None else {FOREST: self.forest}
        rest = {REGRESSION: self.share, FOREST: self.forest_share}
        shares = {"DPC": 1 - sum(rest.values())} | {name: s for name, s in rest.items() if s}
        about = _listed(
            f"On held-out examples, DPC predicted {self.network:.1%} of the given labels",
            *(f"{name} {share:.1%}" for name, share in agreed.items() if name != "DPC"),
        )
        more = of_folds(folds if shares["DPC"] > LITTLE else 0)
        if len(shares) == 1:
            alone = f"without {' or '.join(list(agreed)[1:])}" if folds else "alone"
            return f"DPC predicts {alone}. {about}.{more}"
        first = max(shares, key=lambda name: shares[name])
        if first != "DPC" and agreed[first] < max(agreed.values()):
            about += ". In the weights, hits in rare classes count more"
        return (
            f"{_listed(*shares)} predict together, with weights of "
            f"{_listed(*(_percent(share) for share in shares.values()))}. {about}.{more}"
        )


def _percent(share: float) -> str:
    return f"{share:.0%}" if share > LITTLE else "less than 1%"


def _listed(*names: str) -> str:
    """The names with commas, and "and" before the last."""
    return f"{', '.join(names[:-1])} and {names[-1]}"


def of_folds(folds: int) -> str:
    """That networks which were trained without a fold predict too, if they do."""
    return f" The networks trained without each of {folds} folds predict too." if folds else ""


def join(scores: Tensor, linear: CrossFit, labels: Tensor) -> Join:
    """Weigh a network and a regression.

    Args:
        scores: (N, C) of a network that was trained without the example's fold.
        linear: the regression, with log-probabilities out of the same folds.
        labels: (N,) given labels.
    """
    share, factors = _weighed(scores, linear.log_probs, labels)
    agreed = {
        "network": _agreement(scores, labels), "linear": _agreement(linear.log_probs, labels)
    }  # fmt: skip
    partner = None
    if share:
        network, own = factors
        partner = Partner(weight=linear.weight, bias=linear.bias, network=network, linear=own)
    return Join(partner=partner, share=share, **agreed)


def with_forest(
    before: Join, both: Tensor, said: Tensor, linear: CrossFit, forest: Forest, labels: Tensor
) -> Join:
    """Join a forest to a network and a regression.

    Args:
        before: the network and the regression.
        both: (N, C) scores of what they say together, out of folds.
        said: (N, C) scores by trees that were grown without the example.
        linear: the regression.
        forest: the trees.
        labels: (N,) given labels.
    """
    share, (rest, trees) = _weighed(both, said, labels)
    known = replace(before, forest=_agreement(said, labels))
    if not share:
        return known
    old = before.partner
    partner = Partner(
        weight=linear.weight,
        bias=linear.bias,
        network=rest * (old.network if old else 1.0),
        linear=rest * (old.linear if old else 0.0),
        trees=trees,
        forest=forest,
    )
    return replace(known, partner=partner, share=before.share * (1 - share), forest_share=share)


def _agreement(said: Tensor, labels: Tensor) -> float:
    """Share of the labels that are predicted."""
    return (said.argmax(1) == labels).double().mean().item()


def _weighed(first: Tensor, second: Tensor, labels: Tensor) -> tuple[float, tuple[float, float]]:
    """The share of the second of two that predict, and the factor of each one's scores (N, C)."""
    hits = [(said.argmax(1) == labels).double() for said in (first, second)]
    rare = torch.bincount(labels).double()[labels].pow(-0.5)
    apart = (hits[1] - hits[0]) * rare
    spread = apart.std(correction=0).item() / len(labels) ** 0.5
    ahead = apart.mean().item() / max(spread, 1e-12)
    odds = math.exp(max(-MOST, min(MOST, ahead))) / PREFERENCE
    share = odds / (1 + odds)
    if share < LEAST_SHARE:
        return 0.0, (1.0, 0.0)
    loud = [
        fn.label_margin(said.double(), labels).abs().mean().clamp_min(1e-6).item()
        for said in (first, second)
    ]
    both = (1 - share) * loud[0] + share * loud[1]
    return share, (both * (1 - share) / loud[0], both * share / loud[1])
