"""`labelproof bench`: an experiment as a grid of runs, with its tables and figures."""

from __future__ import annotations

import os
import shlex
import sys
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from labelproof.bench.cell import SCALES, Cell, Experiment, Scale, Sources
from labelproof.bench.experiments.registry import NAMES, experiment
from labelproof.bench.grid_progress import Display, place
from labelproof.bench.recipe_origin import SETTINGS, settings_files
from labelproof.bench.results import Results, read_record, write_results
from labelproof.bench.runner import alone, run_cells
from labelproof.errors import BadInput
from labelproof.training.settings import nearest

CORES = os.cpu_count() or 1
OUT = Path("runs/bench")
SCALE: Scale = "small"


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
    ] = SCALE,
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
    out: Annotated[Path, typer.Option(help="Folder for runs, results, tables and figures.")] = OUT,
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
        blocks=blocks,
    )
    asked = Asked(experiment(name), _scale(scale), sources, seeds, only, jobs)
    cells = asked.cells()
    picked = asked.picked(cells)
    if dry_run:
        from labelproof.bench.duration import show_estimates

        show_estimates(picked, out / "cells", jobs, Console())
        return
    with alone(out):
        sys.exit(_run(asked, cells, picked))


@dataclass(frozen=True)
class Asked:
    """What a person asked of the bench."""

    experiment: Experiment
    scale: Scale
    sources: Sources
    seeds: int | None = None
    only: str | None = None
    jobs: int = CORES

    def cells(self) -> list[Cell]:
        """The whole grid."""
        name, sources = self.experiment.name, self.sources
        for option, value in (("methods", sources.methods), ("labels", sources.labels)):
            if value and option not in self.experiment.takes:
                raise BadInput(
                    f"{name} does not take --{option}: its grid is fixed; leave it out, and choose "
                    "cells with --only."
                )
        if sources.out.is_file():
            raise BadInput(f"{sources.out} is a file; name a folder with --out.")
        return self.experiment.cells(
            self.scale, sources, self.seeds or self.experiment.seeds[self.scale]
        )

    def picked(self, cells: list[Cell]) -> list[Cell]:
        """The cells to run now."""
        found = [c for c in cells if self.only is None or self.only in f"{place(c)} {c.name}"]
        if not found:
            raise BadInput(
                f"no cell has {self.only!r} in it; --dry-run without --only shows them all."
            )
        return found

    def command(self) -> str:
        """The command that asks the same, with the options that are not the usual ones."""
        sources = self.sources
        options = {
            "--scale": self.scale if self.scale != SCALE else None,
            "--data": sources.data,
            "--human-labels": sources.human_labels,
            "--out": sources.out if sources.out != OUT else None,
            "--jobs": self.jobs if self.jobs != CORES else None,
            "--seeds": self.seeds,
            "--methods": ",".join(sources.methods) if sources.methods else None,
            "--labels": ",".join(sources.labels) if sources.labels else None,
            "--only": self.only,
            "--epochs": sources.epochs,
        }
        given = {name: str(value) for name, value in options.items() if value is not None}
        flags = ["--blocks"] if sources.blocks else []
        told = [word for pair in given.items() for word in pair]
        return shlex.join(["labelproof", "bench", self.experiment.name, *told, *flags])

    def whole_grid(self) -> str:
        """The command that makes the whole table, wherever its data lies."""
        sources = self.sources
        data, human = (_named(path) for path in (sources.data, sources.human_labels))
        here = replace(sources, out=OUT, data=data, human_labels=human)
        return replace(self, sources=here, only=None, jobs=CORES).command()


def _named(path: Path | None) -> Path | None:
    """An absolute path as a name alone."""
    return Path(path.name) if path is not None and path.is_absolute() else path


def _run(asked: Asked, cells: list[Cell], picked: list[Cell]) -> int:
    """Run the cells and write what they give; returns the exit code."""
    console, out = Console(stderr=True), asked.sources.out
    runs, folder = out / "cells", out / f"{asked.experiment.name}-{asked.scale}"
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
            run_cells(picked, runs, asked.jobs, show=display.show, ended=keep)
    except KeyboardInterrupt:
        console.print(
            "\nStopped. Finished cells are kept. To continue the others from their last whole "
            f"epoch, run:\n  {asked.command()}",
            soft_wrap=True,
            highlight=False,
        )
        return 130
    results = _results(asked, cells, runs, errors)
    write_results(folder / "results.jsonl", results.records)
    files = asked.experiment.finish(results, folder) + settings_files(results, folder)
    _say(files, [r for r in picked if r.name in errors], errors, runs)
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
