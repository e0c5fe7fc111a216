"""Reading data for a command: a progress bar over many files, warnings to the person."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import Progress

from labelproof import pipeline
from labelproof.data.examples import Examples
from labelproof.data.readers import SourceOptions, load
from labelproof.runs.spec import RunSpec


def read(spec: RunSpec) -> pipeline.Given:
    """Training data, and test data read in the same way."""
    console = Console(stderr=True)
    with _bar(console, str(spec.data)) as progress:
        given = pipeline.read(spec, progress)
    assert given.data is not None
    _warn(console, given.data)
    return given


def read_like(data: str, options: SourceOptions, like: Examples) -> Examples:
    """Data to predict on, read as the training data was."""
    console = Console(stderr=True)
    with _bar(console, data) as progress:
        examples = load(data, options, like, progress)
    _warn(console, examples)
    return examples


def _warn(console: Console, examples: Examples) -> None:
    for warning in examples.about.get("warnings", ()):
        console.print(f"note: {warning}", soft_wrap=True, highlight=False)


@contextmanager
def _bar(console: Console, data: str) -> Iterator[Callable[[int, int], None]]:
    """A progress bar over the files that are read, in a terminal alone."""
    with Progress(console=console, transient=True, disable=not console.is_terminal) as bar:
        task = bar.add_task(f"reading {data}", total=None, visible=False)
        yield lambda done, total: bar.update(task, completed=done, total=total, visible=True)
