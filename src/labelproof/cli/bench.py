"""`labelproof bench`: an experiment as a grid of runs, with its tables and figures."""

from __future__ import annotations

import os
import shlex
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from labelproof.bench.cell import SCALES, Cell, Experiment, Scale, Sources, without_folders
from labelproof.bench.experiments.registry import NAMES, experiment
from labelproof.bench.grid_progress import Display, place
from labelproof.bench.recipe_origin import SETTINGS, settings_files
from labelproof.bench.results import Results, read_record, write_results
from labelproof.bench.runner import alone, run_cells
from labelproof.errors import BadInput
from labelproof.training.settings import nearest

CORES = os.cpu_count() or 1
PASSING = ("--only", "--jobs", "--out")  # options that change nothing in a table of the whole grid


def bench(
    name: Annotated[
        str | None,
        typer.Argument(metavar="EXPERIMENT", help="Leave it out to list all experiments."),
    ] = None,
    scale: Annotated[
        str,
        typer.Option(
            help="paper: published settings, needs a GPU; small: an evening on two cores; tiny: a "
            "minute or two, needs no data."
        ),
    ] = "small",
    data: Annotated[
        Path | None,
        typer.Option(
            help="Folder with the published CIFAR or WebVision files, an .npz with train_images, "
            "train_labels, test_images and test_labels, or for vectors the .npz of features."
        ),
    ] = None,
    human_labels: Annotated[
        Path | None,
        typer.Option(help=".npz with the label sets of CIFAR-10N (aggre, rand1, ..., worst)."),
    ] = None,
    out: Annotated[Path, typer.Option(help="Folder for runs, results, tables and figures.")] = Path(
        "runs/bench"
    ),
    jobs: Annotated[
        int, typer.Option(help="Runs at a time; by default one for each core.", min=1)
    ] = CORES,
    seeds: Annotated[
        int | None, typer.Option(help="How many seeds (0, 1, ...) every cell is run with.", min=1)
    ] = None,
    methods: Annotated[str | None, typer.Option(help="Only these methods, such as ce,dpc.")] = None,
    labels: Annotated[
        str | None, typer.Option(help="Only these label sets, such as clean,worst.")
    ] = None,
    only: Annotated[
        str | None,
        typer.Option(help="Only cells whose row, column, seed or folder contains this text."),
    ] = None,
    epochs: Annotated[
        int | None, typer.Option(help="Epochs of every run, instead of the scale's.", min=1)
    ] = None,
    blocks: Annotated[
        bool,
        typer.Option(
            "--blocks",
            help="Asymmetric CIFAR-100 as most published columns had it: within blocks of five "
            "consecutive labels, not within superclasses.",
        ),
    ] = False,
    dry_run: Annotated[
        bool,
        typer.Option("--dry-run", help="Print the grid and how long it would take; run nothing."),
    ] = False,
) -> None:
    """Run an experiment and write its tables and figures.

    An experiment is a grid of cells, each a run folder. To continue an interrupted grid, give the
    same command again: finished cells are not run twice, even if several experiments share them. A
    cell that fails does not stop the others.

    Example: labelproof bench ablation --scale tiny
    """
    console = Console(stderr=True)
    if name is None:
        Console().print(listing())
        return
    found = experiment(name)
    sources = Sources(
        out=out,
        data=data,
        human_labels=human_labels,
        methods=_split(methods),
        labels=_split(labels),
        epochs=epochs,
        blocks=blocks,
    )
    for option, value in (("methods", methods), ("labels", labels)):
        if value and option not in found.takes:
            raise BadInput(
                f"{name} does not take --{option}: its grid is fixed; leave it out, and choose "
                "cells with --only."
            )
    size = _scale(scale)
    if out.is_file():
        raise BadInput(f"{out} is a file; name a folder with --out.")
    cells = found.cells(size, sources, seeds or found.seeds[size])
    picked = [cell for cell in cells if only is None or only in f"{place(cell)} {cell.name}"]
    if not picked:
        raise BadInput(f"no cell has {only!r} in it; --dry-run without --only shows them all.")
    if dry_run:
        from labelproof.bench.duration import show_estimates

        show_estimates(picked, out / "cells", jobs, Console())
        return
    with alone(out):
        sys.exit(_run(found, size, cells, picked, out, jobs, console))


def _run(
    found: Experiment,
    scale: Scale,
    cells: list[Cell],
    picked: list[Cell],
    out: Path,
    jobs: int,
    console: Console,
) -> int:
    """Run the cells and write what they give; returns the exit code."""
    runs, folder = out / "cells", out / f"{found.name}-{scale}"
    runs.mkdir(parents=True, exist_ok=True)
    folder.mkdir(parents=True, exist_ok=True)
    errors: dict[str, str] = {}

    def keep(cell: Cell, error: str, seconds: float) -> None:
        if error:
            errors[cell.name] = error
        display.ended(cell, error, seconds)
        write_results(folder / "results.jsonl", _results(cells, runs, errors, scale).records)

    total = len({cell.name for cell in picked})
    try:
        with Display(console, runs, total) as display:
            run_cells(picked, runs, jobs, show=display.show, ended=keep)
    except KeyboardInterrupt:
        console.print(
            "\nStopped. Finished cells are kept. To continue the others from their last whole "
            f"epoch, run:\n  {_command(sys.argv[1:])}",
            soft_wrap=True,
            highlight=False,
        )
        return 130
    results = _results(cells, runs, errors, scale)
    write_results(folder / "results.jsonl", results.records)
    files = found.finish(results, folder) + settings_files(results, folder)
    _say(files, [r for r in picked if r.name in errors], errors, runs)
    return 1 if errors else 0


def _results(cells: list[Cell], runs: Path, errors: dict[str, str], scale: Scale) -> Results:
    records = tuple(read_record(cell, runs, errors.get(cell.name, "")) for cell in cells)
    words = whole_grid(without_folders(sys.argv[1:]))
    return Results(scale=scale, records=records, command=_command(words))


def whole_grid(words: Sequence[str]) -> list[str]:
    """A command without what says how much of its grid to run now, on how many cores, and where."""
    kept, skip = list[str](), False
    for word in words:
        option = word.partition("=")[0] in PASSING
        if not skip and not option:
            kept.append(word)
        skip = option and "=" not in word
    return kept


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


def _command(words: Sequence[str]) -> str:
    return f"labelproof {shlex.join(words)}"


def _split(text: str | None) -> tuple[str, ...] | None:
    if text is None:
        return None
    names = tuple(word.strip() for word in text.split(",") if word.strip())
    if not names:
        raise BadInput(f"expected names such as ce,dpc, but {text!r} has none.")
    return names


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
