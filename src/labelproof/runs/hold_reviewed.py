"""Labels of a reviewed run put into a new one and held fixed; all else must be the same."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import one_hot

from labelproof.csv_files import safe, write_csv
from labelproof.data.examples import Examples, without
from labelproof.errors import BadInput
from labelproof.judging.crossfit import part_of
from labelproof.judging.label_table import Codes
from labelproof.run_files import HELD
from labelproof.runs.prepare import Held, Prepared
from labelproof.runs.reread import digest, read_held, removed_before
from labelproof.runs.reviewed import Reviewed, open_review


def hold(prepared: Prepared, data: Examples, run: Path) -> tuple[Prepared, Examples, Held]:
    """Put the reviewed labels of `run` into a task of the same data, and hold them fixed.

    Examples that a person removed are left out, of the task and of the data.

    Raises:
        BadInput: If nothing was decided, or data, classes or labels are others than in that run.
    """
    review = open_review(run)
    decided, gone = review.decided(), set(review.decisions.removed())
    if not decided and not gone:
        raise BadInput(
            f"no label of {run} has been reviewed yet; start with: labelproof review {run}"
        )
    earlier = removed_before(review.record)
    there, seen = _left(prepared, earlier), without(data, earlier)
    before = read_held(run, review.record)
    _same_data(there, seen, review, before)
    codes = review.codes()
    fixed = {**{index: codes[name] for index, name in before.items()}, **decided}
    _same_labels(there, review, fixed)
    numbers = _numbers(len(data), earlier)
    removed = (*earlier, *(int(numbers[index]) for index in gone))
    labels = {int(numbers[i]): code for i, code in fixed.items() if i not in gone}
    original = _before_review(prepared, review, before, torch.from_numpy(numbers))
    prepared = replace(prepared, task=replace(prepared.task, original=original))
    return _held(prepared, data, run, labels, tuple(sorted(removed)))


def _before_review(
    prepared: Prepared, review: Reviewed, before: Mapping[int, str], numbers: Tensor
) -> Tensor:
    """The labels (N,) that reviewers saw: those of the reviewed run, and before it, the data's.

    The data itself may have been corrected meanwhile. `numbers` are those of the run's examples.
    """
    labels = prepared.task.y.clone()
    labels[numbers] = torch.from_numpy(review.rows.labels())
    earlier = numbers[torch.tensor(sorted(before), dtype=torch.int64)]
    labels[earlier] = prepared.task.y[earlier]
    return labels


def _held(
    prepared: Prepared,
    data: Examples,
    run: Path,
    labels: Mapping[int, int],
    removed: tuple[int, ...],
) -> tuple[Prepared, Examples, Held]:
    """Task and data less the removed examples, with labels put in; both by number in the data."""
    task = prepared.task
    index = torch.tensor(sorted(labels), dtype=torch.int64)
    y, mask = task.y.clone(), torch.zeros(task.size, dtype=torch.bool)
    y[index], mask[index] = torch.tensor([labels[i] for i in index.tolist()]).long(), True
    fixed, targets = mask if labels else None, task.targets
    if targets is not None:
        targets = torch.where(mask[:, None], one_hot(y, task.num_classes).to(targets), targets)
    task = replace(task, y=y, fixed=fixed, targets=targets)
    left = _left(replace(prepared, task=task), removed)
    place = torch.from_numpy(np.flatnonzero(mask.numpy()[_numbers(task.size, removed)]))
    held = Held(
        run=run, index=place.numpy(), labels=left.task.y[place].numpy(), removed=tuple(removed)
    )
    return left, without(data, removed), held


def _numbers(size: int, removed: Sequence[int]) -> Codes:
    """Numbers in the data of the examples that are left."""
    return np.setdiff1d(np.arange(size), np.array(removed, dtype=np.int64))


def _left(prepared: Prepared, removed: Sequence[int]) -> Prepared:
    """Task and audit without some examples."""
    if not removed:
        return prepared
    rows = torch.from_numpy(_numbers(prepared.task.size, removed))
    truth = prepared.audit.truth
    audit = replace(prepared.audit, truth=None if truth is None else truth[rows])
    return replace(prepared, task=part_of(prepared.task, rows), audit=audit)


def write_held(folder: Path, held: Held, classes: Sequence[str], ids: Sequence[str] | None) -> None:
    """Write reviewed.csv into a run folder."""
    rows = (
        (index, safe(ids[index] if ids is not None else str(index)), safe(classes[code]))
        for index, code in zip(held.index.tolist(), held.labels.tolist(), strict=True)
    )
    write_csv(folder / HELD, ("index", "id", "label"), rows)


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
