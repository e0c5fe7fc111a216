"""From what sources read to a `Task` and its `Audit`: noise where asked, views, test labels."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from labelproof.errors import BadInput
from labelproof.noise import apply_noise, parse_noise
from labelproof.data.task import Audit, Examples, Task, Views
from labelproof.views import ImageViews, VectorViews, image_statistics, vector_statistics

RESIZED_FROM = 96  # from this edge on, images are cropped at random scales, as ImageNet's are
WIDE = 30.0  # ratio of feature spreads above which each feature gets its own scale


@dataclass(frozen=True, kw_only=True)
class Prepared:
    """A task with its audit, and what run.json says of how they came about."""

    task: Task
    audit: Audit
    noise: dict[str, Any] | None


def prepare(
    train: Examples, test: Examples | None = None, noise: str | None = None, seed: int = 0
) -> Prepared:
    """Make the task of training examples, and the audit of their truth and the test examples.

    Args:
        train: training examples with encoded labels.
        test: test examples read like `train`; the ones that came with it where None.
        noise: such as `symmetric:0.4`: wrong labels put in on purpose; the old ones become truth.
        seed: of the noise.
    """
    if train.labels is None or train.classes is None:
        raise BadInput("training data needs a label for every example; name them with --labels.")
    given, truth, record = torch.as_tensor(train.labels), _tensor(train.truth), None
    if noise:
        truth = given if truth is None else truth
        made = apply_noise(parse_noise(noise), given.numpy(), train.classes, train.x, seed)
        given, record = torch.as_tensor(made.labels), made.describe()
    test = test or train.test
    if test is not None and test.labels is None:
        raise BadInput(
            "test data needs trusted labels to measure with, and these have none; "
            "name their label column or leave out --test."
        )
    task = Task(
        x=train.x,
        y=given.long(),
        classes=train.classes,
        views=default_views(train),
        kind=train.kind,
    )
    audit = Audit(
        truth=truth,
        test_x=test.x if test else None,
        test_y=_tensor(test.labels) if test else None,
    )
    return Prepared(task=task, audit=audit, noise=record)


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


def _tensor(labels: Any) -> Tensor | None:
    return None if labels is None else torch.as_tensor(labels).long()
