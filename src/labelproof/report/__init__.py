"""report.html: what a run found, for a person to read; one file, no network."""

from __future__ import annotations

from pathlib import Path

from labelproof.data.examples import Examples
from labelproof.data.task import Audit
from labelproof.files import write_text
from labelproof.report.example_view import shown_from
from labelproof.report.facts import gather
from labelproof.report.measurements import write_measured
from labelproof.report.page import render
from labelproof.training.loop import Result

NAME = "report.html"

__all__ = ["finish", "write"]


def finish(folder: Path, result: Result, audit: Audit, train: Examples) -> Path:
    """Write report.json and report.html at the end of a run; returns the report's path."""
    write_measured(folder, result, audit, train)
    return write(folder, train)


def write(folder: Path, examples: Examples | None = None, note: str | None = None) -> Path:
    """Write report.html of a finished run.

    Args:
        folder: The run folder.
        examples: The training data, for pictures and texts; without it the report says that they
            are missing, unless the pictures are files that can be found.
        note: Why the data is not at hand.

    Raises:
        BadInput: If a file of the run folder is missing or damaged.
    """
    facts = gather(folder)
    shown = shown_from(facts.record, facts.rows, examples)
    path = folder / NAME
    write_text(path, render(facts, shown, note))
    return path
