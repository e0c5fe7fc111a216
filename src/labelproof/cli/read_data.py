"""Reading data for a command: a progress bar over many files, warnings to the person."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    ProgressColumn,
    Task,
    TextColumn,
    TimeRemainingColumn,
)
from rich.text import Text

from labelproof import pipeline
from labelproof.data.encoders.picture_encoding import AUTO, DEFAULT
from labelproof.data.encoders.texts import MINILM, AnyTexts
from labelproof.data.examples import Examples
from labelproof.data.readers import SourceOptions, load
from labelproof.runs.forecast import duration
from labelproof.runs.spec import RunSpec
from labelproof.training.log import bar_in_terminal

Advance = Callable[[int, int], None]
TOLD_AT = 3  # calls after which the time left is told
LONG = 20.0  # seconds of encoding that are worth a note


def read(spec: RunSpec, console: Console | None = None) -> pipeline.Given:
    """Training data, and test data read in the same way."""
    console = console or Console(stderr=True)
    with _bar(console, str(spec.data)) as (progress, encoding):
        raw = pipeline.read_raw(spec, progress)
        said = _said_before(console, raw, pipeline.wanted_encoder(spec), encoding)
        given = pipeline.read(spec, progress, said, raw)
    assert given.data is not None
    _warn(console, given.data)
    return given


def read_raw(spec: RunSpec) -> Examples:
    """Training data before any encoder."""
    console = Console(stderr=True)
    with _bar(console, str(spec.data)) as (progress, _):
        examples = pipeline.read_raw(spec, progress)
    _warn(console, examples)
    return examples


def read_like(data: str, options: SourceOptions, like: Examples) -> Examples:
    """Data to predict on, read as the training data was."""
    console = Console(stderr=True)
    with _bar(console, data) as (progress, _):
        examples = load(data, options, like, progress)
    _warn(console, examples)
    return examples


def _warn(console: Console, examples: Examples) -> None:
    for warning in (*examples.about.get("warnings", ()), *examples.about.get("notes", ())):
        console.print(f"note: {warning}", soft_wrap=True, highlight=False)


@contextmanager
def _bar(console: Console, data: str) -> Iterator[tuple[Advance, Advance]]:
    """Progress bars over the files that are read and encoded, in a terminal alone."""
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        Rate(),
        TimeRemainingColumn(),
    )
    with bar_in_terminal(console, *columns) as bar:
        yield _steps(bar, f"reading {data}"), _told(console, _steps(bar, "encoding"))


def _steps(bar: Progress, what: str) -> Advance:
    task = bar.add_task(what, total=None, visible=False)
    return lambda done, total: bar.update(task, completed=done, total=total, visible=True)


def _said_before(console: Console, raw: Examples, name: str, advance: Advance) -> Advance:
    """As `advance`; before encoding begins, a line for those who see no bar."""
    kind, usual = ("texts", MINILM) if isinstance(raw.encoder, AnyTexts) else ("pictures", DEFAULT)

    def step(done: int, total: int) -> None:
        if not done and not console.is_terminal:
            text = f"Encoding {total} {kind} with {usual if name == AUTO else name} ..."
            console.print(text, soft_wrap=True, highlight=False, markup=False)
        if done:
            advance(done, total)

    return step


def _told(console: Console, advance: Advance) -> Advance:
    """As `advance`; says once how long encoding takes, for those who see no bar."""
    calls: list[tuple[float, int]] = []

    def step(done: int, total: int) -> None:
        advance(done, total)
        calls.append((time.perf_counter(), done))
        (start, first), (now, last) = calls[0], calls[-1]
        if len(calls) == TOLD_AT and last > first and not console.is_terminal:
            left = (total - last) * (now - start) / (last - first)
            if left > LONG:
                text = f"note: encoding {total} examples takes about {duration(left)}, once"
                console.print(text, soft_wrap=True, highlight=False)

    return step


class Rate(ProgressColumn):
    """Examples a second."""

    def render(self, task: Task) -> Text:
        """Such as `118 a second`."""
        speed = task.finished_speed or task.speed
        return Text(f"{speed:.0f} a second" if speed else "")
