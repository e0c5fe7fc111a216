"""`labelproof report`: write report.html of a run again."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from rich.console import Console

from labelproof.data.examples import Examples
from labelproof.errors import BadInput
from labelproof.judging.label_table import LabelRows
from labelproof.report import write
from labelproof.report.example_view import FromExamples, Shown, files_of
from labelproof.report.facts import gather
from labelproof.runs.reread import read_again
from labelproof.runs.reviewed import Reviewed
from labelproof.training.log import bar_in_terminal


def report_as_asked(run: Path, data: str | None) -> None:
    """Write the report of a run again."""
    facts = gather(run, data=data)
    examples, note = None, None
    if files_of(facts.record, facts.rows) is None:
        try:
            examples = read_run(run, facts.record, facts.rows)
        except BadInput as error:
            note = f"The examples themselves cannot be shown: {error}"
            Console(stderr=True).print(f"note: {note}", soft_wrap=True, highlight=False)
    Console(soft_wrap=True, highlight=False).print(str(write(run, examples, note, data=data)))


def read_run(folder: Path, record: Mapping[str, Any], rows: LabelRows) -> Examples:
    """The training data of a finished run, read as it was then."""
    console = Console(stderr=True)
    with bar_in_terminal(console) as bar:
        task = bar.add_task("reading the data of the run", total=None, visible=False)
        return read_again(
            folder,
            record,
            rows,
            lambda done, total: bar.update(task, completed=done, total=total, visible=True),
        )


def shown_of(opened: Reviewed) -> tuple[Shown, str | None]:
    """A way to show the examples of a run, and why there is none, if so."""
    files = files_of(opened.record, opened.rows)
    if files is not None:
        return files, None
    try:
        return FromExamples(read_run(opened.folder, opened.record, opened.rows)), None
    except BadInput as error:
        return Shown(), f"The examples themselves cannot be shown: {error}"
