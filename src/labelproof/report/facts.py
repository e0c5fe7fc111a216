"""All that the report says, gathered from the files of a run folder."""

from __future__ import annotations

import csv
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from labelproof.errors import BadInput
from labelproof.judging.label_table import Codes, LabelRows
from labelproof.run_files import MEASURED, METRICS, SUMMARY, UNREADABLE
from labelproof.runs.folder import read_task
from labelproof.runs.labels_file import read_rows

NEEDED = ("noise_rate_estimate",)  # of summary.json


@dataclass(frozen=True, kw_only=True)
class Facts:
    """A finished run, read back."""

    folder: Path
    record: Mapping[str, Any]  # run.json
    summary: Mapping[str, Any]  # summary.json
    history: Sequence[Mapping[str, Any]]  # metrics.jsonl
    measured: Mapping[str, Any]  # report.json: what needs test data or inputs
    unreadable: Sequence[tuple[str, str]]  # path and reason
    rows: LabelRows

    @property
    def classes(self) -> list[str]:
        """Names of the classes."""
        return list(self.record["task"]["classes"])

    @property
    def size(self) -> int:
        """Number of training examples."""
        return int(self.record["task"]["size"])


@dataclass(frozen=True, kw_only=True)
class ClassHealth:
    """What became of the labels of one class."""

    name: str
    given: int  # labels of this class
    suspects: int  # of these, suspect
    right: float | None  # estimated share of right ones among them
    mostly: str | None  # what most of the suspects should be
    joining: int  # suspects of other classes that should be this one
    accuracy: float | None  # on test data


def gather(folder: Path, rows: LabelRows | None = None) -> Facts:
    """Read the files of a run folder; the first that is missing or damaged is named.

    Args:
        folder: the run folder.
        rows: the label table, where it is at hand; labels.csv is read where None.
    """
    record, classes, size = read_task(folder)
    return Facts(
        folder=folder,
        record=record,
        rows=read_rows(folder, classes, size) if rows is None else rows,
        summary=_object(folder / SUMMARY, NEEDED),
        history=_history(folder / METRICS),
        measured=_object(folder / MEASURED) if (folder / MEASURED).exists() else {},
        unreadable=_unreadable(folder / UNREADABLE),
    )


def flow(facts: Facts) -> Codes:
    """How many suspects go from each given class to each suggested one, (C, C)."""
    number = len(facts.classes)
    rows, chosen = facts.rows, facts.rows.suspect
    pairs = rows.given[chosen] * number + rows.suggested[chosen]
    return np.bincount(pairs, minlength=number * number).reshape(number, number)


def health(facts: Facts) -> list[ClassHealth]:
    """Class by class: how many labels, how many suspect, and where they should go."""
    moves, rows, names = flow(facts), facts.rows, facts.classes
    given = np.bincount(rows.given, minlength=len(names))
    clean = np.bincount(rows.given, rows.p_clean, minlength=len(names))
    test = facts.measured.get("class_accuracy") or [None] * len(names)
    return [
        ClassHealth(
            name=name,
            given=int(given[c]),
            suspects=int(moves[c].sum()),
            right=float(clean[c] / given[c]) if given[c] else None,
            mostly=names[int(moves[c].argmax())] if moves[c].any() else None,
            joining=int(moves[:, c].sum()),
            accuracy=test[c],
        )
        for c, name in enumerate(names)
    ]


def _object(path: Path, needed: Sequence[str] = ()) -> dict[str, Any]:
    if not path.is_file():
        raise BadInput(
            f"{path.parent} has no {path.name}: the run has not finished or was copied in part; "
            "finish it with `labelproof fit ... --resume`, or copy it again."
        )
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise BadInput(f"{path} is damaged ({error}); restore the run folder.") from None
    if not isinstance(content, dict):
        raise BadInput(f"{path} is damaged (no JSON object); restore the run folder.")
    missing = [name for name in needed if name not in content]
    if missing:
        raise BadInput(f"{path} lacks {missing[0]!r}; restore the run folder.")
    return content


def _history(path: Path) -> list[dict[str, Any]]:
    lines: list[dict[str, Any]] = []
    if not path.is_file():
        return lines
    for number, line in enumerate(path.read_bytes().splitlines(), 1):
        try:
            entry = json.loads(line)
        except ValueError as error:
            raise BadInput(f"{path} is damaged in line {number} ({error}).") from None
        lines.append(entry)
    return lines


def _unreadable(path: Path) -> list[tuple[str, str]]:
    if not path.is_file():
        return []
    with path.open(encoding="utf-8", newline="") as file:
        return [(row[0], row[1]) for row in list(csv.reader(file))[1:] if len(row) == 2]
