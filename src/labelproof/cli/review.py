"""`labelproof review`: judge the suspects of a run on a local page, and export what was decided."""

from __future__ import annotations

import threading
import webbrowser
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from labelproof.cli.report import DataOf, RunFolder, read_run
from labelproof.errors import BadInput
from labelproof.report.example_view import FromExamples, Nothing, Shown, files_of
from labelproof.review.corrected import export as write_export
from labelproof.review.corrected import in_words
from labelproof.runs.reviewed import Reviewed, open_review


def review(
    run: RunFolder,
    data: DataOf = None,
    port: Annotated[
        int | None, typer.Option(help="Port of the page; by default a free one.")
    ] = None,
    no_browser: Annotated[
        bool, typer.Option("--no-browser", help="Only print the address of the page.")
    ] = False,
    export: Annotated[
        Path | None,
        typer.Option(
            help="Write corrected labels and end: .csv as the input was, .npy, .parquet, "
            ".json for Label Studio, .jsonl for Hugging Face."
        ),
    ] = None,
) -> None:
    """Review the suspects of RUN in your browser: keep, correct or skip each label.

    Only this computer can open the page. Every decision is saved at once, in decisions.jsonl of the
    run folder, so you can stop and continue at any time. Then train again:
    labelproof fit DATA --reviewed RUN

    Example: labelproof review runs/digits-dpc
    """
    console = Console(soft_wrap=True, highlight=False)
    opened = open_review(run, write=export is None, data=data)
    if export is not None:
        wanted = export.suffix.lower() == ".json"
        write_export(opened, export, _shown(opened)[0] if wanted else None)
        console.print(f"{export}: {in_words(opened)}.")
        return
    _serve(opened, port, no_browser, console)


def _serve(opened: Reviewed, port: int | None, no_browser: bool, console: Console) -> None:
    from labelproof.review.app import Desk
    from labelproof.review.refit_job import Again
    from labelproof.review.serve import bind, serve

    def ready(address: str) -> None:
        console.print(f"Review page: {address}\nEvery decision is saved at once; Ctrl-C ends.")
        console.file.flush()
        if not no_browser:
            # a browser in the terminal would not come back
            threading.Thread(target=webbrowser.open, args=(address,), daemon=True).start()

    again = Again(opened)
    try:
        with bind(port) as listener:  # before the data is read, which may take long
            serve(Desk(opened, *_shown(opened), again), listener, ready)
    except KeyboardInterrupt:
        pass
    finally:
        again.stop()
        opened.decisions.close()
    console.print(f"{in_words(opened)}. To fit again:\n  {again.command()}")


def _shown(opened: Reviewed) -> tuple[Shown, str | None]:
    """A way to show examples, and why there is none, if so."""
    files = files_of(opened.record, opened.rows)
    if files is not None:
        return files, None
    try:
        return FromExamples(read_run(opened.folder, opened.record, opened.rows)), None
    except BadInput as error:
        return Nothing(), f"The examples themselves cannot be shown: {error}"
