"""What a person asked of the bench: the experiment, its cells to run, the command itself."""

from __future__ import annotations

import importlib
import shlex
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from labelproof.bench import gpus
from labelproof.bench.bench_options import OUT, SCALE
from labelproof.bench.cell import Cell, Experiment, Scale, Sources
from labelproof.bench.results import is_done
from labelproof.bench.runner import Launcher, cores, run_cells
from labelproof.errors import BadInput
from labelproof.training.settings import nearest

TOLD = 50  # cells that are missing, by name


def at_a_time() -> int:
    """Runs at a time unless told: one for each GPU that may be used, or for each core."""
    return len(gpus.visible()) or cores()


@dataclass(frozen=True)
class Asked:
    """What a person asked of the bench."""

    experiment: Experiment
    scale: Scale
    sources: Sources
    seeds: int | None = None
    only: str | None = None
    jobs: int = field(default_factory=at_a_time)
    launcher: Launcher = "local"
    device: str = "auto"

    def cells(self) -> list[Cell]:
        """The whole grid."""
        name, sources = self.experiment.name, self.sources
        asked = {"methods": sources.methods, "labels": sources.labels, "images": sources.images}
        for option, value in asked.items():
            if value and option not in self.experiment.takes:
                raise BadInput(
                    f"{name} does not take --{option}, because its grid is fixed; leave it out, "
                    "and choose cells with --only."
                )
        if sources.out.is_file():
            raise BadInput(f"{sources.out} is a file; name a folder with --out.")
        return self.experiment.cells(
            self.scale, sources, self.seeds or self.experiment.seeds[self.scale]
        )

    def picked(self, cells: list[Cell]) -> list[Cell]:
        """The cells to run now."""
        found = [c for c in cells if self.only is None or self.only in f"{c.place} {c.name}"]
        if not found:
            raise BadInput(
                f"no cell contains {self.only!r}; --dry-run without --only shows all cells."
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
            "--jobs": self.jobs if self.jobs != at_a_time() else None,
            "--device": self.device if self.device != "auto" else None,
            "--seeds": self.seeds,
            "--methods": ",".join(sources.methods) if sources.methods else None,
            "--labels": ",".join(sources.labels) if sources.labels else None,
            "--only": self.only,
            "--epochs": sources.epochs,
            "--images": sources.images,
            "--launcher": self.launcher if self.launcher != "local" else None,
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
        usual = replace(self, only=None, jobs=at_a_time(), launcher="local", device="auto")
        return replace(usual, sources=here).command()


def _named(path: Path | None) -> Path | None:
    """An absolute path as a name alone."""
    return Path(path.name) if path is not None and path.is_absolute() else path


def check_any(cells: Sequence[Cell], runs: Path) -> None:
    """Refuse to collect what is not there."""
    if not any(is_done(cell, runs) for cell in cells):
        raise BadInput(
            f"no cell of this grid is finished in {runs}; run some first, or name the --out and "
            "the options that they were run with."
        )


def missing_lines(cells: Sequence[Cell], runs: Path) -> list[str]:
    """How many cells of the grid are not finished, and which."""
    unique = {cell.name: cell for cell in cells}
    missing = [cell for cell in unique.values() if not is_done(cell, runs)]
    if not missing:
        return []
    told = [f"missing: {cell.place} ({runs / cell.name})" for cell in missing[:TOLD]]
    more = [f"and {len(missing) - TOLD} more"] if len(missing) > TOLD else []
    count = f"{len(missing)} of {len(unique)} cells"
    return [f"not finished: {count}; --print-cells prints their commands:", *told, *more]


def cell_commands(asked: Asked, picked: Sequence[Cell], runs: Path) -> list[str]:
    """A command for each cell that is not finished; they can run anywhere, in any order."""
    waiting = {cell.name: cell for cell in picked if not is_done(cell, runs)}
    return [f"{asked.command()} --cell {shlex.quote(name)}" for name in waiting]


def run_one(
    cells: Sequence[Cell], name: str, runs: Path, jobs: int, launcher: Launcher = "local"
) -> str:
    """Run the cell with this name alone; its error, or nothing."""
    chosen = [cell for cell in cells if cell.name == name]
    if not chosen:
        raise BadInput(f"this grid has no cell {name!r}; --print-cells prints them all.")
    runs.mkdir(parents=True, exist_ok=True)
    errors = run_cells(
        chosen[:1], runs, jobs, show=lambda _: None, ended=lambda *_: None, launcher=launcher
    )
    return errors.get(name, "")


def chosen(
    what: str, asked: Sequence[str] | None, known: Sequence[str], usual: Sequence[str]
) -> tuple[str, ...]:
    """What the user asked for, or the usual; an unknown name is refused."""
    for name in asked or ():
        if name not in known:
            raise BadInput(f"there is no {what} {name!r} here; {nearest(name, list(known))}.")
    return tuple(dict.fromkeys(asked or usual))


NAMES = (
    "synthetic",
    "cifarn",
    "webvision",
    "ablation",
    "beta",
    "gamma",
    "overconfidence",
    "vectors",
    "pictures",
    "images",
    "digits",
    "lambda_u",
    "yardstick",
)
SHARED = {  # files with several experiments
    **dict.fromkeys(("beta", "gamma"), "curves"),
    **dict.fromkeys(("vectors", "images", "digits"), "every_method"),
}


def experiment(name: str) -> Experiment:
    """The experiment called `name`."""
    if name not in NAMES:
        raise BadInput(f"there is no experiment {name!r}; {nearest(name, list(NAMES))}.")
    module = importlib.import_module(f"labelproof.bench.experiments.{SHARED.get(name, name)}")
    found = module.EXPERIMENTS[name] if name in SHARED else module.EXPERIMENT
    assert isinstance(found, Experiment)
    return found
