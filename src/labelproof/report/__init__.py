"""report.html: what a run found, for a person to read; one file, no network."""

from __future__ import annotations

from pathlib import Path

from labelproof.data.examples import Examples
from labelproof.data.task import Audit
from labelproof.files import write_text
from labelproof.judging.label_table import LabelRows
from labelproof.judging.verdict import Judged
from labelproof.report.end_of_run import write_beside, write_measured
from labelproof.report.example_view import shown_from
from labelproof.report.facts import gather, read_together
from labelproof.report.health_measure import write_health
from labelproof.report.page import render
from labelproof.run_files import REPORT

__all__ = ["finish", "write"]


def finish(
    folder: Path,
    ended: Judged,
    audit: Audit,
    train: Examples,
    rows: LabelRows,
    test: Examples | None = None,
) -> Path:
    """Write report.json and report.html at the end of a run; returns the report's path.

    `test` is the test data as it was read, whose names and pictures the report shows.
    """
    write_measured(folder, ended.calibrated, audit, train)
    write_beside(folder, ended, train, rows)
    write_health(folder, ended, audit, train, test)
    facts = gather(folder, rows)
    return _write(folder, render(facts, shown_from(facts.record, facts.rows, train), None))


def write(
    folder: Path,
    examples: Examples | None = None,
    note: str | None = None,
    data: str | None = None,
) -> Path:
    """Write report.html of a finished run again.

    Args:
        folder: The run folder.
        examples: The training data, for pictures and texts; without it the report says that they
            are missing, unless the pictures are files that can be found.
        note: Why the data is not at hand.
        data: Where the user says that the data of the run lies.

    Raises:
        BadInput: If a file of the run folder is missing or damaged.
    """
    with read_together(folder):
        facts = gather(folder, data=data)
        page = render(facts, shown_from(facts.record, facts.rows, examples), note)
    return _write(folder, page)


def _write(folder: Path, page: str) -> Path:
    path = folder / REPORT
    write_text(path, page)
    return path
