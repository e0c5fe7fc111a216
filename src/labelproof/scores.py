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
from labelproof.engine.learner import Learner
from labelproof.engine.method import Method
from labelproof.link import TINY, Scores


def is_dirichlet(method: Method) -> bool:
    """Whether the method is trained as a Dirichlet, so that evidence and vacuity mean something."""
    return getattr(method, "loss", None) == "edl" and hasattr(method, "gamma")


def mean_logits(state: Any, x: Tensor) -> Tensor:
    """Mean of the logits of all networks that were trained, (B, C), for network input `x`."""
    several: Sequence[Learner] | None = getattr(state, "learners", None)
    learners = several if several is not None else (state.learner,)
    return torch.stack([learner.net(x) for learner in learners]).mean(0)


@torch.no_grad()
def kind_of_scores(method: Any, state: Any, x: Tensor) -> Scores:
    """Logits if the method's probabilities are the calibrated softmax of them, as `x` shows."""
    if not is_dirichlet(method):
        return "log-probabilities"
    logits = mean_logits(state, x)
    own = fn.calibrated_softmax(logits, method.gamma(logits))
    same = torch.allclose(own, method.predict(state, x), atol=1e-5)
    return "logits" if same else "log-probabilities"


def scores(method: Method, state: Any, x: Tensor, of: Scores) -> Tensor:
    """The scores of the given kind, (B, C), for network input `x`."""
    if of == "logits":
        return mean_logits(state, x)
    return method.predict(state, x).clamp_min(TINY).log()


def vacuity(method: Any, logits: Tensor) -> Tensor:
    """C / Σα of the Dirichlet that the mean logits make, (B,): 1 without any evidence."""
    return fn.dirichlet_uncertainty(logits, method.gamma(logits))[0]


def entropy(probs: Tensor) -> Tensor:
    """Entropy of the class probabilities as a share of the largest possible one, (B,)."""
    return -fn.neg_entropy(probs) / math.log(probs.shape[1])
