"""`labelproof bench`: its options and help; what does the work is imported when it is wanted."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from labelproof.process_memory import paused

OUT = Path("runs/bench")
SCALE = "small"
Name = Annotated[
    str | None,
    typer.Argument(metavar="EXPERIMENT", help="Name of an experiment; leave it out to list all."),
]
ScaleName = Annotated[
    str,
    typer.Option(
        help="paper: published settings, needs a GPU; small: an evening on two cores; tiny: a "
        "minute or two, needs no data."
    ),
]
Data = Annotated[
    Path | None,
    typer.Option(
        help="Folder with the published CIFAR or WebVision files, an .npz with train_images, "
        "train_labels, test_images and test_labels, or for vectors the .npz of features."
    ),
]
HumanLabels = Annotated[
    Path | None,
    typer.Option(help=".npz with the label sets of CIFAR-10N (aggre, rand1, ..., worst)."),
]
Out = Annotated[Path, typer.Option(help="Folder for runs, results, tables and figures.")]
Jobs = Annotated[
    int | None,
    typer.Option(help="Number of parallel runs; by default one for each GPU, or each core.", min=1),
]
Device = Annotated[
    str,
    typer.Option(
        help="auto (all GPUs, one per run, or else the cores), cpu, cuda, or one GPU such as "
        "cuda:1."
    ),
]
LauncherName = Annotated[
    str,
    typer.Option(
        "--launcher",
        help="local: each run is one process; torchrun: several processes train each run, one "
        "for each of its GPUs or cores (by default one run at a time).",
    ),
]
Seeds = Annotated[
    int | None, typer.Option(help="Number of seeds (0, 1, ...) for every cell.", min=1)
]
Methods = Annotated[str | None, typer.Option(help="Only these methods, such as ce,dpc.")]
Labels = Annotated[str | None, typer.Option(help="Only these label sets, such as clean,worst.")]
Only = Annotated[
    str | None,
    typer.Option(help="Only cells whose row, column, seed or folder contains this text."),
]
Epochs = Annotated[
    int | None, typer.Option(help="Epochs of every run, instead of the scale's.", min=1)
]
Images = Annotated[
    int | None,
    typer.Option(
        help="Images to train on, drawn once with seed 0, instead of the scale's (for pictures).",
        min=100,
    ),
]
Blocks = Annotated[
    bool,
    typer.Option(
        "--blocks",
        help="Asymmetric noise of CIFAR-100 within blocks of five consecutive labels, as in most "
        "published results, not within superclasses.",
    ),
]
DryRun = Annotated[
    bool, typer.Option("--dry-run", help="Print the grid and how long it would take; run nothing.")
]
PrintCells = Annotated[
    bool,
    typer.Option(
        "--print-cells",
        help="Print a command for each unfinished cell, for a cluster; run nothing.",
    ),
]
CellName = Annotated[
    str | None, typer.Option("--cell", help="Run this cell alone, as --print-cells prints it.")
]
Collect = Annotated[
    bool,
    typer.Option("--collect", help="Write tables and figures of the finished cells; run nothing."),
]


def bench(
    ctx: typer.Context,
    name: Name = None,
    scale: ScaleName = SCALE,
    data: Data = None,
    human_labels: HumanLabels = None,
    out: Out = OUT,
    jobs: Jobs = None,
    device: Device = "auto",
    launcher: LauncherName = "local",
    seeds: Seeds = None,
    methods: Methods = None,
    labels: Labels = None,
    only: Only = None,
    epochs: Epochs = None,
    images: Images = None,
    blocks: Blocks = False,
    dry_run: DryRun = False,
    print_cells: PrintCells = False,
    cell: CellName = None,
    collect: Collect = False,
) -> None:
    """Run an experiment and write its tables and figures.

    An experiment is a grid of cells, each a run folder. To continue an interrupted grid, give the
    same command again: finished cells are not run twice, even if several experiments share them. A
    cell that fails does not stop the others.

    Example: labelproof bench ablation --scale tiny
    """
    with paused():
        from labelproof.bench.command import bench_as_asked

    bench_as_asked(ctx.params)
