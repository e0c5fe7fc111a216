"""The link between what networks put out and probabilities to rely on: one scale on the scores.

A score is a logit where a method's probabilities follow from the mean logits of its networks, as
DPC's do, and the logarithm of a probability elsewhere. The constant γ that DPC adds to every
exponential keeps training stable and leaves probabilities far too flat; the link leaves it out.

Shapes: B batch, C classes.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Literal

from torch import Tensor

from labelproof.errors import BadInput

Scores = Literal["logits", "log-probabilities"]
TINY = 1e-12  # probabilities below this count as this, so that their logarithm exists


@dataclass(frozen=True, kw_only=True)
class Link:
    """softmax(scale * scores): the order of the classes, and so the accuracy, stays as it was."""

    of: Scores = "log-probabilities"
    scale: float = 1.0  # one over the temperature

    def __post_init__(self) -> None:
        if self.of not in ("logits", "log-probabilities"):
            raise BadInput(f"a link is of logits or log-probabilities, not of {self.of!r}.")
        if not 0 < self.scale < math.inf:
            raise BadInput(f"a link needs a scale above 0, not {self.scale}.")

    def __call__(self, scores: Tensor) -> Tensor:
        """Calibrated probabilities, (B, C)."""
        return (self.scale * scores).softmax(-1)

    def describe(self) -> dict[str, Any]:
        """The link as plain values, for JSON."""
        return asdict(self)

    @staticmethod
    def revive(record: Mapping[str, Any]) -> Link:
        """The link that `describe` described."""
        return Link(of=record["of"], scale=float(record["scale"]))
