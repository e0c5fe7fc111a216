"""`labelproof bench`: its options and help; what does the work is imported when it is wanted."""

from __future__ import annotations

from labelproof.bench import command_options as opt
from labelproof.process_memory import paused


def bench(
    name: opt.Name = None,
    scale: opt.ScaleName = opt.SCALE,
    data: opt.Data = None,
    human_labels: opt.HumanLabels = None,
    out: opt.Out = opt.OUT,
    jobs: opt.Jobs = None,
    device: opt.Device = "auto",
    launcher: opt.LauncherName = "local",
    seeds: opt.Seeds = None,
    methods: opt.Methods = None,
    labels: opt.Labels = None,
    only: opt.Only = None,
    epochs: opt.Epochs = None,
    images: opt.Images = None,
    blocks: opt.Blocks = False,
    dry_run: opt.DryRun = False,
    print_cells: opt.PrintCells = False,
    cell: opt.CellName = None,
    collect: opt.Collect = False,
) -> None:
    """Run an experiment and write its tables and figures.

    An experiment is a grid of cells, each a run folder. To continue an interrupted grid, give the
    same command again: finished cells are not run twice, even if several experiments share them. A
    cell that fails does not stop the others.

    Example: labelproof bench ablation --scale tiny
    """
    with paused():
        from labelproof.bench.command import bench_as_asked

    bench_as_asked(
        name=name,
        scale=scale,
        data=data,
        human_labels=human_labels,
        out=out,
        jobs=jobs,
        device=device,
        launcher=launcher,
        seeds=seeds,
        methods=methods,
        labels=labels,
        only=only,
        epochs=epochs,
        images=images,
        blocks=blocks,
        dry_run=dry_run,
        print_cells=print_cells,
        cell=cell,
        collect=collect,
    )
