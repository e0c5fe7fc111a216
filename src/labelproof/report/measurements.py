"""report.json: what the report needs and only the end of a run knows, test data and inputs."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from labelproof import metrics
from labelproof.data.examples import Examples
from labelproof.data.readers import find_duplicates
from labelproof.data.task import Audit
from labelproof.files import write_json
from labelproof.run_files import MEASURED
from labelproof.training.loop import Result

BINS = 10
MOST_GROUPS = 200  # of duplicates that are written down


def write_measured(folder: Path, result: Result, audit: Audit, train: Examples) -> None:
    """Write report.json of a run that just ended."""
    content = {**on_test(result, audit), "duplicates": duplicates(train, result.task.y)}
    write_json(folder / MEASURED, content)


def on_test(result: Result, audit: Audit) -> dict[str, Any]:
    """Reliability diagram and accuracy by class, where test labels are known."""
    probs, labels = result.test_probabilities, audit.test_y
    if probs is None or labels is None:
        return {"test_size": 0, "reliability": None, "class_accuracy": None}
    right = (probs.argmax(1) == labels).double()
    number = result.task.num_classes
    count = torch.bincount(labels, minlength=number)
    hits = torch.bincount(labels, right, minlength=number)
    return {
        "test_size": len(labels),
        "reliability": vars(metrics.reliability(probs, labels, BINS)),
        "class_accuracy": [
            hit / total if total else None
            for hit, total in zip(hits.tolist(), count.tolist(), strict=True)
        ],
    }


def duplicates(train: Examples, given: Tensor) -> dict[str, Any]:
    """Equal inputs, and those of them whose given labels differ."""
    found = find_duplicates(replace(train, labels=given.numpy()))
    return {
        "groups": len(found.groups),
        "extra": found.extra,
        "conflicting": len(found.conflicting),
        "rows": [list(group) for group in found.conflicting[:MOST_GROUPS]],
    }
