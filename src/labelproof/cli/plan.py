"""`labelproof plan`: what was understood of the data, and what a run on it would take."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import torch
import typer
from rich.console import Console

from labelproof import pipeline
from labelproof.cli.plan_lines import (
    class_line,
    column_lines,
    data_line,
    detail_lines,
    duplicate_lines,
    encoder_line,
    file_lines,
    run_line,
    text_seconds,
    time_lines,
)
from labelproof.cli.read_data import read_like, read_raw
from labelproof.cli.specs import spec_from
from labelproof.data.encoders.apply import glance
from labelproof.data.encoders.choose import NONE
from labelproof.data.readers.sampling import standing_for_all
from labelproof.runs.forecast import forecast
from labelproof.runs.spec import RunSpec
from labelproof.views import views_sheet

ROWS = 4000  # rows of a table that are read closely; pictures see `sampling`


def plan_as_asked(ctx: typer.Context, details: bool, show_views: Path | None) -> None:
    """Show what the options of the command would do."""
    console = Console(soft_wrap=True, highlight=False, markup=False)
    _show(spec_from(ctx), details, show_views, console)


def _show(spec: RunSpec, details: bool, show_views: Path | None, console: Console) -> None:
    part = replace(spec, reading=replace(spec.reading, sample=ROWS))
    read = read_raw(part)
    raw = standing_for_all(read)
    test = read_like(spec.test, part.reading, read) if spec.test else read.test
    tested = len(standing_for_all(test)) if test is not None else 0
    name = NONE if show_views else pipeline.wanted_encoder(spec)
    seen = glance(raw, name)
    parts = pipeline.assemble(part, pipeline.Given(data=seen.examples))
    task = parts.prepared.task
    lines = [
        data_line(raw, task, spec.reading.memory_gb),
        class_line(task),
        *file_lines(raw, tested, named=spec.test is not None),
        *duplicate_lines(read, test),
    ]
    console.print(
        "\n".join([*lines, *column_lines(read), *encoder_line(seen, name), run_line(parts)])
    )
    with Console(stderr=True).status("measuring a few batches"):
        encoding = seen.seconds + text_seconds(seen, name)
        coming = forecast(parts, encoding * (1 + tested / len(raw)))
    console.print("\n".join(time_lines(coming, parts)))
    if int(os.environ.get("WORLD_SIZE", "1")) > 1:
        console.print("note: the time is that of a single process")
    if details:
        console.print("\n".join(detail_lines(parts, coming)))
    if show_views:
        views_sheet(task.x, task.views, show_views, torch.Generator().manual_seed(spec.seed))
        console.print(f"Views:   {show_views}")
