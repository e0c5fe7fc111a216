"""Options that several commands share, with the help that teaches them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from enum import StrEnum
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from labelproof.choices import How

if TYPE_CHECKING:
    from labelproof.data.readers import SourceOptions

# options under a heading of their own
reading = partial(typer.Option, rich_help_panel="Reading the data")
training = partial(typer.Option, rich_help_panel="Training")
judging = partial(typer.Option, rich_help_panel="Judging labels")

DATA_HELP = (
    "A built-in name (digits, cifar10, ...), an .npz file, a folder of class folders, a CSV or "
    "Parquet table, or a saved Hugging Face dataset."
)
Data = Annotated[str | None, typer.Argument(help=DATA_HELP, show_default=False)]
NewData = Annotated[str, typer.Argument(help=DATA_HELP)]
From = Annotated[
    Path | None,
    reading(
        "--from",
        metavar="RUN",
        help="Repeat this run (its folder or run.json). Other options change its settings.",
    ),
]
Reviewed = Annotated[
    Path | None,
    reading(
        help="A reviewed run on the same data. Its decisions are used and stay fixed; removed "
        "examples are left out.",
        metavar="RUN",
    ),
]
Labels = Annotated[
    Path | None,
    reading(
        help="Labels in a file of their own. For a flat folder of images: a CSV. For an .npy: an "
        ".npy or CSV in the same order. For a table or .npz: a CSV of several people's "
        "votes, matched by id, with the columns id,annotator,label or one column per person."
    ),
]
LabelKey = Annotated[str, reading(help="Array of an .npz with the given labels.")]
TruthKey = Annotated[
    str | None,
    reading(help="Array or column with true labels: only for measuring, never for training."),
]
LabelColumn = Annotated[str | None, reading(help="Column of a table with the labels.")]
FileColumn = Annotated[str | None, reading(help="Column of a table with image paths.")]
TextColumn = Annotated[str | None, reading(help="Column of a table with texts.")]
Files = Annotated[
    Path | None,
    reading(help="CSV with the picture file of each vector of an .npz, for report and review."),
]
IdColumn = Annotated[str | None, reading(help="Column of a table that names each row.")]
Annotators = Annotated[
    list[str] | None,
    reading(
        metavar="NAME",
        help="Columns (arrays of an .npz) with one person's labels each, by name or pattern such "
        "as 'rater_*', in capitals or not; repeatable.",
    ),
]
AnnotatorColumn = Annotated[
    str | None,
    reading(
        help="Column that says who gave the label, in a table with one vote per row. The column "
        "of ids must be called id, or be named with --id-column."
    ),
]
Group = Annotated[
    str | None,
    reading(
        help="Column (array of an .npz) with the source, month or other group of each example, to "
        "report wrong labels by group; not used for training."
    ),
]
DropColumn = Annotated[
    list[str] | None, reading(help="Column of a table to leave out; repeatable.")
]
MergeLabels = Annotated[
    bool,
    reading(
        "--merge-labels",
        help="Merge labels that differ only in capitals or blanks, such as OK and ok.",
    ),
]
SkipUnlabelled = Annotated[
    bool,
    reading(
        "--skip-unlabelled",
        help="Leave out examples without a label or a vote, and say how many; without this they "
        "stop the run.",
    ),
]
Multilabel = Annotated[
    list[str] | None,
    reading(
        help="Columns of a table with several labels per example, by name or pattern such as "
        "'tag_*'; repeatable. Each column gets its own run; one report covers all."
    ),
]
DataDir = Annotated[Path | None, reading(help="Folder with the files of a benchmark set.")]
ImageSize = Annotated[int | None, reading(help="Scale images to this edge length, in pixels.")]
MaxBad = Annotated[float, reading(help="Stop if more than this share of the files is unreadable.")]
Cache = Annotated[
    Path | None,
    reading(
        help="Folder for encoded vectors and for vectors that do not fit into memory. If you name "
        "one, decoded images are stored there too, and later runs read them back.",
    ),
]
MemoryGb = Annotated[float, reading(help="Keep images and vectors in memory up to this size.")]
TextModel = Annotated[
    Path | None, reading(help="Folder with a transformer model to embed texts with.")
]
EncoderFile = Annotated[
    str | None,
    reading(
        "--encoder",
        help="The encoder's file or folder. Needed for a run folder that somebody else made with "
        "one.",
    ),
]
Flip = Annotated[
    bool | None,
    reading(
        "--flip/--no-flip",
        help="Whether mirrored images keep their label (not for digits and letters).",
        show_default="yes, except for digits and mnist",
    ),
]
Test = Annotated[
    str | None,
    reading(
        help="Test data with trusted labels. It is measured after every epoch and never used to "
        "choose."
    ),
]
Noise = Annotated[
    str | None,
    reading(
        help="Add wrong labels on purpose to test a method, such as symmetric:0.4 or pair:0.3; "
        "docs/data.md lists the kinds."
    ),
]
MethodName = Annotated[
    str,
    training(
        "--method",
        "-m",
        help="auto (DPC, combined with a regression and a random forest where these help), or a "
        "single method that `labelproof methods` lists.",
    ),
]
Net = Annotated[
    str,
    training(
        help="auto (depends on the data's size or the recipe), preact18, preact18_he, "
        "preact18_narrow, preact32, resnet14, resnet32, resnet44, resnet56, resnet34, "
        "resnet50, resnet101, wrn28_10, inception_resnet_v2, compact, cnn9, cnn8, cnn6, "
        "lenet, cnn, mlp; or timm:NAME, a pretrained network to fine-tune."
    ),
]
Encoder = Annotated[
    str,
    training(
        help="Encoder that turns pictures or texts into vectors before training: auto, none "
        "(train on pixels from scratch), a name that `labelproof encoders` lists, "
        "timm:NAME, hf:NAME or an ONNX file."
    ),
]
Epochs = Annotated[int | None, training(help="Number of passes over the data.")]
Recipe = Annotated[
    str | None,
    training(
        help="Start from published settings, such as cifar10-symmetric-0.5. For dpc, `paper` "
        "runs the published algorithm on your own data; on vectors its lengths, rates and "
        "lambda_u are ours. `labelproof methods --json` lists all recipes, and which are ours."
    ),
]
Set = Annotated[
    list[str] | None,
    training(
        "--set", metavar="NAME=VALUE", help="Change a hyper-parameter, such as lr=0.01; repeatable."
    ),
]
Calibrate = Annotated[
    How | None,
    training(
        help="How to judge labels. folds: train again without each of two to ten folds, and "
        "judge each label by a network that was not trained on it (best, takes longest). "
        "quick: judge by the run's own networks. off: do not judge. Default: folds, or "
        "quick with --recipe.",
        show_default=False,
    ),
]
ReviewBudget = Annotated[
    int | None,
    judging(help="Number of suspects: the labels that are most likely wrong.", show_default=False),
]
Seed = Annotated[int, training(help="Seed of all random numbers.")]
Device = Annotated[str, training(help="auto, cpu, cuda or mps.")]
PrecisionName = Annotated[
    str,
    judging(
        "--precision",
        metavar="NUMBER|auto|fp32|bf16",
        help="A number such as 0.8: list as many suspects as keep this expected precision. A "
        "word: the number type of the network's trunk; auto uses bf16 only on GPUs.",
    ),
]
Compile = Annotated[
    bool,
    training(
        "--compile",
        help="Speed up the network with torch.compile. If that fails, train without it.",
    ),
]
Deterministic = Annotated[
    bool,
    training(
        "--deterministic",
        help="On a GPU: use deterministic operations, so that results repeat bit by bit. Slower.",
    ),
]

Out = Annotated[Path | None, typer.Option(help="Run folder; by default runs/DATA-METHOD.")]
Tensorboard = Annotated[
    bool, typer.Option("--tensorboard", help="Also write curves to RUN/tensorboard.")
]
Resume = Annotated[
    bool,
    typer.Option(
        "--resume",
        help="Continue the run in --out. Start it if there is none; do nothing if it is finished.",
    ),
]
Details = Annotated[
    bool,
    typer.Option(
        "--details", "--verbose", help="Also print every setting, the network and memory."
    ),
]
ShowViews = Annotated[
    Path | None,
    typer.Option(help="Save a picture of the augmented images that the method trains on."),
]


RunFolder = Annotated[Path, typer.Argument(help="The folder of a finished run.", metavar="RUN")]
DataOf = Annotated[
    str | None,
    typer.Option(
        help="Path of the run's data. Needed for a run folder that somebody else made, because "
        "the files that it names are not read."
    ),
]


class Format(StrEnum):
    """What can be written."""

    onnx = "onnx"
    folder = "folder"
    label_studio = "label-studio"
    fiftyone = "fiftyone"
    huggingface = "huggingface"
    table = "table"


def source_options(given: Mapping[str, Any]) -> SourceOptions:
    """The options on reading among a command's arguments, which go by the same names."""
    from labelproof.data.readers import SourceOptions  # loads PyTorch, which help does without

    names = {field.name for field in fields(SourceOptions)} & given.keys()
    dropped = tuple(given.get("drop_column") or ())
    return SourceOptions(drop_columns=dropped, **{name: given[name] for name in names})
