"""Settings that suit the size of the data and the length of the run.

The defaults of `recipes` are for thousands of examples. A hundred of them would make one step an
epoch, and a dozen steps teach a network nothing, so few examples get smaller batches and more
passes. Where a user wants fewer passes, ramps and cycles must end before the run does.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any, TypeVar

from labelproof.data.examples import Kind
from labelproof.training.settings import BatchSize, Epochs, Range, marked, settings_of

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
    name = main_batch(method)
    if name is None:
        return method
    record: Any = method
    values = settings_of(record)
    batch = min(values[name], max(SMALLEST, size // BATCHES))
    per_epoch = max(1, size // batch)
    factor = min(max(1, math.ceil(STEPS / (per_epoch * record.epochs))), LONGEST)
    parts = _suited_parts(record, size, {name: batch})
    changes = {"epochs": factor * record.epochs, **parts}
    for stage, mark in marked(record, Epochs).items():
        if mark.role != "ramp" and values[stage]:
            changes[stage] = factor * values[stage]
        if mark.role == "warm-up" and values[stage] and kind == "images":
            needed = min(math.ceil(WARM_STEPS / per_epoch), changes["epochs"] // 3)
            changes[stage] = max(changes[stage], needed)
    suited_record: M = replace(record, **changes)
    return suited_record


def main_batch(method: Any) -> str | None:
    """The setting that says how many of all examples a step takes; None where there is none."""
    return next((n for n, mark in marked(method, BatchSize).items() if mark.of == "all"), None)


def with_batch(method: M, largest: int) -> M:
    """The record with at most so many examples a step."""
    record: Any = method
    name = main_batch(record)
    if name is None:
        return method
    changed: M = replace(record, **{name: min(settings_of(record)[name], largest)})
    return changed


def warm_up(method: Any) -> int:
    """Epochs of the method's warm-up."""
    values = settings_of(method)
    return sum(values[n] for n, mark in marked(method, Epochs).items() if mark.role == "warm-up")


def _suited_parts(record: Any, size: int, main: dict[str, int]) -> dict[str, int]:
    """The main batch, those of the kept examples, and those beside them, which shrink with them."""
    values, sizes = settings_of(record), marked(record, BatchSize)
    most = max(SMALLEST, size // (KEPT * BATCHES))
    kept = {n: min(values[n], most) for n, m in sizes.items() if m.of == "kept" and not m.beside}
    parts = {**main, **kept}
    for name, mark in sizes.items():
        if mark.beside:
            parts[name] = max(1, values[name] * parts[mark.beside] // values[mark.beside])
    return parts


def shortened(method: M, epochs: int) -> M:
    """The record with so many epochs; where they are fewer, lengths counted in epochs shrink.

    They shrink in proportion, though up to a quarter of the run is left to each; a warm-up, which
    needs its steps, stays as it is up to half of the run. A longer run leaves all as it is.
    """
    record: Any = method
    changes: dict[str, Any] = {"epochs": epochs}
    if 0 < epochs < record.epochs:
        values, low = settings_of(record), marked(record, Range)
        for name, mark in marked(record, Epochs).items():
            if mark.role == "warm-up":
                changes[name] = min(values[name], epochs // 2)
            else:
                changes[name] = max(low[name].low, _shrunk(values[name], epochs, record.epochs))
    shorter: M = replace(record, **changes)
    return shorter


def _shrunk(value: int | float, epochs: int, before: int) -> int | float:
    part = value * epochs / before
    if not isinstance(value, int):
        return part
    least = max(epochs // 4, 1 if epochs > 2 else 0)
    most = epochs - 1 if value < before else epochs
    return min(max(round(part), min(value, least)), most)
