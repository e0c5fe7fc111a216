"""All that the report says, gathered from the files of a run folder."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from jinja2 import TemplateError

from labelproof.csv_files import read_columns
from labelproof.errors import BadInput
from labelproof.files import LARGEST, parse_json, read_json, read_regular
from labelproof.judging import wording
from labelproof.judging.label_table import Codes, LabelRows
from labelproof.run_files import HEALTH, MEASURED, METRICS, UNREADABLE
from labelproof.runs.folder import read_summary, read_task
from labelproof.runs.labels_file import read_rows
from labelproof.runs.schemas import EpochRecord, HealthRecord

RESTORE = "restore the run folder"


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
    health: Mapping[str, Any] = field(default_factory=dict)  # health.json

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
    right: float | None  # estimated share of right ones among them, where it can be stated
    reason: str  # why the class was not judged, or empty
    mostly: str | None  # what most of the suspects should be
    joining: int  # suspects of other classes that should be this one
    accuracy: float | None  # on test data


DAMAGE = (LookupError, TypeError, ValueError, AttributeError, ArithmeticError, TemplateError)


@contextmanager
def read_together(folder: Path) -> Iterator[None]:
    """One sentence where what the files of a run folder hold cannot be shown together."""
    try:
        yield
    except DAMAGE as error:
        if isinstance(error, BadInput):
            raise
        why = " ".join(f"{type(error).__name__}: {error}".split())[:160]
        raise BadInput(f"the files of {folder} do not fit together ({why}); {RESTORE}.") from error


def gather(folder: Path, rows: LabelRows | None = None, data: str | None = None) -> Facts:
    """Read the files of a run folder, `rows` where not at hand; the first damaged one is named."""
    record, classes, size = read_task(folder, data)
    return Facts(
        folder=folder,
        record=record,
        rows=read_rows(folder, classes, size) if rows is None else rows,
        summary=read_summary(folder),
        history=read_history(folder),
        measured=_measured(folder / MEASURED, len(classes), size),
        unreadable=_unreadable(folder / UNREADABLE),
        health=_health(folder / HEALTH, size),
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
    told = {part["name"]: part for part in facts.summary.get("by_class") or ()}
    quiet = wording.level(facts.summary) == "none" or not wording.states_rate(facts.summary)
    test = facts.measured.get("class_accuracy") or [None] * len(names)
    return [
        ClassHealth(
            name=name,
            given=int(given[c]),
            suspects=int(moves[c].sum()),
            right=float(clean[c] / given[c]) if given[c] and _judged(told, name, quiet) else None,
            reason=told[name]["reason"] if name in told else "",
            mostly=names[int(moves[c].argmax())] if moves[c].any() else None,
            joining=int(moves[:, c].sum()),
            accuracy=test[c],
        )
        for c, name in enumerate(names)
    ]


def _judged(told: Mapping[str, Any], name: str, quiet: bool) -> bool:
    """Whether anything is said of a class."""
    return not quiet and (name not in told or bool(told[name]["judged"]))


def _measured(path: Path, classes: int, size: int) -> dict[str, Any]:
    """report.json, checked against the run it belongs to; nothing where there is none."""
    if not path.exists():
        return {}
    found = read_json(path, dict, RESTORE)
    diagram, accuracy = found.get("reliability"), found.get("class_accuracy")
    groups = (found.get("duplicates") or {}).get("rows", ())
    if (
        (diagram and len({len(diagram[k]) for k in ("confidence", "accuracy", "count")}) > 1)
        or (accuracy is not None and len(accuracy) != classes)
        or any(min(group) < 0 or max(group) >= size for group in groups)
    ):
        raise BadInput(f"{path} is of another run; {RESTORE}.")
    return found


def _health(path: Path, size: int) -> dict[str, Any]:
    """Problems of the data; none where the folder was copied in part."""
    if not path.is_file():
        return {}
    found = read_json(path, HealthRecord, RESTORE)
    entries = [entry for finding in found["findings"] for entry in finding["entries"]]
    rows = [row for entry in entries for row in (entry.get("index"), *entry.get("examples", ()))]
    if any(not 0 <= (row or 0) < size for row in rows):
        raise BadInput(f"{path} is of another run; {RESTORE}.")
    return found


def read_history(folder: Path) -> list[dict[str, Any]]:
    """metrics.jsonl of a folder, a record per epoch."""
    path = folder / METRICS
    if not path.is_file():
        return []
    lines = read_regular(path, LARGEST).splitlines()
    return [
        parse_json(line, EpochRecord, f"line {number} of {path}", RESTORE)
        for number, line in enumerate(lines, 1)
    ]


def _unreadable(path: Path) -> list[tuple[str, str]]:
    if not path.is_file():
        return []
    cells = read_columns(path, ("path", "reason"))
    return list(zip(cells["path"], cells["reason"], strict=True))
