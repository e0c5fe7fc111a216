"""`labelproof report`: write report.html of a run again."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.progress import Progress

from labelproof.data.examples import Examples
from labelproof.errors import BadInput
from labelproof.judging.label_table import LabelRows
from labelproof.report import write
from labelproof.report.example_view import FromExamples, Shown, files_of
from labelproof.report.facts import gather
from labelproof.runs.reread import read_again
from labelproof.runs.reviewed import Reviewed

RunFolder = Annotated[Path, typer.Argument(help="The folder of a finished run.", metavar="RUN")]


DataOf = Annotated[
    str | None,
    typer.Option(
        help="Path of the run's data. Needed for a run folder that somebody else made, because "
        "the files that it names are not read."
    ),
]


def report(run: RunFolder, data: DataOf = None) -> None:
    """Write report.html of RUN again: findings, pictures of suspects, what to do next.

    The data is read again for the pictures. If it is missing or has changed, the report leaves
    them out and says so.

    Example: labelproof report runs/digits-dpc
    """
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
    with Progress(console=console, transient=True, disable=not console.is_terminal) as bar:
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
