"""`labelproof review`: judge the suspects of a run on a local page, and export what was decided."""

from __future__ import annotations

import threading
import webbrowser
from pathlib import Path

import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from labelproof.cli.make_report import shown_of
from labelproof.report.example_view import shorten
from labelproof.review import answers
from labelproof.review.corrected import export as write_export
from labelproof.review.corrected import in_words
from labelproof.runs.next_checks import NextCheck, next_checks
from labelproof.runs.reviewed import Reviewed, open_review

LETTERS = 200  # of a text that --next lists
NOTES = 10  # answers that cannot be used, listed


def review_as_asked(
    run: Path,
    *,
    data: str | None,
    port: int | None,
    no_browser: bool,
    next_: bool,
    count: int,
    export: Path | None,
    import_: Path | None,
) -> None:
    """Show the page, or do what the options ask for instead."""
    console = Console(soft_wrap=True, highlight=False)
    opened = open_review(
        run, write=import_ is not None or (export is None and not next_), data=data
    )
    if import_ is not None:
        _import(opened, import_, console)
        return
    if next_:
        _show_next(opened, count, console)
        return
    if export is not None:
        wanted = export.suffix.lower() == ".json"
        write_export(opened, export, shown_of(opened)[0] if wanted else None)
        console.print(f"{export}: {in_words(opened)}.")
        return
    _serve(opened, port, no_browser, console)


def _import(opened: Reviewed, path: Path, console: Console) -> None:
    """Add the answers in a file to the decisions, and list what could not be used."""
    try:
        found = answers.import_answers(opened, path)
    finally:
        opened.decisions.close()
    console.print(f"{path}: {answers.in_words(found)}.")
    for note in found.notes[:NOTES]:
        console.print(f"  {note}")
    if len(found.notes) > NOTES:
        console.print(f"  and {len(found.notes) - NOTES:,} more that could not be used")


def _show_next(opened: Reviewed, count: int, console: Console) -> None:
    """The labels to check next: a table for people, or lines ready for a spreadsheet."""
    found = next_checks(opened, count)
    if not found:
        typer.echo("Every label has been decided.")
        return
    header, *rows = _next_rows(opened, found)
    if not console.is_terminal:
        typer.echo("\n".join("\t".join(row) for row in (header, *rows)))  # tabs stay tabs
        return
    table = Table(*header, box=None, pad_edge=False)
    for row in rows:
        table.add_row(*map(escape, row))
    Console(highlight=False).print(table)
    console.print(
        "gain: the probability that the likelier of the given and the suggested label is wrong, "
        "times the one label that a check then corrects"
    )


def _next_rows(opened: Reviewed, found: list[NextCheck]) -> list[list[str]]:
    """A header and a row for each label; whom to ask and the text only where there is one."""
    asking, texts = any(one.ask for one in found), _texts(opened, found)
    more = [*(["ask", "why"] if asking else []), *(["text"] if texts else [])]
    rows = [["index", "id", "given", "suggested", "gain", *more]]
    for place, one in enumerate(found):
        cells = [str(one.index), one.id, one.given, one.suggested, f"{one.gain:.3f}"]
        asked = [one.ask.who, one.ask.why] if one.ask else ["", ""]
        rows.append([*cells, *(asked if asking else []), *texts[place : place + 1]])
    return rows


def _texts(opened: Reviewed, found: list[NextCheck]) -> list[str]:
    """The text of each label, in short; none where examples are no texts, or are not there."""
    columns = (opened.record.get("data") or {}).get("columns") or {}
    if "text" not in columns:  # files are the ids of pictures
        return []
    shown = shown_of(opened)[0]
    texts = [shown.text(one.index) or "" for one in found]
    return [shorten(" ".join(text.split()), LETTERS) for text in texts] if any(texts) else []


def _serve(opened: Reviewed, port: int | None, no_browser: bool, console: Console) -> None:
    from labelproof.review.refit_job import Again
    from labelproof.review.serve import bind, serve
    from labelproof.review.web_app import Desk

    def ready(address: str) -> None:
        console.print(
            f"Review page: {address}\nEvery decision is saved immediately. Press Ctrl-C to stop."
        )
        console.file.flush()
        if not no_browser:
            # a browser in the terminal would not come back
            threading.Thread(target=webbrowser.open, args=(address,), daemon=True).start()

    again = Again(opened)
    try:
        with bind(port) as listener:  # before the data is read, which may take long
            serve(Desk(opened, *shown_of(opened), again), listener, ready)
    except KeyboardInterrupt:
        pass
    finally:
        again.stop()
        opened.decisions.close()
    command = Again(opened).command()  # into another folder than a fit that the page started
    console.print(f"{in_words(opened)}. To fit again:\n  {command}")
