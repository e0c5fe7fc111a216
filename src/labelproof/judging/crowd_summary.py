"""The numbers of summary.json on several annotators."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from torch import Tensor

from labelproof.data.task import Audit, Task
from labelproof.data.votes import Votes, majority
from labelproof.judging.agreement import (
    AnnotatorQuality,
    alpha_interval,
    annotator_quality,
    krippendorff_alpha,
    most_confused,
)
from labelproof.judging.crowd_em import Crowd

SHOWN = 20  # annotators and confusions listed in the summary


def votes_summary(task: Task, crowd: Crowd | None, audit: Audit, soft: bool) -> dict[str, Any]:
    """What summary.json says of annotators; nothing where everybody labelled alone.

    Args:
        task: with the votes.
        crowd: what votes and model say together.
        audit: true labels.
        soft: whether the method trains on soft targets, where there are any.
    """
    votes = task.votes
    if votes is None or crowd is None:
        return {}
    classes = task.num_classes
    quality = annotator_quality(votes, crowd)
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
            "changed": int((crowd.consensus != majority(votes, classes)).sum()),
            "accuracy_majority": _accuracy(majority(votes, classes), audit.truth),
            "accuracy_consensus": _accuracy(crowd.consensus, audit.truth),
            "worst": _worst(votes, quality),
            "confused": [
                {**asdict(one), "true": task.classes[one.true], "said": task.classes[one.said]}
                for one in most_confused(votes, crowd, SHOWN)
            ],
        }
    }


def worth(votes: Votes, crowd: Crowd) -> float:
    """What one more vote counts where an example has as many as most, 0 to 1."""
    usual = votes.given.double().mean().item()
    return crowd.temper / (1 + max(usual - 1, 0.0) * crowd.correlation)


def _accuracy(labels: Tensor, truth: Tensor | None) -> float | None:
    return None if truth is None else (labels == truth).double().mean().item()


def _worst(votes: Votes, found: AnnotatorQuality) -> list[dict[str, Any]]:
    """The annotators who are right least often, by the upper end of their interval."""
    return [
        {
            "annotator": votes.annotators[who],
            "labels": int(found.labels[who]),
            "quality": found.quality[who].item(),
            "low": found.low[who].item(),
            "high": found.high[who].item(),
            "agreement": found.agreement[who].item(),
        }
        for who in found.high.argsort()[:SHOWN].tolist()
    ]
