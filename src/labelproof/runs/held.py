"""Labels of a reviewed run put into a new one and held fixed; all else must be the same."""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch

from labelproof.data.examples import Examples
from labelproof.errors import BadInput
from labelproof.files import write_text
from labelproof.run_files import HELD
from labelproof.runs.prepare import Held, Prepared
from labelproof.runs.reread import digest, read_held
from labelproof.runs.reviewed import Reviewed, open_review


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
