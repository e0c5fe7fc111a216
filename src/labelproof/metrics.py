"""How good a classifier is, how honest its probabilities are, and how well wrong labels were found.

Plain functions of tensors on any device; each returns a Python float and reduces in double
precision on the CPU. Where a figure is undefined (an AUROC with no wrong label at all) it is NaN.

- Calibration is that of the predicted class (Guo et al., ICML 2017), in bins (lo, hi] of one width.
- Error detection takes `wrong`, true where the given label is wrong, and a `suspicion` that should
  be higher there.

Shapes: C classes, M bins, N examples; probs (N, C), labels (N,), wrong, flagged and suspicion (N,).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from labelproof.errors import BadInput


@dataclass(frozen=True, kw_only=True)
class Reliability:
    """A reliability diagram: figures per bin, NaN where a bin is empty."""

    confidence: tuple[float, ...]  # mean confidence of the examples in the bin
    accuracy: tuple[float, ...]
    count: tuple[int, ...]

    @property
    def centres(self) -> tuple[float, ...]:
        """The middle of each bin."""
        bins = len(self.count)
        return tuple((i + 0.5) / bins for i in range(bins))


@dataclass(frozen=True, kw_only=True)
class BestLast:
    """The three ways to quote a test curve; `best` was chosen on the test set, so it flatters."""

    last: float
    last10: float  # mean of the last ten logged values, of all where there are fewer
    best: float


# Accuracy


def accuracy(probs: Tensor, labels: Tensor) -> float:
    """Share of examples whose largest entry is the label; of equal entries the first counts."""
    return top_k_accuracy(probs, labels, 1)


def top_k_accuracy(probs: Tensor, labels: Tensor, k: int) -> float:
    """Share of examples whose label is among the k largest entries, ties by class index.

    Logits do as well as probabilities. With C <= k the answer is 1.
    """
    probs, labels = _checked(probs, labels)
    own = probs.gather(1, labels[:, None])
    earlier = torch.arange(probs.shape[1]) < labels[:, None]
    ahead = (probs > own) | ((probs == own) & earlier)
    return (ahead.sum(1) < k).double().mean().item()


def best_last(curve: Sequence[float]) -> BestLast:
    """Last value, mean of the last ten and best value of a curve, one value per logged epoch."""
    if not curve:
        raise BadInput("A curve needs at least one logged value; this one is empty.")
    tail = curve[-10:]
    return BestLast(last=curve[-1], last10=math.fsum(tail) / len(tail), best=max(curve))


# Calibration


def ece(probs: Tensor, labels: Tensor, bins: int = 15) -> float:
    """Expected calibration error: mean gap of accuracy and confidence, bins weighted by count."""
    count, hits, mass = _top_label_sums(probs, labels, bins)
    return ((hits - mass).abs().sum() / count.sum()).item()


def mce(probs: Tensor, labels: Tensor, bins: int = 15) -> float:
    """Maximum calibration error: the largest gap of accuracy and confidence in any bin."""
    count, hits, mass = _top_label_sums(probs, labels, bins)
    return ((hits - mass).abs() / count.clamp(min=1)).max().item()


def reliability(probs: Tensor, labels: Tensor, bins: int = 15) -> Reliability:
    """Mean confidence, accuracy and count of each bin of the predicted class's probability."""
    count, hits, mass = _top_label_sums(probs, labels, bins)
    return Reliability(
        confidence=tuple((mass / count).tolist()),
        accuracy=tuple((hits / count).tolist()),
        count=tuple(count.long().tolist()),
    )


def adaptive_ece(probs: Tensor, labels: Tensor, bins: int = 15) -> float:
    """ECE with bins of equal counts (give or take one) instead of equal widths.

    Where a bin ends among examples of equal confidence, each of them counts with the mean accuracy
    of all of them, so that the order of the examples does not matter.
    """
    confidence, hit = _top_label(*_checked_probs(probs, labels))
    group, counts = _tied(confidence)
    hit = (torch.bincount(group, hit) / counts)[group]
    order = confidence.argsort()
    index = torch.arange(len(order)) * _positive(bins) // len(order)
    _, hits, mass = _sums(confidence[order], hit[order], index, bins)
    return ((hits - mass).abs().sum() / len(order)).item()


def classwise_ece(probs: Tensor, labels: Tensor, bins: int = 15) -> float:
    """Mean over classes of the ECE of each class's own probability, all examples in every class."""
    probs, labels = _checked_probs(probs, labels)
    gaps = []
    for k, column in enumerate(probs.T.contiguous()):
        _, hits, mass = _sums(column, labels == k, _equal_width(column, bins), bins)
        gaps.append((hits - mass).abs().sum())
    return (torch.stack(gaps).mean() / len(labels)).item()


def brier(probs: Tensor, labels: Tensor) -> float:
    """Mean squared distance to the one-hot label, summed over classes: 0 to 2."""
    probs, labels = _checked_probs(probs, labels)
    target = torch.zeros_like(probs, dtype=torch.float64).scatter_(1, labels[:, None], 1.0)
    return (probs - target).square().sum(1).mean().item()


def nll(probs: Tensor, labels: Tensor) -> float:
    """Mean of -log p(label), with probabilities no smaller than 1e-12."""
    probs, labels = _checked_probs(probs, labels)
    own = probs.gather(1, labels[:, None]).double()
    return -own.clamp(min=1e-12).log().mean().item()


# Detection of wrong labels


def error_auroc(wrong: Tensor, suspicion: Tensor) -> float:
    """Chance that a wrong label is more suspect than a right one, ties counting one half."""
    wrong, suspicion = _checked_detection(wrong, suspicion)
    positives = int(wrong.sum())
    negatives = len(wrong) - positives
    if positives == 0 or negatives == 0:
        return math.nan
    group, counts = _tied(suspicion)
    ranks = counts.cumsum(0) - (counts - 1) / 2
    rank_sum = ranks[group][wrong].sum().item()
    return (rank_sum - positives * (positives + 1) / 2) / (positives * negatives)


def error_ap(wrong: Tensor, suspicion: Tensor) -> float:
    """Average precision: precision at each distinct suspicion, weighted by the recall it adds.

    A random order scores the share of wrong labels, so quote that beside it.
    """
    wrong, suspicion = _checked_detection(wrong, suspicion)
    if not wrong.any():
        return math.nan
    group, counts = _tied(suspicion)
    found = torch.bincount(group, wrong.double(), minlength=len(counts)).flip(0)
    precision = found.cumsum(0) / counts.flip(0).cumsum(0)
    return ((found * precision).sum() / found.sum()).item()


def precision_at_k(wrong: Tensor, suspicion: Tensor, k: int) -> float:
    """Share of wrong labels among the k most suspect, ties by index; among all where N < k."""
    wrong, suspicion = _checked_detection(wrong, suspicion)
    first = suspicion.argsort(descending=True, stable=True)[: max(k, 0)]
    return wrong[first].double().mean().item()


def detection(wrong: Tensor, flagged: Tensor) -> dict[str, float]:
    """Precision, recall and F1 of a hard split into suspect and trusted labels."""
    wrong, flagged = _checked_detection(wrong.bool(), flagged.bool())
    found = int((wrong & flagged).sum())
    asked, told = int(wrong.sum()), int(flagged.sum())
    return {
        "precision": _ratio(found, told),
        "recall": _ratio(found, asked),
        "f1": _ratio(2 * found, asked + told),
    }


def _ratio(part: int, whole: int) -> float:
    return part / whole if whole else math.nan


def _tied(values: Tensor) -> tuple[Tensor, Tensor]:
    """Rank of each value among the distinct ones, (N,), and how often each occurs, in double."""
    found: tuple[Tensor, ...] = torch.unique(values, return_inverse=True, return_counts=True)
    return found[1], found[2].double()


# Bins


def _top_label(probs: Tensor, labels: Tensor) -> tuple[Tensor, Tensor]:
    """Confidence and correctness (1.0 or 0.0) of the predicted class, both (N,)."""
    confidence, predicted = probs.max(1)
    return confidence, (predicted == labels).double()


def _equal_width(confidence: Tensor, bins: int) -> Tensor:
    """Index of the bin (lo, hi] of each value, (N,); zero belongs to the first."""
    # Edges are rounded to the type of the values, so that 0.2 as float32 lies on the edge 1/5.
    edges = torch.arange(1, _positive(bins), dtype=torch.float64) / bins
    return torch.bucketize(confidence.double(), edges.to(confidence.dtype).double())


def _sums(confidence: Tensor, hit: Tensor, index: Tensor, bins: int) -> tuple[Tensor, ...]:
    """Count, number of hits and sum of confidence in each bin, (M,) each, in double."""
    count = torch.bincount(index, minlength=bins).double()
    hits = torch.bincount(index, hit.double(), minlength=bins)
    return count, hits, torch.bincount(index, confidence.double(), minlength=bins)


def _top_label_sums(probs: Tensor, labels: Tensor, bins: int) -> tuple[Tensor, ...]:
    confidence, hit = _top_label(*_checked_probs(probs, labels))
    return _sums(confidence, hit, _equal_width(confidence, bins), bins)


# Checks at the edge


def _positive(bins: int) -> int:
    if bins < 1:
        raise BadInput(f"The number of bins must be at least 1, but {bins} was given.")
    return bins


def _checked(probs: Tensor, labels: Tensor) -> tuple[Tensor, Tensor]:
    """Both on the CPU, their shapes and the labels' range verified."""
    probs, labels = probs.detach().cpu(), labels.detach().cpu().long()
    if probs.ndim != 2 or labels.shape != probs.shape[:1] or probs.numel() == 0:
        raise BadInput(
            f"Expected probabilities (N, C) and labels (N,) of at least one example, but "
            f"got shapes {tuple(probs.shape)} and {tuple(labels.shape)}."
        )
    if labels.min() < 0 or labels.max() >= probs.shape[1]:
        raise BadInput(
            f"Labels must lie in 0..{probs.shape[1] - 1} for {probs.shape[1]} columns, but they "
            f"range from {labels.min()} to {labels.max()}."
        )
    if probs.isnan().any():
        raise BadInput("The predictions contain NaN; look for a run that diverged.")
    return probs, labels


def _checked_probs(probs: Tensor, labels: Tensor) -> tuple[Tensor, Tensor]:
    """As `_checked`, and the entries must be probabilities."""
    probs, labels = _checked(probs, labels)
    low, high = probs.min().item(), probs.max().item()
    if low < 0 or high > 1 + 1e-3:
        raise BadInput(
            f"Expected probabilities between 0 and 1, but values range from {low:.4g} to "
            f"{high:.4g}; turn logits into probabilities first."
        )
    return probs, labels


def _checked_detection(wrong: Tensor, score: Tensor) -> tuple[Tensor, Tensor]:
    """Both on the CPU, one score per example and none of them NaN."""
    wrong, score = wrong.detach().cpu().bool(), score.detach().cpu()
    if wrong.ndim != 1 or wrong.shape != score.shape or len(wrong) == 0:
        raise BadInput(
            f"Expected two vectors (N,) of at least one example, but got shapes "
            f"{tuple(wrong.shape)} and {tuple(score.shape)}."
        )
    if score.isnan().any():
        raise BadInput("The suspicion contains NaN; every example needs a number.")
    return wrong, score
