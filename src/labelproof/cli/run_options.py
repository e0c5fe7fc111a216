"""`labelproof fit` and `labelproof plan`: their options and help."""

from __future__ import annotations

import os
import sys

import typer

from labelproof.cli import options as opt
from labelproof.process_memory import paused


def fit(
    ctx: typer.Context,
    data: opt.Data = None,
    from_: opt.From = None,
    labels: opt.Labels = None,
    label_key: opt.LabelKey = "y",
    truth_key: opt.TruthKey = None,
    label_column: opt.LabelColumn = None,
    files: opt.Files = None,
    file_column: opt.FileColumn = None,
    text_column: opt.TextColumn = None,
    id_column: opt.IdColumn = None,
    annotators: opt.Annotators = None,
    annotator_column: opt.AnnotatorColumn = None,
    group: opt.Group = None,
    drop_column: opt.DropColumn = None,
    merge_labels: opt.MergeLabels = False,
    skip_unlabelled: opt.SkipUnlabelled = False,
    multilabel: opt.Multilabel = None,
    data_dir: opt.DataDir = None,
    image_size: opt.ImageSize = None,
    max_bad: opt.MaxBad = 0.01,
    cache: opt.Cache = None,
    memory_gb: opt.MemoryGb = 2.0,
    text_model: opt.TextModel = None,
    test: opt.Test = None,
    flip: opt.Flip = None,
    noise: opt.Noise = None,
    reviewed: opt.Reviewed = None,
    method: opt.MethodName = "auto",
    net: opt.Net = "auto",
    encoder: opt.Encoder = "auto",
    epochs: opt.Epochs = None,
    recipe: opt.Recipe = None,
    set_: opt.Set = None,
    calibrate: opt.Calibrate = None,
    review_budget: opt.ReviewBudget = None,
    seed: opt.Seed = 0,
    device: opt.Device = "auto",
    precision: opt.PrecisionName = "auto",
    compile: opt.Compile = False,
    deterministic: opt.Deterministic = False,
    out: opt.Out = None,
    tensorboard: opt.Tensorboard = False,
    resume: opt.Resume = False,
) -> None:
    """Train on DATA with partly wrong labels, and find out which labels are wrong.

    The run folder holds report.html for people, labels.csv (every label, the most suspicious first,
    with a suggestion), summary.json and the model. A checkpoint is saved after every epoch; to
    continue a stopped run, add --resume.

    Example: labelproof fit digits --noise symmetric:0.4
    """
    with paused():
        from labelproof.cli.fit import fit_spec
        from labelproof.cli.specs import spec_from

    command = ("labelproof", *sys.argv[1:])  # however it was started
    fit_spec(spec_from(ctx), command=command, multilabel=multilabel, resume=resume)


def plan(
    ctx: typer.Context,
    data: opt.Data = None,
    from_: opt.From = None,
    labels: opt.Labels = None,
    label_key: opt.LabelKey = "y",
    truth_key: opt.TruthKey = None,
    label_column: opt.LabelColumn = None,
    files: opt.Files = None,
    file_column: opt.FileColumn = None,
    text_column: opt.TextColumn = None,
    id_column: opt.IdColumn = None,
    annotators: opt.Annotators = None,
    annotator_column: opt.AnnotatorColumn = None,
    group: opt.Group = None,
    drop_column: opt.DropColumn = None,
    merge_labels: opt.MergeLabels = False,
    skip_unlabelled: opt.SkipUnlabelled = False,
    data_dir: opt.DataDir = None,
    image_size: opt.ImageSize = None,
    max_bad: opt.MaxBad = 0.01,
    cache: opt.Cache = None,
    memory_gb: opt.MemoryGb = 2.0,
    text_model: opt.TextModel = None,
    test: opt.Test = None,
    flip: opt.Flip = None,
    noise: opt.Noise = None,
    method: opt.MethodName = "auto",
    net: opt.Net = "auto",
    encoder: opt.Encoder = "auto",
    epochs: opt.Epochs = None,
    recipe: opt.Recipe = None,
    set_: opt.Set = None,
    calibrate: opt.Calibrate = None,
    seed: opt.Seed = 0,
    device: opt.Device = "auto",
    precision: opt.PrecisionName = "auto",
    details: opt.Details = False,
    show_views: opt.ShowViews = None,
) -> None:
    """Show how DATA is read and how long training would take. Nothing is trained.

    It takes seconds, because it reads only part of a large data set. --details shows settings.

    Example: labelproof plan digits --method dpc --show-views views.png
    """
    if os.environ.get("RANK", "0") != "0":
        return  # of several processes that torchrun started, the first speaks
    with paused():
        from labelproof.cli.plan_lines import plan_as_asked

    plan_as_asked(ctx, details, show_views)
