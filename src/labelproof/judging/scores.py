"""What a trained method says of an input, before any link: logits, probabilities, evidence.

A method's interface is its probabilities. Methods trained as a Dirichlet declare more
(`About.evidence`): the size of their logits, which their probabilities alone do not show.

Shapes: B batch, C classes.
"""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor

from labelproof import functional as fn
from labelproof.judging.link import TINY, Scores
from labelproof.training.protocol import Method


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


def vacuity(evidence: Tensor) -> Tensor:
    """C / Σα of the Dirichlet with the logarithmic evidence given, (B,): 1 without evidence."""
    return fn.dirichlet_uncertainty(evidence, gamma=1.0)[0]


def entropy(probs: Tensor) -> Tensor:
    """Entropy of the class probabilities as a share of the largest possible one, (B,)."""
    return -fn.neg_entropy(probs) / math.log(probs.shape[1])
