"""What only the end of a run can measure for its pages: report.json, and review.json.

The latter has the likeliest classes of the least trusted labels, and the examples most like them.
Both need the model's output or all inputs, which only the end of a run has at hand.
Shapes: N examples, D numbers each, M least trusted.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor
from torch.nn.functional import adaptive_avg_pool2d, normalize

from labelproof import metrics
from labelproof.data.examples import Examples, Inputs
from labelproof.data.readers import find_duplicates
from labelproof.data.task import Audit
from labelproof.errors import BadInput
from labelproof.files import read_json, write_json
from labelproof.functional.contrast import nearest
from labelproof.judging.label_table import LabelRows, knowing_label
from labelproof.judging.verdict import Judged
from labelproof.run_files import BESIDE, MEASURED
from labelproof.runs.schemas import BesideRecord
from labelproof.training.loop import Result

MOST = 3000  # labels that get this
CLASSES = 3
SIMILAR = 6
LARGEST = 60_000  # examples among which the similar ones are looked for
CHUNK = 512  # inputs taken at a time
EDGE = 12  # pictures are compared at this size


def write_beside(folder: Path, ended: Judged, train: Examples, rows: LabelRows) -> None:
    """Write review.json of a run that just ended."""
    index = rows.index[:MOST]
    content = {
        "index": index.tolist(),
        "likeliest": _likeliest(ended, index),
        "similar": _similar(train.x, index),
    }
    write_json(folder / BESIDE, content)


def read_beside(folder: Path, classes: int, size: int) -> dict[int, dict[str, Any]]:
    """What stands beside each of the least trusted labels, by index; nothing without the file."""
    path = folder / BESIDE
    if not path.is_file():
        return {}
    found = read_json(path, BesideRecord, "restore the run folder, or delete the file")
    parts = zip(found["index"], found["likeliest"], found["similar"], strict=False)
    known = {
        index: {"likeliest": likeliest, "similar": similar} for index, likeliest, similar in parts
    }
    codes = {int(pair[0]) for likeliest in found["likeliest"] for pair in likeliest}
    places = {place for similar in found["similar"] for place in similar} | set(known)
    if max(codes, default=0) >= classes or max(places, default=0) >= size:
        raise BadInput(f"{path} is of another run; restore the run folder, or delete the file.")
    return known


def _likeliest(ended: Judged, index: npt.NDArray[np.int64]) -> list[list[tuple[int, float]]]:
    rows, result, found = torch.from_numpy(index), ended.calibrated, ended.calibration
    if found.crowd:  # what votes and model say together
        judged = found.crowd.posterior[rows]
    else:  # the same numbers that the suggestions of labels.csv follow from
        believed = result.probabilities[rows]
        if found.judgement is not None:
            believed = torch.from_numpy(found.judgement.posterior[index]).to(believed)
        judged = knowing_label(believed, result.task.y[rows], result.clean[rows])
    sure, code = judged.topk(min(CLASSES, judged.shape[1]), dim=1)
    pairs = zip(code.tolist(), sure.tolist(), strict=True)
    return [[(c, round(p, 4)) for c, p in zip(*both, strict=True)] for both in pairs]


def _similar(x: Inputs, index: npt.NDArray[np.int64]) -> list[list[int]]:
    """The examples whose inputs point most nearly the same way, nearest first, else by number."""
    if len(x) > LARGEST:
        return [[] for _ in index]
    rows, every = torch.from_numpy(index), torch.arange(len(x))
    vectors = plain_vectors(x, every)
    vectors = normalize(vectors - vectors.mean(0), dim=1)
    cosine, near = nearest(vectors[rows], vectors, min(4 * SIMILAR, len(x)), (rows, every))
    near, order = near.sort(1)
    order = cosine.gather(1, order).argsort(dim=1, descending=True, stable=True)
    best: list[list[int]] = near.gather(1, order)[:, : min(SIMILAR, len(x) - 1)].tolist()
    return best


def plain_vectors(x: Inputs, rows: Tensor) -> Tensor:
    """Some inputs as vectors, (n, D): thumbnails of pictures."""
    taken = [x.take(part) for part in torch.split(rows, CHUNK)]
    if len(x.shape) == 3:
        small = [adaptive_avg_pool2d(t.float().permute(0, 3, 1, 2), EDGE) for t in taken]
        taken = [part.flatten(1) for part in small]
    return torch.cat(taken).float()


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
