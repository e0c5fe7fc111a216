"""Scores that tell clean labels from wrong ones, and the split of a set by its scores.

The large-margin criterion of DPC: the margin of the given label, two Gaussians fitted to the
margins of the whole set, and the posterior of the upper one as the probability that a label is
clean. The fit is deterministic: it starts from the best split into two clusters, not a random one.

Shapes: B batch, C classes, N training examples.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import torch
from torch import Tensor

from labelproof.errors import BadInput
from labelproof.functional.dirichlet import at_best_double, at_least_single

MAX_ITERATIONS = 10
TOLERANCE = 1e-2  # on the mean log-likelihood
EXTRA_VARIANCE = 5e-4  # of values normalised to [0, 1]
EXACT_UP_TO = 20_000  # more values than this are fitted through a histogram
LEAST_KEPT = 0.5  # a mirrored split that keeps less than this share is not to be trusted
RARE = 5.0  # a class is rare where the largest one has more than so many times its labels
BINS = 4096  # a bin is then 1/90 of the least standard deviation
BLOCK = 1 << 18  # values at a time that stay in the processor's cache


def label_margin(logits: Tensor, labels: Tensor) -> Tensor:
    """Margin of the given label over the best other class, o_y - max_{j≠y} o_j.

    Args:
        logits: (B, C).
        labels: (B,) int64 class ids.

    Returns:
        (B,), above 0 exactly where the given label is the predicted one.
    """
    logits = at_least_single(logits)
    index = labels.unsqueeze(-1)
    given = logits.gather(-1, index).squeeze(-1)
    return given - logits.scatter(-1, index, -math.inf).amax(-1)


def of_label(values: Tensor, labels: Tensor) -> Tensor:
    """The entry of each row's label, (B,), of (B, C) values such as probabilities."""
    return values.gather(1, labels[:, None]).squeeze(1)


def confident(log_probs: Tensor, labels: Tensor, fewest: int = 4) -> Tensor:
    """How surely each label is right by confident learning's rule (Northcutt et al. 2021), (N,).

    A class counts for an example where its probability reaches the mean that it has among the
    examples labelled so. A label is kept (above 0.5) where no class counts, where the likeliest
    that counts is its own, or where its class has fewer than `fewest` labels. Thresholds by class
    keep rare and hard classes from being thrown out whole. Kept and dropped labels are each in the
    order of their margin in units of the thresholds.

    Args:
        log_probs: (N, C), best by models that have not seen the labels.
        labels: (N,).
        fewest: labels of a class below which all of them are kept.
    """
    classes = log_probs.shape[1]
    probs, count = log_probs.double().exp(), torch.bincount(labels, minlength=classes)
    total = probs.new_zeros(classes).index_add_(0, labels, of_label(probs, labels))
    level = torch.where(count > 0, total / count.clamp_min(1), 1.0).clamp_min(1e-6)
    counting = torch.where(probs >= level, probs, 0.0)
    kept = (counting.amax(1) == 0) | (counting.argmax(1) == labels) | (count[labels] < fewest)
    margin = label_margin(log_probs.double() - level.log(), labels)
    return ((margin.sigmoid() + kept) / 2).float()


def label_shares(labels: Tensor, classes: int) -> Tensor:
    """Share of each class in the labels, (C,), with half a label more of each: none is 0."""
    counts = torch.bincount(labels, minlength=classes) + 0.5
    return counts / counts.sum()


def repeated(index: Tensor, labels: Tensor, balance: float, rng: torch.Generator) -> Tensor:
    """The examples `index` (n,), those of rare classes several times, (m,).

    An example of a class with count n_c comes (max n / n_c)^balance times, rounded at random, where
    that class is rare: `RARE` times less frequent than the largest one. All others come once.

    Args:
        index: (n,) examples.
        labels: (n,) their classes.
        balance: 0 repeats nothing, 1 makes all classes equally frequent.
        rng: of the rounding.
    """
    if not balance or not len(index):
        return index
    labels = labels.cpu()
    counts = torch.bincount(labels).double()
    ratio = counts.max() / counts.clamp_min(1)
    times = torch.where(ratio > RARE, ratio.pow(balance), 1.0)[labels]
    whole = (times + torch.rand(len(times), generator=rng, dtype=torch.float64)).floor().long()
    return index.cpu().repeat_interleave(whole)


@dataclass(frozen=True, kw_only=True)
class TwoGaussians:
    """A mixture of two Gaussians, in the units of the values; the second has the larger mean."""

    means: tuple[float, float]
    stds: tuple[float, float]
    weights: tuple[float, float]

    def posterior(self, values: Tensor) -> Tensor:
        """Probability of each value to be of the component with the larger mean.

        It is not monotone when the spreads differ: far enough out, on either side, the wider
        component takes over. It is 1 everywhere when the fitted values were all the same.

        Args:
            values: (N,) in the units of the fitted values.

        Returns:
            (N,) in [0, 1], of the same type and on the same device as `values`.
        """
        if self.weights[0] == 0:
            return torch.ones_like(at_least_single(values))
        return _in_blocks(self._posterior, values)

    def _posterior(self, x: Tensor) -> Tensor:
        lower, upper = (
            math.log(weight / std) - 0.5 * ((x - mean) / std) ** 2
            for mean, std, weight in zip(self.means, self.stds, self.weights, strict=True)
        )
        return torch.sigmoid(upper - lower)


def two_gaussians(values: Tensor) -> Tensor:
    """Posterior of the upper of two Gaussians fitted to `values`.

    Args:
        values: (N,) finite scores, higher for cleaner labels.

    Returns:
        (N,) in [0, 1]; all 1 when the values are all the same, since nothing then speaks against
        any of them. Not monotone when the two spreads differ, see `TwoGaussians.posterior`.

    Raises:
        BadInput: if there is no value, or one is NaN or infinite.
    """
    return fit_two_gaussians(values).posterior(values)


def fit_two_gaussians(values: Tensor) -> TwoGaussians:
    """Fit two Gaussians to scalar values by expectation-maximisation, the same way every time.

    The settings are those of DPC: values normalised to [0, 1], at most 10 iterations, an end when
    the mean log-likelihood changes by less than 0.01, and 5e-4 added to each variance. More than
    20,000 values are fitted through a histogram of 4096 bins, each at the mean of its values. A bin
    is at most 1/90 of a standard deviation wide. Posteriors are within 1e-3 of the exact fit's.

    Args:
        values: (N,) finite values.

    Returns:
        The mixture in the units of `values`. Values that are all the same give an upper component
        of weight 1 and no spread.

    Raises:
        BadInput: if there is no value, or one is NaN or infinite.
    """
    low, high = _range(values)
    if low == high:
        return TwoGaussians(means=(low, low), stds=(0.0, 0.0), weights=(0.0, 1.0))
    points, counts = _points(values.detach().cpu(), low, high)
    weights, means, variances = _expectation_maximisation(points, counts)
    order = means.argsort(stable=True)
    return TwoGaussians(
        means=_pair(low + (high - low) * means[order]),
        stds=_pair((high - low) * variances[order].sqrt()),
        weights=_pair(weights[order]),
    )


def mirrored_gaussians(margins: Tensor, steps: int = 100) -> Tensor:
    """Clean probability from margins when right and wrong labels mirror each other at zero, (N,).

    A right label has the margin m ~ N(μ, σ²) of the network's own certainty. Under a wrong label
    the same certainty speaks for another class, so its margin is spread like -m. EM finds μ, σ and
    the share η of wrong labels; the posterior is logistic in the margin, hence monotone. Unlike two
    free Gaussians, this finds next to nothing wrong where all labels are right.

    Args:
        margins: (N,) given label's logit minus the largest other one.
        steps: of expectation and maximisation.
    """
    largest = max(map(abs, _range(margins))) or 1e-300  # the scale does not matter
    held = margins.detach().cpu()
    if len(held) <= EXACT_UP_TO:
        m = held.double() / largest
        counts = torch.ones_like(m)
    else:
        points, counts = _points(held, -largest, largest)
        m = 2 * points - 1
    logit = _mirrored(m, counts, steps)
    return _in_blocks(lambda x: torch.sigmoid(logit(x / largest)), margins)


def _mirrored(m: Tensor, counts: Tensor, steps: int) -> Callable[[Tensor], Tensor]:
    """The clean logit of a margin, by mirrored Gaussians fitted to weighted points."""
    total = counts.sum()

    def mean_of(values: Tensor) -> Tensor:
        return (counts * values).sum() / total

    second = mean_of(m.square())
    wrong = (m < 0).to(m.dtype)  # start: wrong where the network disagrees
    before = torch.full_like(m, torch.inf)
    for _ in range(steps):
        share = mean_of(wrong).clamp(1e-6, 1 - 1e-6)
        mean = mean_of((1 - 2 * wrong) * m).clamp_min(0)  # a right label is the likelier one
        spread = (second - mean.square()).clamp_min(1e-6 * second.clamp_min(1e-12))
        logit = partial(_mirrored_logit, mean, spread, torch.log((1 - share) / share))
        wrong = torch.sigmoid(-logit(m))
        if (wrong - before).abs().max() < 1e-6:
            break
        before = wrong
    return logit


def _mirrored_logit(mean: Tensor, spread: Tensor, offset: Tensor, m: Tensor) -> Tensor:
    return 2 * mean * m / spread + offset


def mirrored_or_free(margins: Tensor, threshold: float) -> Tensor:
    """Clean probability by mirrored Gaussians, (N,), or by two free ones where that keeps too few.

    A network that is right in fewer than half of its predictions gives even right labels negative
    margins. The mirrored split then keeps few, the network learns from few, and the next split
    keeps fewer still.

    Args:
        margins: (N,) given label's logit minus the largest other one.
        threshold: labels with a higher probability are kept.
    """
    mirrored = mirrored_gaussians(margins)
    enough = at_best_double(mirrored > threshold).mean() >= LEAST_KEPT
    return mirrored if enough else two_gaussians(margins)


def gaussians_or_scaled(scores: Tensor, max_kurtosis: float) -> Tensor:
    """Clean probability by two Gaussians, (N,), or the scaled scores where kurtosis is higher.

    The rule of DPC's appendix. Scores of one group with a few far outliers have a high excess
    kurtosis, and two Gaussians would not find the wrong labels among them.
    """
    few_outliers = excess_kurtosis(scores) <= max_kurtosis
    return two_gaussians(scores) if few_outliers else min_max(scores)


def excess_kurtosis(values: Tensor) -> float:
    """Fisher's kurtosis m4 / m2² - 3 of (N,) values, biased form; 0 when they are all the same.

    Two well separated modes with minority share p give 1 / (p (1 - p)) - 6, a single normal mode 0.
    """
    x = min_max(_finite(values))
    square = (x - x.mean()) ** 2
    spread = square.mean().item()
    return (square**2).mean().item() / spread**2 - 3 if spread > 0 else 0.0


def min_max(values: Tensor) -> Tensor:
    """(N,) values moved and scaled to [0, 1]; all 1 when they are all the same."""
    x = _finite(values)
    low, high = x.min(), x.max()
    scaled = (x - low) / (high - low) if high > low else torch.ones_like(x)
    return scaled.to(at_least_single(values))


def _finite(values: Tensor) -> Tensor:
    """The values as a CPU double tensor without gradient, or a refusal."""
    if values.ndim != 1 or len(values) == 0:
        shape = tuple(values.shape)
        raise BadInput(f"Expected one score per example, shape (N,) with N >= 1, not {shape}.")
    x = values.detach().cpu().double()
    bad = (~x.isfinite()).nonzero().squeeze(-1)
    if len(bad):
        raise BadInput(
            f"{len(bad)} of {len(x)} scores are NaN or infinite, the first at index {int(bad[0])}; "
            "the network may have diverged, so try a lower learning rate or check its inputs."
        )
    return x


def _range(values: Tensor) -> tuple[float, float]:
    """Smallest and largest value; refuses what is not finite, which the two always show."""
    if values.ndim == 1 and len(values):
        low, high = (bound.item() for bound in torch.aminmax(values.detach()))
        if math.isfinite(low) and math.isfinite(high):
            return low, high
    x = _finite(values)  # says what is wrong
    return x.min().item(), x.max().item()


def _pair(values: Tensor) -> tuple[float, float]:
    first, second = values.tolist()
    return first, second


def _points(values: Tensor, low: float, high: float) -> tuple[Tensor, Tensor]:
    """Sorted points in [0, 1] and their counts: the values themselves, or means of fine bins."""
    if len(values) <= EXACT_UP_TO:
        x = (values.double() - low) / (high - low)
        return x.sort().values, torch.ones_like(x)
    counts, sums = torch.zeros(2, BINS, dtype=torch.float64)
    for block in torch.split(values, BLOCK):
        x = (block.double() - low) / (high - low)
        bins = (x * BINS).long().clamp_(max=BINS - 1)
        counts += torch.bincount(bins, minlength=BINS)
        sums += torch.bincount(bins, weights=x, minlength=BINS)
    filled = counts > 0
    return sums[filled] / counts[filled], counts[filled]


def _in_blocks(apply: Callable[[Tensor], Tensor], values: Tensor) -> Tensor:
    """`apply` to all values in double precision, a block at a time, in their own type and place."""
    values = at_least_single(values.detach())
    parts = [apply(block.cpu().double()).to(values) for block in torch.split(values, BLOCK)]
    return torch.cat(parts)


def _best_split(points: Tensor, counts: Tensor) -> Tensor:
    """Memberships (n, 2) of the two clusters of least squared error; in one dimension, exactly."""
    size, total = counts.cumsum(0), (counts * points).cumsum(0)
    below, above = size[:-1], size[-1] - size[:-1]
    # least error within clusters is greatest spread between them
    between = total[:-1] ** 2 / below + (total[-1] - total[:-1]) ** 2 / above
    upper = (torch.arange(len(points)) > between.argmax()).double()
    return torch.stack([1 - upper, upper], dim=1)


def _expectation_maximisation(points: Tensor, counts: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Weights, means and variances, each (2,), of two Gaussians fitted to weighted points."""
    weights, means, variances = _maximise(points, counts, _best_split(points, counts))
    before = -math.inf
    for _ in range(MAX_ITERATIONS):
        square = (points[:, None] - means) ** 2 / variances
        joint = weights.log() - 0.5 * (square + variances.log() + math.log(2 * math.pi))
        evidence = joint.logsumexp(1)
        weights, means, variances = _maximise(points, counts, (joint - evidence[:, None]).exp())
        fit = ((counts * evidence).sum() / counts.sum()).item()
        if abs(fit - before) < TOLERANCE:
            break
        before = fit
    return weights, means, variances


def _maximise(points: Tensor, counts: Tensor, members: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """The parameters that fit the given memberships (n, 2) best."""
    share = counts[:, None] * members
    size = share.sum(0) + 10 * torch.finfo(share.dtype).eps  # an empty component divides by it
    means = (share * points[:, None]).sum(0) / size
    variances = (share * (points[:, None] - means) ** 2).sum(0) / size + EXTRA_VARIANCE
    return size / counts.sum(), means, variances
