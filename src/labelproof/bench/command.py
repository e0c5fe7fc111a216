"""`labelproof bench`: an experiment as a grid of runs, with its tables and figures."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import cast, get_args

import typer
from rich.console import Console
from rich.table import Table

from labelproof.bench import gpus
from labelproof.bench.asked import (
    NAMES,
    Asked,
    at_a_time,
    cell_commands,
    check_any,
    experiment,
    missing_lines,
    run_one,
)
from labelproof.bench.cell import SCALES, Cell, Scale, Sources
from labelproof.bench.grid_progress import Display, place
from labelproof.bench.results import Results, read_record, write_results
from labelproof.bench.runner import Launcher, alone, run_cells
from labelproof.bench.tables import SETTINGS, settings_files
from labelproof.errors import BadInput, RunFailed
from labelproof.training.settings import nearest

SINGLE = (
    "These are times of single processes. Those of --launcher torchrun are not estimated: they "
    "depend on the network and on how fast the processes communicate."
)


def bench_as_asked(
    *,
    name: str | None,
    scale: str,
    data: Path | None,
    human_labels: Path | None,
    out: Path,
    jobs: int | None,
    device: str,
    launcher: str,
    seeds: int | None,
    methods: str | None,
    labels: str | None,
    only: str | None,
    epochs: int | None,
    images: int | None,
    blocks: bool,
    dry_run: bool,
    print_cells: bool,
    cell: str | None,
    collect: bool,
) -> None:
    """Do what the options of the command say."""
    if name is None:
        Console().print(listing())
        return
    sources = Sources(
        out=out,
        data=data,
        human_labels=human_labels,
        methods=_split(methods),
        labels=_split(labels),
        epochs=epochs,
        images=images,
        blocks=blocks,
        stand_ins=dry_run and scale == "paper" and data is None,
    )
    gpus.use_only(device)
    how = _launcher(launcher)
    jobs = jobs or _jobs(how, print_cells or cell is not None)
    asked = Asked(experiment(name), _scale(scale), sources, seeds, only, jobs, how, device)
    cells = asked.cells()
    picked = asked.picked(cells)
    if dry_run:
        _estimate(asked, picked)
        return
    if print_cells:
        _print_cells(asked, picked)
        return
    if cell is not None:
        _run_alone(cells, cell, out / "cells", jobs, how)
        return
    with alone(out):
        sys.exit(_run(asked, cells, [] if collect else picked))


def _estimate(asked: Asked, picked: list[Cell]) -> None:
    from labelproof.bench.duration import show_estimates

    sources = asked.sources
    show_estimates(picked, sources.out / "cells", asked.jobs, Console(), sources.stand_ins)
    if asked.launcher == "torchrun":
        typer.echo(SINGLE)


def _print_cells(asked: Asked, picked: list[Cell]) -> None:
    for command in cell_commands(asked, picked, asked.sources.out / "cells"):
        typer.echo(command)


def _run_alone(cells: list[Cell], name: str, runs: Path, jobs: int, launcher: Launcher) -> None:
    if error := run_one(cells, name, runs, jobs, launcher):
        raise RunFailed(f"the cell {name} failed: {error}")
    typer.echo(f"finished: {runs / name}")


def _run(asked: Asked, cells: list[Cell], picked: list[Cell]) -> int:
    """Run the cells and write what they give; returns the exit code. Without any, collect."""
    console, out = Console(stderr=True), asked.sources.out
    runs, folder = out / "cells", out / f"{asked.experiment.name}-{asked.scale}"
    if not picked:
        check_any(cells, runs)
    runs.mkdir(parents=True, exist_ok=True)
    folder.mkdir(parents=True, exist_ok=True)
    errors: dict[str, str] = {}

    def keep(cell: Cell, error: str, seconds: float) -> None:
        if error:
            errors[cell.name] = error
        display.ended(cell, error, seconds)
        write_results(folder / "results.jsonl", _results(asked, cells, runs, errors).records)

    total = len({cell.name for cell in picked})
    try:
        with Display(console, runs, total) as display:
            run_cells(
                picked,
                runs,
                asked.jobs,
                show=display.show,
                ended=keep,
                launcher=asked.launcher,
            )
    except KeyboardInterrupt:
        console.print(
            "\nStopped. Finished cells are kept. To continue the others from their last complete "
            f"epoch, run:\n  {asked.command()}",
            soft_wrap=True,
            highlight=False,
        )
        return 130
    results = _results(asked, cells, runs, errors)
    write_results(folder / "results.jsonl", results.records)
    files = asked.experiment.finish(results, folder) + settings_files(results, folder)
    _say(files, [r for r in picked if r.name in errors], errors, runs)
    if not picked:
        for line in missing_lines(cells, runs):
            typer.echo(line)
    return 1 if errors else 0


def _results(asked: Asked, cells: list[Cell], runs: Path, errors: dict[str, str]) -> Results:
    records = tuple(read_record(cell, runs, errors.get(cell.name, "")) for cell in cells)
    return Results(scale=asked.scale, records=records, command=asked.whole_grid())


def _say(files: list[Path], failed: list[Cell], errors: dict[str, str], runs: Path) -> None:
    """The tables, where everything is, and what failed."""
    console = Console(soft_wrap=True, highlight=False, markup=False)
    for path in files:
        if path.suffix == ".md" and path.stem != SETTINGS:
            typer.echo(path.read_text(encoding="utf-8"))
    for path in files:
        console.print(f"written: {path}")
    for cell in failed:
        console.print(f"failed:  {place(cell)} ({runs / cell.name}): {errors[cell.name]}")


def _split(text: str | None) -> tuple[str, ...] | None:
    if text is None:
        return None
    names = tuple(word.strip() for word in text.split(",") if word.strip())
    if not names:
        raise BadInput(f"expected names such as ce,dpc, but {text!r} has none.")
    return names


def _jobs(launcher: Launcher, single: bool) -> int:
    """Runs at a time; a single cell and one of several processes have the machine to themselves."""
    return 1 if single or launcher != "local" else at_a_time()


def _launcher(text: str) -> Launcher:
    for known in get_args(Launcher):
        if text == known:
            return cast(Launcher, known)
    raise BadInput(f"there is no launcher {text!r}; use local or torchrun.")


def _scale(text: str) -> Scale:
    for known in SCALES:
        if text == known:
            return known
    raise BadInput(f"there is no scale {text!r}; {nearest(text, list(SCALES))}.")


def listing() -> Table:
    """Every experiment with one line."""
    table = Table(box=None, pad_edge=False, show_header=False)
    for name in NAMES:
        table.add_row(name, experiment(name).title)
    return table
