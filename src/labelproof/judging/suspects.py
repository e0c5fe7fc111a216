"""Which labels are called suspects: by default those more likely wrong than right.

Shapes: N examples.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from labelproof.errors import BadInput
from labelproof.judging.numbers import Bools, Floats


@dataclass(frozen=True, kw_only=True)
class Rule:
    """What the user asks of the list of suspects; nothing asked is the usual rule."""

    precision: float | None = None  # expected share of wrong labels among them, at the least
    budget: int | None = None  # how many labels, at the most; filled up with the likeliest

    def __post_init__(self) -> None:
        if self.precision is not None and not 0 < self.precision <= 1:
            raise BadInput(
                f"expected a precision above 0 and up to 1, but it is {self.precision:g}; "
                "name one such as --precision 0.8."
            )
        if self.budget is not None and self.budget < 1:
            raise BadInput(
                f"expected a review budget of one label or more, but it is {self.budget}; "
                "name one such as --review-budget 500."
            )


def likelier_wrong(wrong: Floats, free: Bools) -> Bools:
    """The usual suspects (N,): labels more likely wrong than right; one half is not enough."""
    out: Bools = (wrong > 0.5) & free
    return out


def chosen_by(rule: Rule, wrong: Floats, free: Bools, usual: Bools) -> Bools:
    """The suspects (N,) among `free` labels that the rule asks for, or the usual ones."""
    if rule.precision is None and rule.budget is None:
        return usual
    order = np.argsort(-np.where(free, wrong, -1), kind="stable")[: int(free.sum())]
    if rule.precision is not None:
        order = order[: precise(wrong[order], rule.precision)]
    chosen = np.zeros(len(wrong), dtype=bool)
    chosen[order[: rule.budget]] = True
    return chosen


def precise(wrong: Floats, precision: float) -> int:
    """How many labels, the likeliest to be wrong first, have the precision asked for on average."""
    counts = np.arange(1, len(wrong) + 1)
    return int((wrong.cumsum() >= precision * counts - 1e-12).sum())
