"""Faults of pictures, and simple properties that go with a class, as findings."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import torch
from torch import Tensor

from labelproof.data.examples import Examples
from labelproof.judging import picture_faults as faults
from labelproof.report.findings import Finding, finding_of, listed

MOST = 20_000  # pictures that are measured
CHUNK = 512
SHOWN = 3  # pictures that show a property most


def picture_findings(train: Examples, labels: Tensor, classes: Sequence[str]) -> Iterable[Finding]:
    """What is found in pictures, and what of it goes with a class; nothing for other data."""
    pictures = train.raw if train.raw is not None else train.x
    if len(pictures.shape) != 3 or min(pictures.shape[:2]) < 3:
        return
    size = min(len(pictures), MOST)
    rows = torch.split(torch.arange(size), CHUNK)
    parts = [vars(faults.picture_numbers(pictures.take(part))) for part in rows]
    joined = {name: torch.cat([part[name] for part in parts]) for name in parts[0]}
    numbers = faults.PictureNumbers(**joined)
    for kind, found in vars(faults.picture_faults(numbers)).items():
        yield finding_of(f"{kind} pictures", listed(found), size)
    sizes = None if train.sizes is None else train.sizes[:size]
    if sizes is not None:
        odd, narrow = faults.odd_sizes(sizes)
        yield finding_of("pictures of odd size", listed(odd), size)
        yield finding_of("pictures of odd shape", listed(narrow), size)
    known = faults.properties(numbers, sizes)
    telling = faults.going_with_class(known, labels[:size], len(classes))
    yield _of_classes(telling, classes)


def _of_classes(found: Sequence[faults.Telling], classes: Sequence[str]) -> Finding:
    """Classes with the property that tells each, and pictures that show it most."""
    entries = [
        {
            "class": classes[one.code],
            "other": one.way,
            "score": one.value,
            "low": one.interval[0],
            "high": one.interval[1],
            "examples": one.rows[:SHOWN],
        }
        for one in found
    ]
    count = len({one.code for one in found})
    return finding_of("property of a class", entries, len(classes), count)
