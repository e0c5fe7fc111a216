"""Settings that suit the size of the data and the length of the run.

The defaults of `recipes` are for thousands of examples. A hundred of them would make one step an
epoch, and a dozen steps teach a network nothing, so few examples get smaller batches and more
passes. Where a user wants fewer passes, ramps and cycles must end before the run does.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any, TypeVar, get_type_hints

from labelproof.data.examples import Kind
from labelproof.training.settings import Epochs, Range, settings_of

M = TypeVar("M")

STEPS = 120  # optimiser steps a network should get at the least
BATCHES = 8  # of a pass over the data, at the least, down to batches of SMALLEST
SMALLEST = 8
KEPT = 2  # a phase that takes the trusted labels alone may have but every second example
# Steps of a warm-up on images, at the least, up to a third of the run: who selects must know some.
# Vectors are learnt within a few steps, and by heart soon after.
WARM_STEPS = 160
LONGEST = 60  # times as many epochs as the defaults say, at the most


def suited(method: M, size: int, kind: Kind) -> M:
    """The record with a smaller batch and more epochs where `size` examples call for them."""
    record: Any = method
    if not hasattr(record, "batch"):
        return method
    batch = min(record.batch, max(SMALLEST, size // BATCHES))
    per_epoch = max(1, size // batch)
    factor = min(max(1, math.ceil(STEPS / (per_epoch * record.epochs))), LONGEST)
    epochs = factor * record.epochs
    changes = {"batch": batch, "epochs": epochs}
    if getattr(record, "warmup", 0):
        needed = min(math.ceil(WARM_STEPS / per_epoch), epochs // 3) if kind == "images" else 0
        changes["warmup"] = max(factor * record.warmup, needed)
    if hasattr(record, "mentor_epochs"):
        changes["mentor_epochs"] = factor * record.mentor_epochs
    if hasattr(record, "labelled"):
        changes |= _suited_parts(record.labelled, record.others, size)
    suited_record: M = replace(record, **changes)
    return suited_record


def _suited_parts(labelled: int, others: int, size: int) -> dict[str, int]:
    """Batches of the kept examples and of the rest, which shrink in proportion."""
    fewer = min(labelled, max(SMALLEST, size // (KEPT * BATCHES)))
    return {"labelled": fewer, "others": max(1, others * fewer // labelled)}


def shortened(method: M, epochs: int) -> M:
    """The record with so many epochs; where they are fewer, lengths counted in epochs shrink.

    They shrink in proportion, though up to a quarter of the run is left to each; a warm-up, which
    needs its steps, stays as it is up to half of the run. A longer run leaves all as it is.
    """
    record: Any = method
    changes: dict[str, Any] = {"epochs": epochs}
    if 0 < epochs < record.epochs:
        hints = get_type_hints(type(record), include_extras=True)
        for name, value in settings_of(record).items():
            if name == "warmup":
                changes[name] = min(value, epochs // 2)
            elif Epochs() in getattr(hints[name], "__metadata__", ()):
                low = next(m.low for m in hints[name].__metadata__ if isinstance(m, Range))
                changes[name] = max(low, _shrunk(value, epochs, record.epochs))
    shorter: M = replace(record, **changes)
    return shorter


def _shrunk(value: int | float, epochs: int, before: int) -> int | float:
    part = value * epochs / before
    if not isinstance(value, int):
        return part
    least = max(epochs // 4, 1 if epochs > 2 else 0)
    most = epochs - 1 if value < before else epochs
    return min(max(round(part), min(value, least)), most)
