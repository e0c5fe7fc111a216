"""What a trained method says of an input, before any link: logits, probabilities, evidence.

A method's interface is its probabilities. Methods trained as a Dirichlet (`loss="edl"`) say more:
the size of their logits is evidence, which their probabilities alone do not show.

Shapes: B batch, C classes.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from labelproof import functional as fn
from labelproof.judging.link import TINY, Scores
from labelproof.nets.heads import MultiHead
from labelproof.training.learner import Learner
from labelproof.training.protocol import Method


def is_dirichlet(method: Method) -> bool:
    """Whether the method is trained as a Dirichlet, so that evidence and vacuity mean something."""
    return hasattr(method, "log_evidence") or getattr(method, "loss", None) == "edl"


def log_evidence(method: Any, state: Any, x: Tensor) -> Tensor:
    """ln(α - 1) of a Dirichlet method at the mean logits of its networks, (B, C)."""
    logits = torch.stack([net(x) for net in _predicting(state)]).mean(0)
    if hasattr(method, "log_evidence"):
        evidence: Tensor = method.log_evidence(logits)
        return evidence
    gamma: float = method.gamma(logits)
    return logits - math.log(gamma) if gamma > 0 else logits


def _predicting(state: Any) -> list[MultiHead]:
    """The networks that predict: a teacher where there is one, or else all that learn."""
    if hasattr(state, "teacher"):
        return [state.teacher]
    several: Sequence[Learner] | None = getattr(state, "learners", None)
    return [learner.net for learner in (several if several is not None else (state.learner,))]


@torch.no_grad()
def kind_of_scores(method: Method, state: Any, x: Tensor) -> Scores:
    """Logits if the method's probabilities follow from its evidence alone, as `x` shows."""
    if not is_dirichlet(method):
        return "log-probabilities"
    own = fn.calibrated_softmax(log_evidence(method, state, x), gamma=1.0)
    same = torch.allclose(own, method.predict(state, x).to(own), atol=1e-5)
    return "logits" if same else "log-probabilities"


def scores(method: Method, state: Any, x: Tensor, of: Scores) -> Tensor:
    """The scores of the given kind, (B, C), for network input `x`."""
    if of == "logits":
        return log_evidence(method, state, x)
    return method.predict(state, x).clamp_min(TINY).log()


def vacuity(evidence: Tensor) -> Tensor:
    """C / Σα of the Dirichlet with the logarithmic evidence given, (B,): 1 without evidence."""
    return fn.dirichlet_uncertainty(evidence, gamma=1.0)[0]


def entropy(probs: Tensor) -> Tensor:
    """Entropy of the class probabilities as a share of the largest possible one, (B,)."""
    return -fn.neg_entropy(probs) / math.log(probs.shape[1])
