"""Settings that suit the size of the data: few examples need smaller batches and more passes.

The defaults of `recipes` are for thousands of examples. A hundred of them would make one step an
epoch, and a dozen steps teach a network nothing.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any, TypeVar

M = TypeVar("M")

STEPS = 120  # optimiser steps a network should get at the least
BATCHES = 8  # of a pass over the data, at the least, down to batches of SMALLEST
SMALLEST = 8
LONGEST = 60  # times as many epochs as the defaults say, at the most


def suited(method: M, size: int) -> M:
    """The record with a smaller batch and more epochs where `size` examples call for them."""
    record: Any = method
    if not hasattr(record, "batch"):
        return method
    batch = min(record.batch, max(SMALLEST, size // BATCHES))
    per_epoch = max(1, size // batch)
    factor = min(max(1, math.ceil(STEPS / (per_epoch * record.epochs))), LONGEST)
    changes = {"batch": batch, "epochs": factor * record.epochs}
    if hasattr(record, "warmup"):
        changes["warmup"] = factor * record.warmup
    suited_record: M = replace(record, **changes)
    return suited_record
