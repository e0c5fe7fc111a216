"""Which labels to call suspects, so that the precision that is stated holds, and what was found.

Shapes: C classes, N training examples.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from labelproof import metrics
from labelproof.data.task import Audit
from labelproof.judging.calibration import Calibration, transition_matrix
from labelproof.judging.label_table import LabelTable, label_table
from labelproof.training.loop import Result

PRECISION = 0.8  # share of suspects that are really wrong, at the least, by our own estimate


def suspect_threshold(clean: Tensor, precision: float = PRECISION) -> float:
    """The clean probability below which a label is a suspect.

    The estimated precision of a list of suspects is the mean of 1 - `clean` over it. The threshold
    is the largest one, up to 0.5, at which it is no less than asked for.

    Args:
        clean: (N,) probability that each label is right.
        precision: what to aim at.
    """
    values = clean[clean < 0.5].double().sort().values
    counts = torch.arange(1, len(values) + 1)
    kept = ((1 - values).cumsum(0) >= precision * counts).sum().item()
    if kept == len(values):
        return 0.5
    return values[int(kept)].item()  # the first that would spoil it stays out


def suspect_table(
    judged: Result, precision: float = PRECISION, posterior: Tensor | None = None
) -> LabelTable:
    """The table of labels of a calibrated result, with suspects at the precision asked for."""
    return label_table(judged, suspect_threshold(judged.clean, precision), posterior)


def found(
    raw: Result, judged: Result, table: LabelTable, calibration: Calibration, audit: Audit
) -> dict[str, Any]:
    """What summary.json says of calibration and noise; None where truth or test is unknown."""
    told = table.p_clean[table.suspect]
    return {
        "ece": _ece(raw.test_probabilities, audit.test_y),
        "ece_calibrated": _ece(judged.test_probabilities, audit.test_y),
        "calibration": calibration.how,
        "calibration_seconds": round(calibration.seconds, 3),
        "suspect_precision_estimate": (1 - told).mean().item() if len(told) else None,
        **found_alone(raw, audit.truth),
        "noise_rate_estimate": calibration.noise_rate,
        "transition_error": transition_error(calibration.transition, audit.truth, raw.task.y),
    }


def found_alone(raw: Result, truth: Tensor | None) -> dict[str, float | None]:
    """How well the method finds wrong labels by itself, before calibration joins in."""
    if truth is None:
        return {"error_auroc_own": None, "error_ap_own": None}
    wrong = truth != raw.task.y
    return {
        "error_auroc_own": metrics.error_auroc(wrong, -raw.clean),
        "error_ap_own": metrics.error_ap(wrong, -raw.clean),
    }


def transition_error(estimate: Tensor, truth: Tensor | None, given: Tensor) -> float | None:
    """Mean total variation between the rows of an estimated and the realised transition matrix."""
    if truth is None:
        return None
    sure = torch.nn.functional.one_hot(truth, len(estimate)).double()
    realised = transition_matrix(sure, given)
    return (realised - estimate).abs().sum(1).mean().item() / 2


def _ece(probs: Tensor | None, labels: Tensor | None) -> float | None:
    return None if probs is None or labels is None else metrics.ece(probs, labels)
