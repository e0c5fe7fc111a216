"""Samples of "this label is wrong", joined with the method's own score and what review found.

Shapes: N examples, S samples.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from scipy.special import ndtri

from labelproof.judging.numbers import Bools, Floats, logit, mean_ranks, sigmoid

TEMPER, SURER = 0.82, 0.92  # slopes on the logit of p(wrong): a model is a little too sure,
MORE_ERRORS = 0.8  # and less so with fewer errors of the model per wrong label than this
SILENT = 0.5  # slope below which the method's own score does not count
FEWEST_REVIEWED = 10  # reviewed labels from which they correct p(wrong)
FEWEST = 20  # labels from which the method's own score is compared with p(wrong)


def own_evidence(own_clean: Floats, wrong: Floats) -> tuple[Floats, float]:
    """Log-likelihood ratio for "wrong" (N,) from the method's own score, and the weight it gets.

    A logistic curve of the score's normal ranks is fitted to p(wrong); its slope says how far the
    two agree. Below SILENT the score is left out; one above that, it counts fully.
    """
    if len(own_clean) <= FEWEST:
        return np.zeros(len(own_clean)), 0.0
    ranks = -ndtri((mean_ranks(own_clean) - 0.5) / len(own_clean))
    base = float(logit(np.asarray([wrong.mean()]))[0])

    def loss(p: Floats) -> float:
        z = p[0] * ranks + p[1]
        fit = np.logaddexp(0, z) - wrong * z
        return float(fit.mean() + 0.5 / len(ranks) * p[0] ** 2)

    slope, offset = lowest(loss, 0.0, base)
    weight = float(np.clip(slope - SILENT, 0, 1))
    return weight * (slope * ranks + offset - base), weight


def reviewed_curve(z: Floats, outcome: Bools, usual: float) -> tuple[float, float]:
    """Slope and offset on logits of p(wrong), from what reviewers found of the labels they saw.

    Reviewed labels were chosen by their scores, so they say how often a label *with such a score*
    is wrong; that is all that enters here. Priors: slope near the `usual` one, offset wide.
    """

    def loss(p: Floats) -> float:
        fitted = p[0] * z + p[1]
        data = np.logaddexp(0, fitted) - outcome * fitted
        return float(data.sum() + 0.5 * ((p[0] - usual) / 0.15) ** 2 + 0.5 * (p[1] / 2.0) ** 2)

    slope, offset = lowest(loss, usual, 0.0)
    return float(max(slope, 0.2)), float(offset)


def lowest(loss: Callable[[Floats], float], *start: float) -> Floats:
    """Where a smooth loss is lowest, near the start."""
    from scipy.optimize import minimize  # slow to import

    found: Floats = minimize(loss, start).x
    return found


def shifted_to(z: Floats, mean: float) -> Floats:
    """sigmoid(z + c), with the constant c that makes its mean as given."""
    from scipy.optimize import brentq  # slow to import

    def off(c: float) -> float:
        return float(sigmoid(z + c).mean()) - mean

    if off(-8.0) >= 0 or off(8.0) <= 0:  # no constant does it
        return sigmoid(z)
    return sigmoid(z + brentq(off, -8.0, 8.0, xtol=1e-4))


def final_draws(
    draws: Floats, evidence: Floats, own_weight: float, outcome: Floats, error: float = 1.0
) -> Floats:
    """Samples (S, N) of p(wrong): own evidence joined in, gentler, and corrected by review.

    Args:
        draws: (S, N) by the noise model, as if nothing were reviewed.
        evidence: (N,) of the method's own score.
        own_weight: what the evidence counts; it repeats in part what the draws know already.
        outcome: (N,) 1 where review found the label wrong, 0 where right, NaN where not reviewed.
        error: how often the model is expected to be wrong.
    """
    free = np.isnan(outcome)
    out = np.zeros_like(draws)  # what is reviewed is settled
    if not free.any():
        return out
    mean = float(draws[:, free].mean())
    said, slope, offset = logit(draws), TEMPER if error > MORE_ERRORS * mean else SURER, 0.0
    if (~free).sum() >= FEWEST_REVIEWED:
        # by the model alone: the method's own score was told that a reviewed label is right
        slope, offset = reviewed_curve(said[:, ~free].mean(0), outcome[~free] > 0.5, slope)
        mean = float(sigmoid(slope * said[:, free] + offset).mean())
    joined = (said[:, free] + evidence[free]) / (1 + own_weight / 2)
    out[:, free] = shifted_to(slope * joined, mean)
    return out
