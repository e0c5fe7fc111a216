"""The choice between cross-entropy with softmax and L_edl of DPC with its calibrated softmax.

Methods of other authors can be trained with DPC's loss too. They hold one of these and take both
the loss and the probabilities from it, so that the two always belong together.

Shapes: B batch, C classes.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

from torch import Tensor

from labelproof.functional.losses import (
    calibrated_log_softmax,
    calibrated_softmax,
    edl_kl,
    edl_loss,
    soft_edl_loss,
)


@dataclass(frozen=True)
class Objective:
    """A loss and the probabilities that belong to it; `gamma_c` and `beta` are those of L_edl."""

    loss: Literal["ce", "edl"]
    gamma_c: float  # γ C
    beta: float  # β, weight of L_kl

    def gamma(self, logits: Tensor) -> float:
        """γ from γ C; 0 is the plain softmax."""
        return self.gamma_c / logits.shape[1] if self.loss == "edl" else 0.0

    def probability(self, logits: Tensor) -> Tensor:
        """Softmax, or the calibrated softmax ρ̂ (eq. 1), (B, C)."""
        return calibrated_softmax(logits, self.gamma(logits))

    def log_probability(self, logits: Tensor) -> Tensor:
        """Its logarithm, (B, C)."""
        return calibrated_log_softmax(logits, self.gamma(logits))

    def of_labels(self, logits: Tensor, labels: Tensor) -> Tensor:
        """Cross-entropy, or L_edl = L_nll + β L_kl (eq. 4 and 5), of hard labels, (B,)."""
        return edl_loss(logits, labels, self.gamma(logits), self._beta)

    def of_targets(self, logits: Tensor, targets: Tensor) -> Tensor:
        """The same of soft targets: the expectation over labels drawn from them, (B,)."""
        return soft_edl_loss(logits, targets, self.gamma(logits), self._beta)

    def divergence(self, logits: Tensor, labels: Tensor) -> Tensor | None:
        """β L_kl alone (eq. 5), (B,); None where there is no such term."""
        if not self._beta:
            return None
        return self._beta / logits.shape[1] * edl_kl(logits, labels, self.gamma(logits))

    def log_evidence(self, logits: Tensor) -> Tensor | None:
        """ln(α - 1) of the Dirichlet, (B, C); None where softmax is trained."""
        if self.loss == "ce":
            return None
        gamma = self.gamma(logits)
        return logits - math.log(gamma) if gamma > 0 else logits

    @property
    def _beta(self) -> float:
        return self.beta if self.loss == "edl" else 0.0
