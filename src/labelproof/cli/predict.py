"""`labelproof predict`: what a trained model says of new data."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.progress import Progress

from labelproof.cli import options as opt
from labelproof.cli.read_data import read_like
from labelproof.errors import BadInput
from labelproof.runs.load import load_model
from labelproof.runs.predictions import Written, check_replaced, write_predictions


def predict(
    run: Annotated[Path, typer.Argument(help="The folder of a finished run.", metavar="RUN")],
    data: opt.NewData,
    out: Annotated[Path, typer.Option(help="The CSV to write.")] = Path("predictions.csv"),
    label_key: opt.LabelKey = "y",
    label_column: opt.LabelColumn = None,
    file_column: opt.FileColumn = None,
    text_column: opt.TextColumn = None,
    id_column: opt.IdColumn = None,
    merge_labels: opt.MergeLabels = False,
    data_dir: opt.DataDir = None,
    max_bad: opt.MaxBad = 0.01,
    cache: opt.Cache = None,
    memory_gb: opt.MemoryGb = 2.0,
    encoder: opt.EncoderFile = None,
    device: opt.Device = "auto",
) -> None:
    """Predict new data: label, calibrated confidence, uncertainty, and all probabilities.

    DATA is read like the training data and needs no labels. Uncertainty runs from 0 to 1. For DPC
    and other evidential methods it says how little evidence there is; for the others it is the
    entropy of the probabilities.

    Earlier predictions at --out are replaced; any other file there is left alone.

    Example: labelproof predict runs/digits-dpc new.npz --out predictions.csv
    """
    reading = opt.source_options(locals())
    loaded = load_model(run, encoder=encoder, device=device)
    if Path(data).exists() and out.exists() and out.samefile(data):
        raise BadInput(f"{out} is the data itself; name another --out.")
    replaced = check_replaced(out)
    examples = read_like(data, reading, loaded.like)
    console = Console(stderr=True)
    with Progress(console=console, transient=True, disable=not console.is_terminal) as bar:
        task = bar.add_task("predicting", total=len(examples))
        written = write_predictions(
            loaded.model, examples, out, lambda done: bar.update(task, completed=done)
        )
    Console(soft_wrap=True, highlight=False).print(in_words(written, out, replaced))


def in_words(written: Written, out: Path, replaced: bool = False) -> str:
    """What was written, and how far it agrees with labels that came along."""
    text = f"{written.rows} predictions: {out}" + " (earlier ones replaced)" * replaced
    if written.labelled:
        share = written.agreeing / written.labelled
        text += f"\nThey agree with {share:.1%} of the labels that came with the data."
    return text
