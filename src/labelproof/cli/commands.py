"""The options and help of the shorter commands.

What does the work is imported when it is wanted: most of it needs PyTorch, and help does not.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from labelproof.choices import NOISE_KINDS
from labelproof.cli import options as opt
from labelproof.errors import BadInput
from labelproof.process_memory import paused

JSON_HELP = (
    "Print JSON, with every setting and its default. `recipes` lists the names for --recipe; "
    "`recipes_ours` lists those for which the authors gave no values."
)
NEEDS_DATA = ("instance", "pmd-1", "pmd-2", "pmd-3")  # not for labels alone
KINDS_SHOWN = (
    ", ".join(
        "matrix:FILE" if kind == "matrix" else kind
        for kind in NOISE_KINDS
        if kind not in NEEDS_DATA
    )
    + "; options follow after commas, as in pair,select=per-class"
)


def demo(
    out: Annotated[
        Path | None,
        typer.Option(help="Folder for the runs; by default runs/demo or runs/demo-photos."),
    ] = None,
    seed: Annotated[int, typer.Option(help="Seed of all random numbers.")] = 0,
    photos: Annotated[
        bool,
        typer.Option(
            "--photos",
            help="Use photos and a pretrained encoder; takes a few minutes on two cores.",
        ),
    ] = False,
) -> None:
    """Compare plain training with DPC on digits with 40% of the labels replaced at random.

    Takes one to two minutes on two cores. An earlier demo in the same folder is continued or shown.
    """
    with paused():
        from labelproof.cli.demo import demo_as_asked

    demo_as_asked(out, seed, photos)


def report(run: opt.RunFolder, data: opt.DataOf = None) -> None:
    """Write report.html of RUN again: findings, pictures of suspects, what to do next.

    The data is read again for the pictures. If it is missing or has changed, the report leaves
    them out and says so.

    Example: labelproof report runs/digits-dpc
    """
    with paused():
        from labelproof.cli.make_report import report_as_asked

    report_as_asked(run, data)


def review(
    run: opt.RunFolder,
    data: opt.DataOf = None,
    port: Annotated[
        int | None, typer.Option(help="Port of the page; by default a free one.")
    ] = None,
    no_browser: Annotated[
        bool, typer.Option("--no-browser", help="Only print the address of the page.")
    ] = False,
    next_: Annotated[
        bool,
        typer.Option(
            "--next",
            help="List the labels that are most useful to check next, and exit. Decisions so far "
            "are taken into account. `gain` is the probability that the likelier of the given and "
            "the suggested label is wrong, times the one label that a check then corrects. Piped "
            "output has columns separated by tabs.",
        ),
    ] = False,
    count: Annotated[int, typer.Option(help="How many labels --next lists.", min=1)] = 20,
    export: Annotated[
        Path | None,
        typer.Option(
            help="Write corrected labels to this file and exit: .csv in the format of the input, "
            ".npy, .parquet, .json for Label Studio, .jsonl for Hugging Face."
        ),
    ] = None,
    import_: Annotated[
        Path | None,
        typer.Option(
            "--import",
            help="Import answers as decisions and exit: Label Studio's JSON, JSON-MIN or CSV "
            "export, FiftyOne samples, or a .csv or .jsonl with the columns id and label.",
        ),
    ] = None,
) -> None:
    """Review the suspects of RUN in your browser: keep, correct or skip each label.

    Only this computer can open the page. Every decision is saved immediately, in decisions.jsonl of
    the run folder, so you can stop and continue at any time. Then train again:
    labelproof fit DATA --reviewed RUN

    Example: labelproof review runs/digits-dpc
    """
    with paused():
        from labelproof.cli.start_review import review_as_asked

    review_as_asked(
        run,
        data=data,
        port=port,
        no_browser=no_browser,
        next_=next_,
        count=count,
        export=export,
        import_=import_,
    )


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
    given = locals()
    with paused():
        from labelproof.cli.predict import predict_as_asked

    reading = opt.source_options(given)
    predict_as_asked(run, data, out=out, reading=reading, encoder=encoder, device=device)


def export(
    run: Annotated[Path, typer.Argument(help="The folder of a finished run.", metavar="RUN")],
    format_: Annotated[
        opt.Format,
        typer.Option(
            "--format",
            help="For the model: onnx, or folder (safetensors and JSON). For the labels: "
            "label-studio (tasks with suggestions), fiftyone (JSON samples), huggingface (a "
            "saved data set) or table (.csv or .parquet with your columns and the findings).",
        ),
    ] = opt.Format.onnx,
    out: Annotated[
        Path | None,
        typer.Option(help="Where to write; by default a file named after the format in RUN."),
    ] = None,
    data: opt.DataOf = None,
    encoder: opt.EncoderFile = None,
) -> None:
    """Export the trained model of RUN, or the findings about its labels, for other tools.

    The ONNX file takes raw uint8 images or raw vectors and returns calibrated probabilities. It
    contains the image encoder, normalisation, all networks and the calibration. For texts, the
    export is a folder with tokenizer, ONNX file and a README that shows how to use them. --format
    folder is for labelproof.load_model and `labelproof predict`; loading it runs no code. Neither
    contains training labels.

    To import answers from Label Studio or FiftyOne: labelproof review RUN --import FILE

    Example: labelproof export runs/digits-dpc --format onnx --out model.onnx
    """
    with paused():
        from labelproof.cli.export_model import export_as_asked

    export_as_asked(run, format_, out, data, encoder)


def methods(
    name: Annotated[
        str | None, typer.Argument(help="Show paper, cost, settings and recipes of this method.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help=JSON_HELP)] = False,
) -> None:
    """List all methods, or show one with its paper, cost and settings.

    Example: labelproof methods dpc
    """
    with paused():
        from labelproof.cli.list_methods import list_methods

    list_methods(name, as_json)


def embed(
    ctx: typer.Context,
    data: opt.Data = None,
    labels: opt.Labels = None,
    label_column: opt.LabelColumn = None,
    file_column: opt.FileColumn = None,
    id_column: opt.IdColumn = None,
    image_size: opt.ImageSize = None,
    max_bad: opt.MaxBad = 0.01,
    cache: opt.Cache = None,
    memory_gb: opt.MemoryGb = 2.0,
    encoder: opt.Encoder = "auto",
    shard: Annotated[
        str,
        typer.Option(
            help="Which part to encode, such as 1/8. Each part can be encoded on another machine."
        ),
    ] = "1/1",
    out: Annotated[Path, typer.Option(help="Folder for the shards.")] = Path("vectors"),
) -> None:
    """Encode the pictures of DATA and write their vectors, for `labelproof fit FOLDER`.

    If pictures differ in size, give --image-size, so that all shards use the same one.

    Example: labelproof embed photos --shard 1/4 --out vectors
    """
    with paused():
        from labelproof.cli.encoders_embed import embed_as_asked

    embed_as_asked(ctx, shard, out)


def encoders(
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """List the encoders with size, licence, whether they are installed, and measured speed."""
    with paused():
        from labelproof.cli.encoders_embed import list_encoders

    list_encoders(as_json)


def corrupt(
    labels: Annotated[Path, typer.Argument(help="A CSV with a label column, or an .npy array.")],
    kind: Annotated[str, typer.Option(help=f"{KINDS_SHOWN}.")] = "symmetric",
    rate: Annotated[
        float | None,
        typer.Option(
            help="Noise rate, 0 to 1. symmetric-exclusive changes exactly this share. symmetric "
            "redraws this share, some of it to the same label, so fewer change. Other kinds "
            "change each label they concern with this probability. Not for --kind matrix:FILE."
        ),
    ] = None,
    seed: Annotated[
        int, typer.Option(help="Random seed: decides which labels change, and to what.")
    ] = 0,
    label_column: Annotated[
        str | None,
        typer.Option(help="Column with the labels; by default found by its name."),
    ] = None,
    out: Annotated[
        Path | None, typer.Option(help="File to write; by default next to LABELS.")
    ] = None,
) -> None:
    """Write a copy of LABELS with label noise. The original stays as it is.

    Example: labelproof corrupt labels.csv --kind symmetric --rate 0.4
    """
    if rate is None and not kind.startswith("matrix"):
        name = kind.split(",")[0].strip()
        raise BadInput(f"Noise of kind {name} needs a rate from 0 to 1; add --rate 0.4.")
    with paused():
        from labelproof.noise import corrupt_file
    made = corrupt_file(labels, kind, rate, seed=seed, out=out, label_column=label_column)
    count = len(made.noise.labels)
    changed = round(made.noise.realised * count)
    typer.echo(
        f"{changed} of {count} labels are wrong now ({made.noise.realised:.1%}).\nLabels: "
        f"{made.out}\nActual noise rate and transition matrix: {made.record}"
    )
