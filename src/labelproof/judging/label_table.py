"""What a result says: one row per label, and the numbers of summary.json."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from labelproof import functional as fn
from labelproof import metrics
from labelproof.data.task import Audit
from labelproof.training.loop import Result

Codes = npt.NDArray[np.int64]
Numbers = npt.NDArray[np.float64]


@dataclass(frozen=True, kw_only=True)
class LabelRows:
    """The label table in the order of labels.csv: the most suspicious label first."""

    index: Codes  # (N,) number of the training example
    ids: tuple[str, ...]
    given: Codes  # (N,) class
    suggested: Codes  # (N,) class
    p_clean: Numbers
    p_suggested: Numbers
    margin: Numbers
    suspect: npt.NDArray[np.bool_]

    def __len__(self) -> int:
        return len(self.index)

    def labels(self) -> Codes:
        """Given labels in the order of the training examples, (N,)."""
        labels = np.empty_like(self.given)
        labels[self.index] = self.given
        return labels

    def suspects(self) -> Codes:
        """Rows of the suspects, worst first."""
        return np.flatnonzero(self.suspect)


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

    def rows(self, ids: Sequence[str] | None = None) -> LabelRows:
        """The table as people read it, the most suspicious label first.

        Args:
            ids: a name for each training example; its number where None.
        """
        order = self.worst_first().numpy()
        names = map(str, order) if ids is None else (ids[i] for i in order.tolist())
        return LabelRows(
            index=order.astype(np.int64),
            ids=tuple(names),
            given=self.given.numpy()[order],
            suggested=self.suggested.numpy()[order],
            p_clean=self.p_clean.numpy()[order].astype(np.float64),
            p_suggested=self.p_suggested.numpy()[order].astype(np.float64),
            margin=self.margin.numpy()[order].astype(np.float64),
            suspect=self.suspect.numpy()[order],
        )


def label_table(
    result: Result, threshold: float = 0.5, posterior: Tensor | None = None
) -> LabelTable:
    """What the trained model says of every given label; suspects lie below the threshold.

    A label more likely wrong than right gets the likeliest other class as a suggestion, also where
    a network has learnt the label by heart.

    Args:
        result: the run, with calibrated probabilities.
        threshold: of the clean probability.
        posterior: (N, C) probability of each true class where more than the model is known, such
            as several annotators' votes.
    """
    probs, given = result.probabilities, result.task.y
    judged = knowing_label(probs, given, result.clean) if posterior is None else posterior.float()
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
