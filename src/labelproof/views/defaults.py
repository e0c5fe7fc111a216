"""Views that suit the data, where nobody asked for others.

Shapes: N training examples.
"""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import Tensor

from labelproof.data.examples import Examples
from labelproof.data.task import Views
from labelproof.functional.select import of_label
from labelproof.functional.softmax_regression import cross_fit, folds_of
from labelproof.views.image_views import ImageViews
from labelproof.views.statistics import image_statistics, vector_statistics
from labelproof.views.vector_views import VectorViews

RESIZED_FROM = 96  # from this edge on, images are cropped at random scales, as ImageNet's are
WIDE = 30.0  # ratio of feature spreads above which each feature gets its own scale
SAMPLE, NUMBERS = 2000, 1_000_000  # examples, and numbers in them, that a scale is chosen on
FEWEST = 40  # examples below which nothing can be chosen
FOLDS = 3
SURE = 2.0  # standard errors that the scale which looks less suited must be ahead


def default_views(train: Examples, labels: Tensor) -> Views:
    """Views that suit the data: statistics of the training set, or the published ones.

    Args:
        train: the training examples.
        labels: (N,) their given labels.
    """
    return vector_views(train, labels) if train.kind == "vectors" else image_views(train)


def vector_views(train: Examples, labels: Tensor) -> VectorViews:
    """Centred vectors on one common scale, or each feature on its own.

    Embeddings share a unit, and blowing up their weakest directions costs accuracy; columns of a
    table do not share one. So where scales differ widely each feature gets its own, unless softmax
    regressions predict given labels out of fold clearly better the other way.
    """
    mean, std = vector_statistics(train.x)
    each, used = VectorViews(mean=mean, std=std), std[std > 0].double()
    if len(used) < 2:
        return each
    unit = used.square().mean().sqrt()
    common = VectorViews(mean=mean, std=torch.full_like(std, unit.item()), spread=std / unit)
    wide = bool(used.quantile(0.95) > WIDE * used.quantile(0.05))
    likely, other = (each, common) if wide else (common, each)
    return other if clearly_better(other, likely, train, labels) else likely


def clearly_better(one: VectorViews, other: VectorViews, train: Examples, labels: Tensor) -> bool:
    """Whether held-out given labels are clearly more probable under one of two scales."""
    order = torch.randperm(len(labels), generator=torch.Generator().manual_seed(0))
    some = order[: min(SAMPLE, NUMBERS // max(1, train.x.shape[0]))]
    if len(some) < FEWEST:
        return False
    raw, given, classes = train.x.take(some), labels[some], int(labels.max()) + 1
    fold = folds_of(given, FOLDS, torch.Generator().manual_seed(0))
    first, second = (
        of_label(cross_fit(views.plain(raw), given, classes, fold).log_probs, given)
        for views in (one, other)
    )
    ahead = (first - second).double()
    return bool(ahead.mean() > SURE * ahead.std() / len(ahead) ** 0.5)


def image_views(train: Examples) -> ImageViews:
    """Shifts and flips for small images; crops at random scales for larger ones."""
    mean, std = train.normalise or image_statistics(train.x)
    views = ImageViews(mean=tuple(mean), std=tuple(std), flip=train.mirrored)
    edge = min(train.x.shape[:2])
    if edge >= RESIZED_FROM:
        size = 299 if edge == 320 else edge * 7 // 8  # WebVision's published sizes
        return replace(views, size=size, crop="resized", padding=0, policy="imagenet", cutout=0)
    return replace(views, padding=max(1, edge // 8), cutout=edge // 2)
