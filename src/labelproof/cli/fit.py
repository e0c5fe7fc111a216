"""`labelproof fit`: train on the user's data and judge every label."""

from __future__ import annotations

import json
import shlex
import sys
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console

from labelproof.cli import options as opt
from labelproof.cli.read_data import read
from labelproof.pipeline import fit as train
from labelproof.recipes.recipe import check_names, chosen_method, chosen_net
from labelproof.runs import folder as runfolder
from labelproof.training.log import reporter_for
from labelproof.training.settings import split_settings
from labelproof.training.tensorboard import Tensorboard


def fit(
    data: opt.Data,
    labels: opt.Labels = None,
    label_key: opt.LabelKey = "y",
    truth_key: opt.TruthKey = None,
    label_column: opt.LabelColumn = None,
    file_column: opt.FileColumn = None,
    text_column: opt.TextColumn = None,
    id_column: opt.IdColumn = None,
    drop_column: opt.DropColumn = None,
    data_dir: opt.DataDir = None,
    image_size: opt.ImageSize = None,
    max_bad: opt.MaxBad = 0.01,
    cache: opt.Cache = None,
    memory_gb: opt.MemoryGb = 2.0,
    text_model: opt.TextModel = None,
    test: opt.Test = None,
    flip: opt.Flip = None,
    noise: opt.Noise = None,
    reviewed: Annotated[
        Path | None,
        typer.Option(
            help="A reviewed run on the same data; its decisions are put in and held fixed.",
            metavar="RUN",
            rich_help_panel=opt.READING,
        ),
    ] = None,
    method: opt.MethodName = "dpc",
    net: opt.Net = "auto",
    epochs: opt.Epochs = None,
    recipe: opt.Recipe = None,
    set_: opt.Set = None,
    calibrate: opt.Calibrate = None,
    seed: opt.Seed = 0,
    device: opt.Device = "auto",
    out: Annotated[
        Path | None, typer.Option(help="Run folder; runs/DATA-METHOD where left out.")
    ] = None,
    tensorboard: Annotated[
        bool, typer.Option("--tensorboard", help="Also write curves to RUN/tensorboard.")
    ] = False,
    resume: Annotated[bool, typer.Option("--resume", help="Continue the run in --out.")] = False,
) -> None:
    """Train on DATA, whose labels may be partly wrong, and write down which labels look wrong.

    The run folder holds labels.csv (every label, the most suspicious first, with a suggestion),
    summary.json, the model, and a checkpoint after every epoch: a run that was stopped goes on with
    --resume.

    Example: labelproof fit digits --noise symmetric:0.4
    """
    reading = opt.source_options(locals())
    changes = split_settings(set_ or []) | ({"epochs": str(epochs)} if epochs is not None else {})
    check_names(method, changes, recipe)
    examples, tests = read(data, test, reading, flip)
    record = chosen_method(method, examples.kind, changes, recipe, len(examples))
    folder = out or runfolder.free_name(Path("runs") / f"{Path(data).stem}-{method}")
    console = Console(stderr=True)
    reporter = reporter_for(console)
    if tensorboard:
        reporter = Tensorboard(folder / "tensorboard", reporter)
    try:
        train(
            examples,
            record,
            name=method,
            test=tests,
            noise=noise,
            reviewed=reviewed,
            net=chosen_net(net, method, examples.kind, recipe),
            seed=seed,
            device=device,
            out=folder,
            resume=resume,
            reporter=reporter,
            how=opt.chosen_how(calibrate, recipe),
            reading={"data": data, "test": test, "options": asdict(reading)},
            command=sys.argv,
        )
    except KeyboardInterrupt:
        words = [word for word in sys.argv[1:] if word != "--resume"]
        named = words if out else [*words, "--out", str(folder)]
        console.print(
            f"\nStopped. Everything up to the last whole epoch is saved; go on with:\n"
            f"  labelproof {shlex.join(named)} --resume",
            soft_wrap=True,
            highlight=False,
        )
        sys.exit(130)
    Console(soft_wrap=True, highlight=False).print(in_words(folder))


def in_words(folder: Path) -> str:
    """What a run found, in plain language."""
    summary = json.loads((folder / "summary.json").read_text(encoding="utf-8"))
    record = runfolder.read_record(folder)
    size, suspects = record["task"]["size"], summary["suspects"]
    lines = [
        *summary["doubts"],
        f"{suspects} of {size} labels look wrong ({suspects / size:.1%}); "
        f"estimated share of wrong labels {summary['noise_rate_estimate']:.1%}.",
    ]
    settled = (record.get("chosen") or {}).values()
    lines += [choice["why"] for choice in settled if choice["trials"]]
    lines += _measured(summary)
    lines.append(f"The report, for a browser: {folder / 'report.html'}")
    lines.append(f"Every label, the most suspicious first: {folder / 'labels.csv'}")
    return "\n".join(lines)


def _measured(summary: dict[str, Any]) -> list[str]:
    lines = []
    if summary["accuracy"]:
        accuracy = summary["accuracy"]
        lines.append(
            f"Test accuracy {accuracy['last']:.1%} after the last epoch (mean of the last ten "
            f"{accuracy['last10']:.1%}, best {accuracy['best']:.1%}, chosen on the test set), "
            f"calibration error {summary['ece_calibrated']:.3f} ({summary['ece']:.3f} before "
            "calibration)."
        )
    found = summary["suspect_detection"]
    if found and found["precision"] is not None and summary["error_auroc"] is not None:
        lines.append(
            f"Against the true labels: {found['precision']:.1%} of the suspects are wrong, "
            f"{found['recall'] or 0:.1%} of the wrong labels are among them, "
            f"AUROC {summary['error_auroc']:.3f}."
        )
    return lines
