"""`labelproof bench`: an experiment as a grid of runs, with its tables and figures."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, cast, get_args

import typer
from rich import progress as bars
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
from labelproof.bench.results import Results, epochs_of, read_record, write_results
from labelproof.bench.runner import Launcher, Progress, Running, alone, run_cells
from labelproof.bench.tables import SETTINGS, settings_files
from labelproof.errors import BadInput, RunFailed
from labelproof.training.log import bar_in_terminal
from labelproof.training.settings import nearest

SINGLE = (
    "These are times of single processes. Those of --launcher torchrun are not estimated: they "
    "depend on the network and on how fast the processes communicate."
)


def bench_as_asked(given: Mapping[str, Any]) -> None:
    """Do what the options of the command say, by their names."""
    name, out, cell = given["name"], given["out"], given["cell"]
    if name is None:
        Console().print(listing())
        return
    sources = Sources(
        out=out,
        data=given["data"],
        human_labels=given["human_labels"],
        methods=_split(given["methods"]),
        labels=_split(given["labels"]),
        epochs=given["epochs"],
        images=given["images"],
        blocks=given["blocks"],
        stand_ins=given["dry_run"] and given["scale"] == "paper" and given["data"] is None,
    )
    asked = _asked(given, sources)
    cells = asked.cells()
    picked = asked.picked(cells)
    if given["dry_run"]:
        _estimate(asked, picked)
    elif given["print_cells"]:
        for command in cell_commands(asked, picked, out / "cells"):
            typer.echo(command)
    elif cell is not None:
        if error := run_one(cells, cell, out / "cells", asked.jobs, asked.launcher):
            raise RunFailed(f"the cell {cell} failed: {error}")
        typer.echo(f"finished: {out / 'cells' / cell}")
    else:
        with alone(out):
            sys.exit(_run(asked, cells, [] if given["collect"] else picked))


def _asked(given: Mapping[str, Any], sources: Sources) -> Asked:
    """What is run on the data; a single cell or one of several processes has the machine alone."""
    device = given["device"]
    gpus.use_only(device)
    launcher = _launcher(given["launcher"])
    single = given["print_cells"] or given["cell"] is not None or launcher != "local"
    return Asked(
        experiment=experiment(given["name"]),
        scale=_scale(given["scale"]),
        sources=sources,
        seeds=given["seeds"],
        only=given["only"],
        jobs=given["jobs"] or (1 if single else at_a_time()),
        launcher=launcher,
        device=device,
    )


def _estimate(asked: Asked, picked: list[Cell]) -> None:
    from labelproof.bench.duration import show_estimates

    sources = asked.sources
    show_estimates(picked, sources.out / "cells", asked.jobs, Console(), sources.stand_ins)
    if asked.launcher == "torchrun":
        typer.echo(SINGLE)


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


class Display:
    """One display over all cells; use it as a context."""

    def __init__(self, console: Console, cells: Path, total: int) -> None:
        self._console, self._cells = console, cells
        self._live = bar_in_terminal(
            console,
            bars.TextColumn("{task.description}", markup=False),
            bars.BarColumn(bar_width=24),
            bars.TextColumn("{task.completed:.0f}/{task.total:.0f}"),
            bars.TimeElapsedColumn(),
        )
        self._all = self._live.add_task("cells", total=total)
        self._each: dict[str, bars.TaskID] = {}

    def __enter__(self) -> Display:
        self._live.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._live.stop()

    def show(self, now: Progress) -> None:
        """Bring the bars to where the grid is."""
        failed = f", {now.failed} failed" if now.failed else ""
        self._live.update(self._all, completed=now.done, description=f"cells done{failed}")
        if not self._console.is_terminal:
            return
        names = {job.cell.name for job in now.running}
        for name in [name for name in self._each if name not in names]:
            self._live.remove_task(self._each.pop(name))
        for job in now.running:
            self._follow(job)

    def ended(self, cell: Cell, error: str, seconds: float) -> None:
        """A line about a cell that ended."""
        what = f"failed: {error}" if error else f"done in {seconds:.0f} s"
        self._console.print(f"{cell.place}: {what}", markup=False, highlight=False, soft_wrap=True)

    def _follow(self, job: Running) -> None:
        epoch, epochs = epochs_of(self._cells / job.cell.name)
        if job.cell.name not in self._each:
            self._each[job.cell.name] = self._live.add_task(f"  {job.cell.place}", total=epochs)
        self._live.update(self._each[job.cell.name], completed=epoch, total=epochs)


def _say(files: list[Path], failed: list[Cell], errors: dict[str, str], runs: Path) -> None:
    """The tables, where everything is, and what failed."""
    console = Console(soft_wrap=True, highlight=False, markup=False)
    for path in files:
        if path.suffix == ".md" and path.stem != SETTINGS:
            typer.echo(path.read_text(encoding="utf-8"))
    for path in files:
        console.print(f"written: {path}")
    for cell in failed:
        console.print(f"failed:  {cell.place} ({runs / cell.name}): {errors[cell.name]}")


def _split(text: str | None) -> tuple[str, ...] | None:
    if text is None:
        return None
    names = tuple(word.strip() for word in text.split(",") if word.strip())
    if not names:
        raise BadInput(f"expected names such as ce,dpc, but {text!r} has none.")
    return names


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
