"""Views that suit the data, where nobody asked for others, and the statistics they normalise by.

Shapes: D features, N training examples, n of them in a trial.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from labelproof.data.examples import Examples, Inputs, Repeated
from labelproof.data.task import Views
from labelproof.functional.select import of_label
from labelproof.functional.softmax_regression import cross_fit, folds_of
from labelproof.views.image_views import ImageViews
from labelproof.views.vector_views import VectorViews

RESIZED_FROM = 96  # from this edge on, images are cropped at random scales, as ImageNet's are
WIDE = 30.0  # ratio of feature spreads above which each feature gets its own scale
SAMPLE, NUMBERS = 2000, 1_000_000  # examples, and numbers in them, that a scale is chosen on
FEWEST = 40  # examples below which nothing can be chosen
FOLDS = 3
FEW_COLUMNS = 100  # features up to which waves are tried
WAVES = 256
LENGTHS = (1.0, 0.5, 0.25)  # of waves, in typical distances between two examples
LEAST, SURE = 1.0, 3.0  # standard errors that the less likely scale, and waves, must be ahead


def default_views(train: Examples, labels: Tensor, *, waves: bool = True) -> Views:
    """Views that suit the data: statistics of the training set, or the published ones.

    Random `waves` may follow few columns, where these help to predict the given labels (N,).
    """
    return vector_views(train, labels, waves) if train.kind == "vectors" else image_views(train)


def vector_views(train: Examples, labels: Tensor, waves: bool = True) -> VectorViews:
    """Centred vectors on one common scale, or each feature on its own; with waves where they help.

    Embeddings share a unit, and blowing up their weakest directions costs accuracy; columns of a
    table do not share one. What few columns say of a class is often no linear function of them.
    Softmax regressions that predict given labels out of fold decide both.
    """
    mean, std = vector_statistics(train.x)
    each, used = VectorViews(mean=mean, std=std), std[std > 0].double()
    if len(used) < 2:
        return each
    unit = used.square().mean().sqrt()
    common = VectorViews(mean=mean, std=torch.full_like(std, unit.item()), spread=std / unit)
    few = len(used) <= FEW_COLUMNS
    wide = bool(used.quantile(0.95) > WIDE * used.quantile(0.05))
    likely, other = (each, common) if wide else (common, each)
    trial = Trial.of(train, labels)
    if trial is None:
        return likely
    first, second = trial.likelihood(likely), trial.likelihood(other)
    plain, best = (other, second) if lead(second, first) > LEAST else (likely, first)
    return waved(plain, best, (likely, other), trial) if waves and few else plain


def waved(
    plain: VectorViews, likelihood: Tensor, scales: Sequence[VectorViews], trial: Trial
) -> VectorViews:
    """Views with the random waves that predict given labels most surely better, or none."""
    chosen, ahead = plain, SURE
    for views in scales:
        for share in LENGTHS:
            length = share * math.sqrt(2 * len(views.mean))
            bent = replace(views, waves=WAVES, wavelength=length)
            found = lead(trial.likelihood(bent), likelihood)
            if found > ahead:
                chosen, ahead = bent, found
    return chosen


def lead(one: Tensor, other: Tensor) -> float:
    """How far one set of likelihoods (n,) is ahead of another, in standard errors."""
    gain = (one - other).double()
    return float(gain.mean() / (gain.std() / len(gain) ** 0.5).clamp_min(1e-12))


@dataclass(frozen=True, kw_only=True)
class Trial:
    """Some of the training examples, to compare views by."""

    raw: Tensor  # (n, D)
    given: Tensor  # (n,)
    classes: int
    fold: Tensor  # (n,)

    @staticmethod
    def of(train: Examples, labels: Tensor) -> Trial | None:
        """A trial for these examples; None where they are too few."""
        order = torch.randperm(len(labels), generator=torch.Generator().manual_seed(0))
        some = order[: min(SAMPLE, NUMBERS // max(1, train.x.shape[0]))]
        if len(some) < FEWEST:
            return None
        given = labels[some]
        return Trial(
            raw=train.x.take(some),
            given=given,
            classes=int(labels.max()) + 1,
            fold=folds_of(given, FOLDS, torch.Generator().manual_seed(0)),
        )

    def likelihood(self, views: VectorViews) -> Tensor:
        """Logarithmic probability of each given label by regressions without its fold, (n,)."""
        found = cross_fit(views.plain(self.raw), self.given, self.classes, self.fold)
        return of_label(found.log_probs, self.given)


def image_views(train: Examples) -> ImageViews:
    """Shifts and flips for small images; crops at random scales for larger ones."""
    mean, std = train.normalise or image_statistics(train.x)
    views = ImageViews(mean=tuple(mean), std=tuple(std), flip=train.mirrored)
    edge = min(train.x.shape[:2])
    if edge >= RESIZED_FROM:
        size = 299 if edge == 320 else edge * 7 // 8  # WebVision's published sizes
        return replace(views, size=size, crop="resized", padding=0, policy="imagenet", cutout=0)
    return replace(views, padding=max(1, edge // 8), cutout=edge // 2)


CHUNK = 2**22  # numbers held in double precision at a time


def image_statistics(
    inputs: Inputs, sample: int = 10_000
) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Mean and standard deviation of each channel, of pixels in [0, 1].

    Args:
        inputs: Images.
        sample: At most this many images, evenly spaced over the set, are read.

    Returns:
        Mean and standard deviation, a number a channel; 1 for the deviation of a constant one.
    """
    inputs = _once(inputs)
    count = min(len(inputs), sample)
    mean, std = _moments(inputs, torch.arange(count) * len(inputs) // count)
    spread = torch.where(std == 0, 255.0, std)
    return tuple((mean / 255).tolist()), tuple((spread / 255).tolist())


def vector_statistics(inputs: Inputs) -> tuple[Tensor, Tensor]:
    """Mean and standard deviation of each feature over all vectors, (D,) float32 each."""
    inputs = _once(inputs)
    mean, std = _moments(inputs, torch.arange(len(inputs)))
    # What is left of a constant feature is rounding, and must not be divided by.
    return mean.float(), torch.where(std <= 1e-7 * mean.abs(), 0.0, std).float()


def _once(inputs: Inputs) -> Inputs:
    """Each of a few that stand for many, once: repeated, their statistics are the same."""
    return inputs.x if isinstance(inputs, Repeated) else inputs


def _moments(inputs: Inputs, index: Tensor) -> tuple[Tensor, Tensor]:
    """Mean and standard deviation over all but the last axis, in double precision.

    Chunks are merged by their means and squared deviations (Chan, Golub and LeVeque), which stays
    exact where a feature's mean is large beside its spread.
    """
    width = inputs.shape[-1]
    total, mean, squares = 0, torch.zeros(width).double(), torch.zeros(width).double()
    for part in torch.split(index, max(1, CHUNK // math.prod(inputs.shape))):
        values = inputs.take(part).double().reshape(-1, width)
        centre, count = values.mean(0), len(values)
        gap, total = centre - mean, total + count
        squares += (values - centre).square().sum(0) + gap.square() * (count * (1 - count / total))
        mean = mean + gap * (count / total)
    return mean, (squares / total).sqrt()
