"""Telling a person how training goes: a live bar, a line an epoch, or curves for TensorBoard."""

from __future__ import annotations

import math
import time
from collections.abc import Mapping
from datetime import timedelta
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, Progress, ProgressColumn, Task, TextColumn
from rich.text import Text

from labelproof.errors import BadInput


class Reporter:
    """Follows a run; this one says nothing."""

    def start(self, name: str, epochs: int, done: int, unit: str = "epochs") -> None:
        """A run begins, with `done` of its epochs, or another unit, already behind it."""

    def following(self, share: float) -> None:
        """What follows the next start takes so many times as long; it counts as time left."""

    def begin(self, phase: str) -> None:
        """An epoch of this phase begins."""

    def step(self) -> None:
        """One optimiser step was made."""

    def epoch(self, line: Mapping[str, Any]) -> None:
        """An epoch ended; `line` is what goes into metrics.jsonl."""

    def close(self) -> None:
        """The run ended or was interrupted."""


class Lines(Reporter):
    """A line an epoch, for logs and pipes."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._after = self._coming = 0.0

    def following(self, share: float) -> None:
        """Remember it for the next start."""
        self._coming = share

    def start(self, name: str, epochs: int, done: int, unit: str = "epochs") -> None:
        """Say what begins, and how much of it is done."""
        self._after, self._coming = self._coming, 0.0
        self._epochs, self._before, self._unit = epochs, done, unit
        self._begin = time.monotonic()
        already = f", {done} done before" if done else ""
        self._console.print(f"{name}: {epochs} {unit}{already}", markup=False)

    def epoch(self, line: Mapping[str, Any]) -> None:
        """One line with the phase, what is known, and the time left."""
        remaining = self._epochs - line["epoch"] + self._after * self._epochs
        pace = (time.monotonic() - self._begin) / (line["epoch"] - self._before)
        left = f", about {pace * remaining:.0f} s left" if remaining else ", done"
        if remaining and line.get("untimed"):
            left = ""
        head = f"{self._unit[:-1]} {line['epoch']}/{self._epochs} {line['phase']}"
        self._console.print(f"{head}: {describe(line)}{left}", soft_wrap=True, markup=False)


class Parts(Reporter):
    """Several trainings shown as one, a step for each; `finish` ends it."""

    def __init__(self, inner: Reporter, name: str, count: int, begun: bool = False) -> None:
        """`begun`: some parts began earlier, so the time until the first end says nothing."""
        self._inner, self._count, self._number, self._begun = inner, count, 0, begun
        inner.start(name, count, 0, "folds")

    def start(self, name: str, epochs: int, done: int, unit: str = "epochs") -> None:
        """The next part begins."""
        self._number += 1
        self._epochs, self._line = epochs, {"epoch": done}
        self._inner.begin(f"fold {self._number} of {self._count}")

    def step(self) -> None:
        """Pass it on."""
        self._inner.step()

    def epoch(self, line: Mapping[str, Any]) -> None:
        """Remember it for the end of the part."""
        self._line = dict(line)

    def close(self) -> None:
        """A part ended, unless it was interrupted."""
        if self._line["epoch"] >= self._epochs:
            untimed = {"untimed": True} if self._begun and self._number == 1 else {}
            line = {**self._line, **untimed, "epoch": self._number, "phase": "judged"}
            self._inner.epoch(line)

    def finish(self) -> None:
        """All parts ended, or were interrupted."""
        self._inner.close()


def bar_in_terminal(console: Console, *columns: ProgressColumn) -> Progress:
    """Bars that only a terminal shows, and that vanish at their end; rich's columns if none."""
    return Progress(*columns, console=console, transient=True, disable=not console.is_terminal)


class Live(Reporter):
    """A bar with epoch, phase, selected share, accuracy when known, and the time left."""

    def __init__(self, console: Console) -> None:
        self._bar = Progress(
            TextColumn("{task.description}", markup=False),
            BarColumn(bar_width=24),
            TextColumn("{task.fields[epoch]}/{task.fields[epochs]}"),
            _Left(),
            TextColumn("{task.fields[detail]}", markup=False),
            console=console,
        )
        self._steps = self._per_epoch = 0
        self._phase, self._coming = "", 0.0

    def following(self, share: float) -> None:
        """Remember it for the next start."""
        self._coming = share

    def start(self, name: str, epochs: int, done: int, unit: str = "epochs") -> None:
        """Show the bar."""
        self._name = name
        self._bar.start()
        shown: dict[str, Any] = {
            "epoch": done,
            "epochs": epochs,
            "detail": "",
            "after": self._coming,
        }
        self._task = self._bar.add_task(name, total=epochs, completed=done, **shown)
        self._coming = 0.0

    def begin(self, phase: str) -> None:
        """Name the phase; another one has another number of steps."""
        if phase != self._phase:
            self._phase, self._per_epoch = phase, 0
        self._bar.update(self._task, description=f"{self._name} [{phase}]")

    def step(self) -> None:
        """Count steps, so that the bar moves inside long epochs."""
        self._steps += 1
        if self._per_epoch and self._steps < self._per_epoch:
            self._bar.advance(self._task, 1 / self._per_epoch)

    def epoch(self, line: Mapping[str, Any]) -> None:
        """Move to the end of the epoch."""
        self._per_epoch, self._steps = self._steps, 0
        self._bar.update(
            self._task,
            completed=line["epoch"],
            epoch=line["epoch"],
            untimed=bool(line.get("untimed")),
            description=f"{self._name} [{line['phase']}]",
            detail=describe(line),
        )

    def close(self) -> None:
        """Leave the terminal as it was found."""
        self._bar.stop()


class _Left(ProgressColumn):
    """Time left, in words a person reads."""

    def render(self, task: Task) -> Text:
        after = task.fields.get("after", 0.0)
        if task.finished and not after:
            return Text("done")
        left, speed = task.time_remaining, task.finished_speed or task.speed
        if left is None or not speed or task.fields.get("untimed"):
            return Text("-:--:-- left")
        seconds = left + after * (task.total or 0) / speed
        return Text(f"{timedelta(seconds=math.ceil(seconds))} left")


def describe(line: Mapping[str, Any]) -> str:
    """The numbers of an epoch as a phrase."""
    parts = [f"loss {line['loss']:.3f}" if "loss" in line else "trained before"]
    if "selected" in line:
        parts.append(f"{line['selected']:.0%} of labels kept")
    if "test_accuracy" in line:
        parts.append(f"test accuracy {line['test_accuracy']:.1%}")
    return ", ".join(parts)


def reporter_for(console: Console) -> Reporter:
    """The live bar on a terminal, lines elsewhere."""
    return Live(console) if console.is_terminal else Lines(console)


class Tensorboard(Reporter):
    """Writes each epoch's numbers to an event folder, and passes everything on to `inner`."""

    def __init__(self, folder: Path, inner: Reporter) -> None:
        try:
            from torch.utils.tensorboard import SummaryWriter
        except ImportError as error:
            raise BadInput(
                'TensorBoard is not installed; pip install "labelproof[track]", or leave out '
                "--tensorboard."
            ) from error
        self._make, self._folder, self._inner = SummaryWriter, folder, inner

    @property
    def inner(self) -> Reporter:
        """Who tells a person."""
        return self._inner

    def following(self, share: float) -> None:
        """Pass on."""
        self._inner.following(share)

    def start(self, name: str, epochs: int, done: int, unit: str = "epochs") -> None:
        """Open the event file; what a resumed run repeats is dropped from the curves."""
        self._writer = self._make(str(self._folder), purge_step=done + 1)
        self._inner.start(name, epochs, done)

    def begin(self, phase: str) -> None:
        """Pass on."""
        self._inner.begin(phase)

    def step(self) -> None:
        """Pass on."""
        self._inner.step()

    def epoch(self, line: Mapping[str, Any]) -> None:
        """Write the numbers of an epoch."""
        for name, value in line.items():
            if isinstance(value, (int, float)) and name != "epoch":
                self._writer.add_scalar(name, value, line["epoch"])
        self._writer.flush()
        self._inner.epoch(line)

    def close(self) -> None:
        """Close the event file."""
        self._writer.close()
        self._inner.close()
