"""Fitting again: reviewed labels put in, held fixed, and everything else checked to be the same."""

from __future__ import annotations

import csv
import hashlib
import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

from labelproof.runs.prepare import Prepared
from labelproof.errors import BadInput
from labelproof.files import write_text
from labelproof.report.reread_data import HELD, digest, read_held
from labelproof.report.rows import Codes
from labelproof.review.reviewed_run import Reviewed, open_review
from labelproof.data.examples import Examples

DROPPED = ("--out", "--reviewed")  # options with a value that the new command has of its own


@dataclass(frozen=True, kw_only=True)
class Held:
    """Labels that people confirmed or corrected, in this review or an earlier one."""

    run: Path  # the run that was reviewed
    index: Codes
    labels: Codes

    def describe(self) -> dict[str, Any]:
        """What run.json says of them."""
        both = self.index.tobytes() + self.labels.tobytes()
        return {
            "run": str(self.run),
            "count": len(self.index),
            "sha256": hashlib.sha256(both).hexdigest(),
        }


def hold(prepared: Prepared, data: Examples, run: Path) -> tuple[Prepared, Held]:
    """Put the reviewed labels of `run` into a task of the same data, and hold them fixed.

    Args:
        prepared: The task as the data and the options give it.
        data: The data it was made of.
        run: The run folder that was reviewed.

    Raises:
        BadInput: If nothing was decided, or data, classes or labels are others than in that run.
    """
    review = open_review(run)
    decided = review.decided()
    if not decided:
        raise BadInput(
            f"no label of {run} has been reviewed yet; start with: labelproof review {run}"
        )
    before = read_held(run, review.record)
    _same_data(prepared, data, review, before)
    codes = review.codes()
    fixed = {**{index: codes[name] for index, name in before.items()}, **decided}
    _same_labels(prepared, review, fixed)
    index = np.array(sorted(fixed), dtype=np.int64)
    held = Held(run=run, index=index, labels=np.array([fixed[i] for i in index.tolist()]))
    y, mask = prepared.task.y.clone(), torch.zeros(prepared.task.size, dtype=torch.bool)
    y[torch.from_numpy(index)] = torch.from_numpy(held.labels)
    mask[torch.from_numpy(index)] = True
    return replace(prepared, task=replace(prepared.task, y=y, fixed=mask)), held


def write_held(folder: Path, held: Held, classes: Sequence[str], ids: Sequence[str] | None) -> None:
    """Write reviewed.csv into a run folder."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(("index", "id", "label"))
    for index, code in zip(held.index.tolist(), held.labels.tolist(), strict=True):
        writer.writerow((index, ids[index] if ids is not None else str(index), classes[code]))
    write_text(folder / HELD, out.getvalue())


def _same_data(
    prepared: Prepared, data: Examples, review: Reviewed, before: Mapping[int, str]
) -> None:
    task, there = prepared.task, review.record["task"]
    if task.size != there["size"] or list(task.classes) != list(there["classes"]):
        raise BadInput(
            f"{review.folder} has {there['size']} examples in {len(there['classes'])} classes, "
            f"this data {task.size} in {task.num_classes}; fit the data that was reviewed."
        )
    if digest(data, review.rows, review.record, before) != there["digest"]:
        raise BadInput(
            f"{review.folder} was trained on other inputs than these; fit the data that was "
            "reviewed, read in the same way."
        )


def _same_labels(prepared: Prepared, review: Reviewed, fixed: Mapping[int, int]) -> None:
    """What nobody reviewed must be labelled as it was in the reviewed run."""
    other = np.flatnonzero(prepared.task.y.numpy() != review.rows.labels())
    strange = [index for index in other.tolist() if index not in fixed]
    if strange:
        raise BadInput(
            f"{len(strange)} labels differ from those of {review.folder} though nobody reviewed "
            f"them (the first is example {strange[0]}); fit with the same labels, --noise and "
            "--seed as that run."
        )


def refit_arguments(review: Reviewed, out: Path) -> list[str]:
    """Arguments of `labelproof` that fit again what was reviewed, into another folder."""
    command = [str(word) for word in review.record.get("command") or ()]
    if len(command) > 2 and command[1] == "fit":
        words = _without(command[2:])
    else:
        words = _from_record(review.record)
    return ["fit", *words, "--reviewed", str(review.folder), "--out", str(out)]


def _without(words: Sequence[str]) -> list[str]:
    """The arguments but for those that name folders of runs, and --resume."""
    kept: list[str] = []
    skip = False
    for word in words:
        if skip:
            skip = False
        elif word in DROPPED:
            skip = True
        elif word != "--resume" and not word.startswith(tuple(f"{o}=" for o in DROPPED)):
            kept.append(word)
    return kept


def _from_record(record: Mapping[str, Any]) -> list[str]:
    """Arguments for a run that no `fit` command made, such as the demo's."""
    reading, noise = record.get("reading") or {}, record.get("noise")
    words = [str(reading.get("data") or "DATA"), "--method", record["method"]]
    words += ["--net", record["net"], "--seed", str(record["seed"])]
    if noise:
        words += ["--noise", f"{noise['kind']}:{noise['rate']:g}"]
    epochs = record["settings"].get("epochs")
    return [*words, "--epochs", str(epochs)] if epochs is not None else words
