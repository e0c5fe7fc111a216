"""What finished cells say, as records; results.jsonl holds the same, a line a cell."""

from __future__ import annotations

import json
import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from labelproof.bench.cell import Cell, Scale, changed
from labelproof.files import write_text
from labelproof.run_files import RUN, SUMMARY
from labelproof.runs.folder import history_so_far

Summary = Mapping[str, Any]
Read = Callable[[Summary], "float | None"]
State = Literal["done", "failed", "missing"]


@dataclass(frozen=True, kw_only=True)
class Metric:
    """A number of summary.json, and how a table writes it."""

    title: str
    read: Read
    digits: int = 4


@dataclass(frozen=True, kw_only=True)
class Record:
    """A cell with what became of it."""

    cell: Cell
    folder: Path  # the run folder
    state: State = "missing"
    summary: Summary = field(default_factory=dict)  # of a cell that is done
    error: str = ""  # of a cell that failed


@dataclass(frozen=True, kw_only=True)
class Results:
    """All cells of an experiment."""

    scale: Scale
    records: tuple[Record, ...]
    command: str = ""  # that makes these results again

    @property
    def rows(self) -> list[str]:
        """Rows of the table, in order."""
        return list(dict.fromkeys(record.cell.row for record in self.records))

    @property
    def columns(self) -> list[str]:
        """Columns of the table, in order."""
        return list(dict.fromkeys(record.cell.column for record in self.records))

    def at(self, row: str, column: str) -> list[Record]:
        """The records of one place in the table, one for each seed."""
        return [r for r in self.records if (r.cell.row, r.cell.column) == (row, column)]

    def values(self, read: Read, row: str, column: str) -> list[float]:
        """A number of every finished seed at one place; seeds that do not have it are left out."""
        found = [read(r.summary) for r in self.at(row, column) if r.state == "done"]
        return [value for value in found if value is not None]


def percent(*keys: str) -> Read:
    """Reads a share as per cent."""
    inner = number(*keys)

    def read(summary: Summary) -> float | None:
        value = inner(summary)
        return None if value is None else 100 * value

    return read


def number(*keys: str) -> Read:
    """Reads a number that lies below these keys; None where any of them is not there."""

    def read(summary: Summary) -> float | None:
        value: Any = summary
        for key in keys:
            value = value.get(key) if isinstance(value, Mapping) else None
        return None if value is None else float(value)

    return read


def total_seconds(summary: Summary) -> float | None:
    """All of a run: training, and the folds that judge its labels."""
    training = number("seconds")(summary)
    return None if training is None else training + (number("seconds_calibration")(summary) or 0)


LAST = Metric(title="accuracy, last (%)", read=percent("accuracy", "last"), digits=2)
LAST10 = Metric(title="accuracy, last 10 (%)", read=percent("accuracy", "last10"), digits=2)
BEST = Metric(title="accuracy, best (%)", read=percent("accuracy", "best"), digits=2)
ECE = Metric(title="ECE", read=number("ece"))
ECE_CALIBRATED = Metric(title="ECE, calibrated", read=number("ece_calibrated"))
AUROC = Metric(title="AUROC", read=number("error_auroc"))
AUROC_OWN = Metric(title="AUROC, own", read=number("error_auroc_own"))
AP_OWN = Metric(title="AP, own", read=number("error_ap_own"))
AP = Metric(title="AP", read=number("error_ap"))
LISTED = (LAST, BEST, ECE, ECE_CALIBRATED, AUROC_OWN, AP_OWN, AUROC, AP)
STATED = Metric(title="precision, stated", read=number("suspect_precision_estimate"), digits=3)
MEASURED = Metric(
    title="precision, measured", read=number("suspect_detection", "precision"), digits=3
)
SECONDS = Metric(title="seconds", read=number("seconds"), digits=0)


def mean_spread(values: Sequence[float]) -> tuple[float, float] | None:
    """Mean and standard deviation (n - 1); the latter is 0 for one value; None for none."""
    if not values:
        return None
    return statistics.mean(values), statistics.stdev(values) if len(values) > 1 else 0.0


def read_record(cell: Cell, cells: Path, error: str = "") -> Record:
    """The record of a cell below the folder of cells, as its files have it."""
    folder = cells / cell.name
    if error:
        return Record(cell=cell, folder=folder, state="failed", error=error)
    if not is_done(cell, cells):
        return Record(cell=cell, folder=folder)
    return Record(cell=cell, folder=folder, state="done", summary=read_summary(folder) or {})


def is_done(cell: Cell, cells: Path) -> bool:
    """Whether a cell is finished, and was made by the same spec on the same data."""
    return read_summary(cells / cell.name) is not None and same_record(cell, cells)


def read_summary(folder: Path) -> dict[str, Any] | None:
    """summary.json of a cell; None where it is missing or damaged, so that the cell runs again."""
    try:
        found = json.loads((folder / SUMMARY).read_bytes())
    except (OSError, ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) else None


def epochs_of(folder: Path) -> tuple[int, int]:
    """Epochs that a run has behind it, and all of them; 0 and 1 while nothing is known."""
    try:
        record = json.loads((folder / RUN).read_text(encoding="utf-8"))
        return len(history_so_far(folder)), int(record["settings"]["epochs"])
    except (OSError, ValueError, KeyError):
        return 0, 1


def same_record(cell: Cell, cells: Path) -> bool:
    """Whether the record beside a cell's folder is this cell's."""
    path = record_path(cell, cells)
    try:
        known = json.loads(path.read_text(encoding="utf-8")) if path.is_file() else None
    except ValueError:
        return False
    return bool(known == cell.record())


def record_path(cell: Cell, cells: Path) -> Path:
    """Where a cell's record is: beside its folder, which belongs to `labelproof fit` alone."""
    return cells / f"{cell.name}.cell.json"


def write_results(path: Path, records: Sequence[Record]) -> None:
    """Write results.jsonl, whole."""
    lines = [
        {
            "row": r.cell.row,
            "column": r.cell.column,
            "seed": r.cell.seed,
            "state": r.state,
            "error": r.error or None,
            "folder": r.folder.name,
            "maker": r.cell.maker,
            "spec": changed(r.cell.spec),
            "summary": r.summary or None,
        }
        for r in records
    ]
    write_text(path, "".join(json.dumps(line, ensure_ascii=False) + "\n" for line in lines))
