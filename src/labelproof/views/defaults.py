"""Views that suit the data, where nobody asked for others."""

from __future__ import annotations

from dataclasses import replace

import torch

from labelproof.data.examples import Examples
from labelproof.data.task import Views
from labelproof.views.image_views import ImageViews
from labelproof.views.statistics import image_statistics, vector_statistics
from labelproof.views.vector_views import VectorViews

RESIZED_FROM = 96  # from this edge on, images are cropped at random scales, as ImageNet's are
WIDE = 30.0  # ratio of feature spreads above which each feature gets its own scale


def default_views(train: Examples) -> Views:
    """Views that suit the data: statistics of the training set, or the published ones."""
    return vector_views(train) if train.kind == "vectors" else image_views(train)


def vector_views(train: Examples) -> VectorViews:
    """Centred vectors on one common scale, or each feature on its own where scales differ widely.

    Embeddings share a unit, and blowing up their weakest directions costs accuracy; columns of a
    table do not share one.
    """
    mean, std = vector_statistics(train.x)
    used = std[std > 0].double()
    if len(used) < 2 or used.quantile(0.95) > WIDE * used.quantile(0.05):
        return VectorViews(mean=mean, std=std)
    common = used.square().mean().sqrt()
    return VectorViews(mean=mean, std=torch.full_like(std, common.item()), spread=std / common)


def image_views(train: Examples) -> ImageViews:
    """Shifts and flips for small images; crops at random scales for larger ones."""
    mean, std = train.normalise or image_statistics(train.x)
    views = ImageViews(mean=tuple(mean), std=tuple(std), flip=train.mirrored)
    edge = min(train.x.shape[:2])
    if edge >= RESIZED_FROM:
        size = 299 if edge == 320 else edge * 7 // 8  # WebVision's published sizes
        return replace(views, size=size, crop="resized", padding=0, policy="imagenet", cutout=0)
    return replace(views, padding=max(1, edge // 8), cutout=edge // 2)
