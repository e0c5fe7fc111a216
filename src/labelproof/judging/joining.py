"""A softmax regression joined to a network, as far as held-out given labels say so.

On few examples, tables and texts a regression can be ahead of any network, and elsewhere far
behind. Both predict the given labels of folds they were trained without. Who agrees with them less
often counts less, by how sure the difference is:

    share of the regression : share of the network = exp(t) : PREFERENCE,  t > 0 where it is ahead

t is the paired t-statistic of agreement, examples of rare classes counting more (count^-1/2). The
scores of each are divided by their mean margin, so that the louder one does not decide.

Shapes: C classes, D numbers of an input, N training examples.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from labelproof import functional as fn
from labelproof.functional.softmax_regression import CrossFit
from labelproof.judging.link import Partner

PREFERENCE = 2.0  # of the network, where both are level
MOST = 12.0  # |t| beyond which nothing changes
LEAST_SHARE = 0.01  # below which the regression is left out


@dataclass(frozen=True, kw_only=True)
class Join:
    """A network and a regression, with what each is worth."""

    partner: Partner | None  # None where the regression adds nothing
    share: float  # of the regression
    network: float  # share of held-out given labels that the network predicts
    linear: float  # and the regression

    def describe(self, folds: int = 0) -> Mapping[str, Any]:
        """Plain values, for summary.json; networks of so many folds predict too."""
        return {
            "linear_share": round(self.share, 4),
            "network_agreement": self.network,
            "linear_agreement": self.linear,
            "fold_networks": folds,
            "why": self.sentence(folds),
        }

    def sentence(self, folds: int = 0) -> str:
        """What predicts, and why."""
        about = (
            f"On held-out examples, DPC predicted {self.network:.1%} of the given labels and a "
            f"softmax regression {self.linear:.1%}."
        )
        more = of_folds(folds)
        if self.partner is None:
            alone = "without a regression" if folds else "alone"
            return f"DPC predicts {alone}. {about}{more}"
        return (
            f"DPC and a softmax regression predict together, with weights of {1 - self.share:.0%} "
            f"and {self.share:.0%}. {about}{more}"
        )


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
    hits = [(said.argmax(1) == labels).double() for said in (scores, linear.log_probs)]
    rare = torch.bincount(labels).double()[labels].pow(-0.5)
    apart = (hits[1] - hits[0]) * rare
    spread = apart.std(correction=0).item() / len(labels) ** 0.5
    ahead = apart.mean().item() / spread if spread else 0.0
    odds = math.exp(max(-MOST, min(MOST, ahead))) / PREFERENCE
    share = odds / (1 + odds)
    agreed = {"network": hits[0].mean().item(), "linear": hits[1].mean().item()}
    if share < LEAST_SHARE:
        return Join(partner=None, share=0.0, **agreed)
    loud = [
        fn.label_margin(said.double(), labels).abs().mean().clamp_min(1e-6).item()
        for said in (scores, linear.log_probs)
    ]
    both = (1 - share) * loud[0] + share * loud[1]
    partner = Partner(
        weight=linear.weight,
        bias=linear.bias,
        network=both * (1 - share) / loud[0],
        linear=both * share / loud[1],
    )
    return Join(partner=partner, share=share, **agreed)
