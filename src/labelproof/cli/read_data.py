"""Reading data for a command: a progress bar over many files, warnings to the person."""

from __future__ import annotations

from dataclasses import replace

from rich.console import Console
from rich.progress import Progress

from labelproof.data.examples import Examples
from labelproof.data.readers import SourceOptions, load


def read(
    data: str, test: str | None, options: SourceOptions, flip: bool | None = None
) -> tuple[Examples, Examples | None]:
    """Training data, and test data read in the same way."""
    console = Console(stderr=True)
    examples = _load(console, data, options, None)
    if flip is not None:
        examples = replace(examples, mirrored=flip)
    for warning in examples.about.get("warnings", ()):
        console.print(f"note: {warning}", soft_wrap=True, highlight=False)
    return examples, _load(console, test, options, examples) if test else None


def read_like(data: str, options: SourceOptions, like: Examples) -> Examples:
    """Data to predict on, read as the training data was."""
    console = Console(stderr=True)
    examples = _load(console, data, options, like)
    for warning in examples.about.get("warnings", ()):
        console.print(f"note: {warning}", soft_wrap=True, highlight=False)
    return examples


def _load(console: Console, data: str, options: SourceOptions, like: Examples | None) -> Examples:
    with Progress(console=console, transient=True, disable=not console.is_terminal) as bar:
        task = bar.add_task(f"reading {data}", total=None, visible=False)
        return load(
            data,
            options,
            like,
            lambda done, total: bar.update(task, completed=done, total=total, visible=True),
        )
