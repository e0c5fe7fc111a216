"""The numbers of summary.json; what needs true labels or test data is None without them.

Shapes: C classes, M test examples, N training examples.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from typing import Any

import torch
from torch import Tensor

from labelproof import metrics
from labelproof.data.task import Audit, Task
from labelproof.data.votes import Votes, majority, outvoted
from labelproof.judging.agreement import (
    AnnotatorQuality,
    alpha_interval,
    krippendorff_alpha,
    most_confused,
)
from labelproof.judging.calibration import Calibration
from labelproof.judging.crowd_em import Crowd
from labelproof.judging.joining import of_folds
from labelproof.judging.judgement import shares_of_rows
from labelproof.judging.label_table import LabelTable
from labelproof.judging.trust import doubts
from labelproof.training.loop import Result

TEST: dict[str, Callable[[Tensor, Tensor], float]] = {
    "nll": metrics.nll,
    "brier": metrics.brier,
    "mce": metrics.mce,
    "adaptive_ece": metrics.adaptive_ece,
    "classwise_ece": metrics.classwise_ece,
}
ALONE = (
    "last (after the last epoch), last10 (mean of ten epochs) and best (chosen on the test set) "
    "are of the method's own network"
)
TOGETHER = (
    "last is of the model that predicts: the network with all that predict along with it; last10 "
    "(mean of ten epochs) and best (chosen on the test set) are of the network alone"
)


def summarise(
    raw: Result, sure: Result, table: LabelTable, calibration: Calibration, audit: Audit
) -> dict[str, Any]:
    """All of it, from the result as it was trained, and the same with calibrated probabilities."""
    curve = [line["test_accuracy"] for line in raw.history if "test_accuracy" in line]
    return {
        "accuracy": accuracy_of(curve, sure, calibration, audit),
        "joined": _joined(calibration),
        "accuracy_note": TOGETHER if _together(calibration) else ALONE,
        **on_test(raw, sure, audit),
        **of_labels(table, calibration),
        **against_truth(raw, table, calibration, audit.truth),
        "by_class": of_classes(raw, sure, calibration, audit),
        "calibration": calibration.how,
        "seconds_calibration": round(calibration.seconds, 1),
        "seconds": round(raw.seconds + trial_seconds(raw), 1),
        "chosen": dict(raw.chosen),
    }


def _joined(calibration: Calibration) -> Mapping[str, Any] | None:
    """What predicts, where more than the method alone may."""
    join, folds = calibration.joined, len(calibration.members)
    if join is None and folds:  # where no regression could be fitted
        return {
            "linear_share": 0.0,
            "forest_share": 0.0,
            "fold_networks": folds,
            "why": f"DPC predicts.{of_folds(folds)}",
        }
    return join.describe(folds) if join else None


def _together(calibration: Calibration) -> bool:
    """Whether anything predicts along with the run's own network."""
    return bool(calibration.link.partner or calibration.members)


def accuracy_of(
    curve: Sequence[float], sure: Result, calibration: Calibration, audit: Audit
) -> dict[str, float] | None:
    """Best, last and mean of the last epochs; the last one is that of what predicts in the end."""
    if not curve:
        return None
    found: dict[str, float] = dict(vars(metrics.best_last(list(curve))))
    probs, labels = sure.test_probabilities, audit.test_y
    if _together(calibration) and probs is not None and labels is not None:
        found["last"] = metrics.accuracy(probs, labels)
    return found


def on_test(raw: Result, sure: Result, audit: Audit) -> dict[str, Any]:
    """What test data shows of raw and calibrated probabilities."""
    before, after, labels = raw.test_probabilities, sure.test_probabilities, audit.test_y
    if before is None or after is None or labels is None:
        names = ("ece", "ece_calibrated", "balanced_accuracy", "recall_by_class")
        return {**dict.fromkeys(names), "test": dict.fromkeys(TEST)}
    recall = recalls(after, labels)
    known = [value for value in recall if value is not None]
    return {
        "ece": metrics.ece(before, labels),
        "ece_calibrated": metrics.ece(after, labels),
        "balanced_accuracy": sum(known) / len(known),
        "recall_by_class": dict(zip(raw.task.classes, recall, strict=True)),
        "test": {name: measure(after, labels) for name, measure in TEST.items()},
    }


def recalls(probs: Tensor, labels: Tensor) -> list[float | None]:
    """Share of each class's test examples that are predicted; None where it has none."""
    hit, number = (probs.argmax(1) == labels).double(), probs.shape[1]
    count = labels.bincount(minlength=number).tolist()
    right = labels.bincount(hit, minlength=number).tolist()
    return [r / n if n else None for r, n in zip(right, count, strict=True)]


def of_labels(table: LabelTable, calibration: Calibration) -> dict[str, Any]:
    """What is stated of the given labels."""
    judge, trust = calibration.judgement, calibration.trust
    return {
        "trust": trust.describe(),
        "doubts": doubts(trust) if judge else [],
        "suspects": int(table.suspect.sum()),
        "suspect_precision_estimate": judge.precision if judge else None,
        "suspect_precision_interval": judge.precision_interval if judge else None,
        "precision_curve": [asdict(point) for point in judge.curve] if judge else [],
        "noise_rate_estimate": calibration.noise_rate,
        "noise_rate_interval": judge.noise_interval if judge and trust.level != "none" else None,
    }


def against_truth(
    raw: Result, table: LabelTable, calibration: Calibration, truth: Tensor | None
) -> dict[str, Any]:
    """How well wrong labels are found, by the judge and by the method alone."""
    names = ("error_auroc", "error_ap", "error_auroc_own", "error_ap_own", "suspect_detection")
    if truth is None:
        return dict.fromkeys((*names, "noise_rate_true", "transition_error"))
    wrong = truth != raw.task.y
    return {
        "error_auroc": metrics.error_auroc(wrong, -table.p_clean),
        "error_ap": metrics.error_ap(wrong, -table.p_clean),
        "error_auroc_own": metrics.error_auroc(wrong, -raw.clean),
        "error_ap_own": metrics.error_ap(wrong, -raw.clean),
        "suspect_detection": metrics.detection(wrong, table.suspect),
        "noise_rate_true": wrong.float().mean().item(),
        "transition_error": transition_error(calibration.transition, truth, raw.task.y),
    }


def of_classes(
    raw: Result, sure: Result, calibration: Calibration, audit: Audit
) -> list[dict[str, Any]]:
    """What is stated of each class, with its recall on test data; nothing where none was judged."""
    judge, probs = calibration.judgement, sure.test_probabilities
    if judge is None:
        return []
    unknown: list[float | None] = [None] * raw.task.num_classes
    recall = unknown if probs is None or audit.test_y is None else recalls(probs, audit.test_y)
    named = zip(raw.task.classes, judge.by_class, recall, strict=True)
    return [{"name": name, **asdict(told), "test_recall": hit} for name, told, hit in named]


def transition_error(estimate: Tensor, truth: Tensor, given: Tensor) -> float:
    """Mean total variation between the rows of an estimated and the realised transition matrix."""
    classes = len(estimate)
    counts = torch.bincount(truth * classes + given, minlength=classes**2).double()
    realised = torch.from_numpy(shares_of_rows(counts.view(classes, classes).numpy()))
    return (realised - estimate).abs().sum(1).mean().item() / 2


def trial_seconds(result: Result) -> float:
    """What choosing settings by trials took before the run."""
    return sum(float(choice.get("seconds", 0.0)) for choice in result.chosen.values())


SHOWN = 20  # annotators and confusions listed in the summary


def votes_summary(
    task: Task, crowd: Crowd | None, people: AnnotatorQuality | None, audit: Audit, soft: bool
) -> dict[str, Any]:
    """What summary.json says of annotators; nothing where everybody labelled alone."""
    votes = task.votes
    if votes is None or crowd is None or people is None:
        return {}
    classes = task.num_classes
    interval = alpha_interval(votes, classes)
    return {
        "annotators": {
            "count": len(votes.annotators),
            "votes": int(votes.given.sum()),
            "votes_per_example": votes.given.double().mean().item(),
            "alpha": krippendorff_alpha(votes, classes),
            "alpha_interval": list(interval) if interval else None,
            "worth_of_a_vote": worth(votes, crowd),
            "model_scale": crowd.scale,
            "soft_targets": soft and task.targets is not None,
            "changed": int(outvoted(votes, crowd.consensus, classes).sum()),
            "given_differs": int(outvoted(votes, task.y, classes).sum()),
            "accuracy_majority": _accuracy(majority(votes, classes), audit.truth),
            "accuracy_consensus": _accuracy(crowd.consensus, audit.truth),
            "worst": _worst(votes, people),
            "confused": [
                {**asdict(one), "true": task.classes[one.true], "said": task.classes[one.said]}
                for one in most_confused(votes, crowd, SHOWN)
            ],
        }
    }


def worth(votes: Votes, crowd: Crowd) -> float:
    """What one more vote counts where an example has as many as most, 0 to 1."""
    usual = votes.given.double().mean().item()
    return crowd.knobs.temper / (1 + max(usual - 1, 0.0) * crowd.knobs.correlation)


def _accuracy(labels: Tensor, truth: Tensor | None) -> float | None:
    return None if truth is None else (labels == truth).double().mean().item()


def _worst(votes: Votes, found: AnnotatorQuality) -> list[dict[str, Any]]:
    """The annotators who are right least often, by the upper end of their interval."""
    order = found.quality if found.high.isnan().any() else found.high
    return [
        {
            "annotator": votes.annotators[who],
            "labels": int(found.labels[who]),
            "quality": found.quality[who].item(),
            "low": _stated(found.low[who]),
            "high": _stated(found.high[who]),
            "agreement": found.agreement[who].item(),
        }
        for who in order.argsort()[:SHOWN].tolist()
    ]


def _stated(end: Tensor) -> float | None:
    """The end of an interval; None where none is stated."""
    return None if end.isnan() else end.item()
