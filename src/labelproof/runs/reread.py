"""Reading the data of a run again, and making sure that it is still the same."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch

from labelproof.csv_files import converted, read_columns
from labelproof.data.encoders.apply import texts_standing_for
from labelproof.data.encoders.picture_encoding import standing_for
from labelproof.data.encoders.saved import load_encoder
from labelproof.data.encoders.texts import TextEncoder
from labelproof.data.examples import Examples, without
from labelproof.data.readers import Progress, load
from labelproof.data.task import Task
from labelproof.errors import BadInput
from labelproof.judging.label_table import LabelRows
from labelproof.run_files import ENCODER, HELD, RUN
from labelproof.runs.ownership import WITHHELD
from labelproof.runs.schemas import Count
from labelproof.runs.spec import spec_of
from labelproof.views import VectorViews


def read_held(folder: Path, record: Mapping[str, Any]) -> dict[int, str]:
    """Labels that were held fixed in a run, by index; none in most runs."""
    if not record.get("reviewed"):
        return {}
    path = folder / HELD
    cells = read_columns(path, ("index", "label"))
    index = converted(path, "index", cells["index"], Count)
    held = dict(zip(index, cells["label"], strict=True))
    if len(held) != record["reviewed"]["count"] or not _fits(held, record["task"]):
        raise BadInput(f"{path} does not fit run.json; restore the run folder.")
    return held


def removed_before(record: Mapping[str, Any]) -> list[int]:
    """Examples that were left out of a run because people removed them, by number in the data."""
    return sorted((record.get("reviewed") or {}).get("removed") or ())


def _fits(held: Mapping[int, str], task: Mapping[str, Any]) -> bool:
    """Whether each held label is of an example and a class of the run."""
    classes = set(task["classes"])
    return all(0 <= i < task["size"] and name in classes for i, name in held.items())


def read_again(
    folder: Path, record: Mapping[str, Any], rows: LabelRows, progress: Progress | None = None
) -> Examples:
    """The training data of a run, read as it was then.

    Raises:
        BadInput: If the run does not say how, the data is gone, or it has changed since.
    """
    spec = spec_of(record, folder / RUN)
    if spec.data is None and record.get(WITHHELD):
        raise BadInput(
            "this run folder was not made by you on this computer, so the files it names are not "
            f"read; name the data yourself: --data DATA (run.json in {folder} says which)."
        )
    if spec.data is None:
        raise BadInput("the data of this run came from memory and cannot be read again.")
    examples = load(spec.data, spec.reading, progress=progress)
    encoding = (record.get("data") or {}).get("encoding") or {}
    if "rule" in encoding and examples.kind == "images":
        examples = standing_for(examples, encoding)
    elif isinstance(examples.encoder, TextEncoder) and (folder / ENCODER).is_file():
        examples = texts_standing_for(examples, load_encoder(folder))
    examples = without(examples, removed_before(record))
    held = read_held(folder, record)
    if (
        len(examples) != len(rows)
        or digest(examples, rows, record, held) != record["task"]["digest"]
    ):
        raise BadInput(
            f"{spec.data} has changed since the run (its examples are not those that the run was "
            "trained on); restore the data, or fit again."
        )
    return examples


def digest(
    examples: Examples, rows: LabelRows, record: Mapping[str, Any], held: Mapping[int, str]
) -> str:
    """The digest that the task had, with the labels of the run."""
    one, fixed = torch.ones(1), None
    if held:
        fixed = torch.zeros(len(rows), dtype=torch.bool)
        fixed[torch.tensor(list(held))] = True
    return Task(
        x=examples.x,
        y=torch.from_numpy(rows.labels()),
        classes=tuple(record["task"]["classes"]),
        views=VectorViews(mean=one, std=one),  # no part of the digest
        kind=examples.kind,
        fixed=fixed,
    ).digest()
