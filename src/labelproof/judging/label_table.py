"""What a result says: one row per label, and the numbers of summary.json."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from labelproof import functional as fn
from labelproof import metrics
from labelproof.data.task import Audit
from labelproof.training.loop import Result

COLUMNS = (
    "index",
    "id",
    "given",
    "suggested",
    "p_clean",
    "p_suggested",
    "margin",
    "suspect",
)


@dataclass(frozen=True, kw_only=True)
class LabelTable:
    """Every given label with what the model thinks of it; row i is training example i."""

    given: Tensor  # (N,) class
    suggested: Tensor  # (N,) the given class, or the likeliest other one where it is doubted
    p_clean: Tensor  # (N,) probability that the given label is right
    p_suggested: Tensor  # (N,) probability of the suggested class
    margin: Tensor  # (N,) log-probability of the given class minus that of the best other one
    suspect: Tensor  # (N,) bool: so likely wrong that a list of them is as precise as stated

    def worst_first(self) -> Tensor:
        """Indices from the most to the least suspicious; the margin decides between equals."""
        order = np.lexsort((self.margin.numpy(), self.p_clean.numpy()))
        return torch.from_numpy(order)


def label_table(result: Result, threshold: float = 0.5) -> LabelTable:
    """What the trained model says of every given label; suspects lie below the threshold.

    A label more likely wrong than right gets the likeliest other class as a suggestion, also where
    a network has learnt the label by heart.
    """
    probs, given = result.probabilities, result.task.y
    judged = knowing_label(probs, given, result.clean)
    best_other = judged.scatter(1, given[:, None], -1.0).argmax(1)
    suggested = torch.where(result.clean < 0.5, best_other, given)
    return LabelTable(
        given=given,
        suggested=suggested,
        p_clean=result.clean,
        p_suggested=judged.gather(1, suggested[:, None]).squeeze(1),
        margin=fn.label_margin(probs.clamp_min(1e-12).log(), given),
        suspect=result.clean < min(threshold, 0.5),
    )


def knowing_label(probs: Tensor, given: Tensor, clean: Tensor) -> Tensor:
    """Probabilities (N, C) in which the given label has `clean` (N,), the others share the rest."""
    label = given[:, None]
    others = probs.clamp_min(1e-30).scatter(1, label, 0.0)  # equal shares where all are 0
    rest = (1 - clean)[:, None] / others.sum(1, keepdim=True)
    return (others * rest).scatter(1, label, clean[:, None])


def doubts(table: LabelTable, predicted: Tensor, num_classes: int) -> list[str]:
    """Reasons not to act on the table: signs that the network has learnt too little to judge.

    Args:
        table: what is said of the labels.
        predicted: (N,) classes that the network alone would give.
        num_classes: how many there are.
    """
    agree = (predicted == table.given).float().mean().item()
    largest = table.given.bincount(minlength=num_classes).max().item() / len(table.given)
    same = predicted.bincount(minlength=num_classes).max().item() / len(table.given)
    if agree < 1.5 / num_classes or (same > 0.95 and largest < 0.8):
        return [
            "The network learnt next to nothing (its answers hardly depend on the input): do not "
            "trust this list; train longer, or with a smaller learning rate (--set lr=...)."
        ]
    if table.suspect.float().mean() > 0.5:
        return [
            "More than half of the labels look wrong: the network may have learnt too little to "
            "judge; train longer (--epochs) or look at the curves before you act on it."
        ]
    return []


def labels_csv(table: LabelTable, classes: Sequence[str], ids: Sequence[str] | None) -> str:
    """The table as CSV text, worst labels first."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(COLUMNS)
    given, suggested = table.given.tolist(), table.suggested.tolist()
    clean, sure = table.p_clean.tolist(), table.p_suggested.tolist()
    margin, suspect = table.margin.tolist(), table.suspect.int().tolist()
    for i in table.worst_first().tolist():
        name = ids[i] if ids is not None else str(i)
        numbers = (f"{clean[i]:.6f}", f"{sure[i]:.6f}", f"{margin[i]:.6f}")
        writer.writerow((i, name, classes[given[i]], classes[suggested[i]], *numbers, suspect[i]))
    return out.getvalue()


def summarise(result: Result, predicted: Tensor, table: LabelTable, audit: Audit) -> dict[str, Any]:
    """The numbers of summary.json; what needs truth or test data is None without them."""
    curve = [line["test_accuracy"] for line in result.history if "test_accuracy" in line]
    best_last = metrics.best_last(curve) if curve else None
    wrong = None if audit.truth is None else audit.truth != result.task.y
    test = result.test_probabilities
    known = test is not None and audit.test_y is not None
    return {
        "accuracy": best_last and vars(best_last),
        "accuracy_note": "best is chosen on the test set; last10 is the mean of ten epochs",
        "ece": metrics.ece(test, audit.test_y) if known else None,  # type: ignore[arg-type]
        "error_auroc": None if wrong is None else metrics.error_auroc(wrong, -table.p_clean),
        "error_ap": None if wrong is None else metrics.error_ap(wrong, -table.p_clean),
        "doubts": doubts(table, predicted, result.task.num_classes),
        "suspects": int(table.suspect.sum()),
        "suspect_detection": None if wrong is None else metrics.detection(wrong, table.suspect),
        "noise_rate_estimate": 1 - table.p_clean.mean().item(),
        "noise_rate_true": None if wrong is None else wrong.float().mean().item(),
        "seconds": round(result.seconds + trial_seconds(result), 1),
    }


def trial_seconds(result: Result) -> float:
    """What choosing settings by trials took before the run."""
    return sum(float(choice.get("seconds", 0.0)) for choice in result.chosen.values())
