"""`labelproof plan`: what was understood of the data, and what a run on it would take."""

from __future__ import annotations

import torch
import typer
from rich.console import Console

from labelproof import pipeline
from labelproof.cli import options as opt
from labelproof.cli.deadline import OutOfTime, at_most
from labelproof.cli.read_data import read_raw
from labelproof.cli.specs import spec_from
from labelproof.data.encoders.glance import Glance, glance
from labelproof.data.encoders.registry import DEFAULT, NONE
from labelproof.data.examples import Examples
from labelproof.data.readers import find_duplicates
from labelproof.data.task import Task
from labelproof.judging import How
from labelproof.judging.crossfit import FEWEST, part_of, split, suited_to_half
from labelproof.judging.tune import settled_for_now, trial_seconds, undecided
from labelproof.runs.prepare import Assembled
from labelproof.training.estimate import SAMPLE, Estimate, estimate
from labelproof.training.protocol import Method
from labelproof.training.run import Trunk
from labelproof.training.settings import settings_of
from labelproof.views import views_sheet

PATIENCE = 6.0  # seconds that measuring may take
SHOWN = 12  # classes, duplicates and files listed one by one


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
    data_dir: opt.DataDir = None,
    image_size: opt.ImageSize = None,
    max_bad: opt.MaxBad = 0.01,
    cache: opt.Cache = None,
    memory_gb: opt.MemoryGb = 2.0,
    text_model: opt.TextModel = None,
    flip: opt.Flip = None,
    noise: opt.Noise = None,
    method: opt.MethodName = "dpc",
    net: opt.Net = "auto",
    encoder: opt.Encoder = "auto",
    epochs: opt.Epochs = None,
    recipe: opt.Recipe = None,
    set_: opt.Set = None,
    calibrate: opt.Calibrate = None,
    seed: opt.Seed = 0,
    device: opt.Device = "auto",
    show_views: opt.ShowViews = None,
) -> None:
    """Show how DATA is read and how long training would take. Nothing is trained.

    Example: labelproof plan digits --method dpc --show-views views.png
    """
    spec = spec_from(ctx)
    raw = read_raw(spec)
    seen = glance(raw, NONE if show_views else pipeline.wanted_encoder(spec))
    parts = pipeline.assemble(spec, pipeline.Given(data=seen.examples))
    task = parts.prepared.task
    console = Console(soft_wrap=True, highlight=False)
    console.print("\n".join(_data_lines(raw, task) + _encoder_lines(seen)))
    settings = ", ".join(f"{name}={value}" for name, value in settings_of(parts.method).items())
    console.print(f"Method:  {spec.method} ({settings})\nNetwork: {parts.net} on {parts.device}")
    console.print("\n".join(_measured_lines(parts, seen.seconds)))
    if show_views:
        views_sheet(task.x, task.views, show_views, torch.Generator().manual_seed(spec.seed))
        console.print(f"Views:   {show_views}")


def _measured_lines(parts: Assembled, encoding: float) -> list[str]:
    """What the run would take, measured on a few batches."""
    task, trunk, where, record = parts.prepared.task, parts.trunk, parts.device, parts.method
    how = parts.spec.how
    torch.optim.SGD([torch.zeros(1)], lr=0.1)  # imports much; a timer must not interrupt that
    try:
        with Console(stderr=True).status("measuring a few batches"), at_most(PATIENCE):
            trials = trial_seconds(task, record, trunk, where) if undecided(record) else None
            record = settled_for_now(record, task.kind)
            measured = estimate(task, record, trunk, where)
            again = _calibration(task, record, trunk, where) if how == "folds" else 0.0
    except OutOfTime:
        return [_too_long(task, record)]
    return _time_lines(measured, how, again, trials, encoding + (trials or 0.0) + again)


def _data_lines(examples: Examples, task: Task) -> list[str]:
    shape = " x ".join(map(str, examples.x.shape))
    counts = task.y.bincount(minlength=task.num_classes).tolist()
    named = [f"{name}: {n}" for name, n in zip(task.classes, counts, strict=True)]
    more = [f"and {len(named) - SHOWN} more"] if len(named) > SHOWN else []
    held = "in memory" if examples.x.resident else "read from disk as needed"
    lines = [
        f"Data:    {task.size} {examples.kind} of {shape}, {held}",
        f"Classes: {task.num_classes} ({', '.join(named[:SHOWN] + more)})",
    ]
    if examples.test is not None:
        lines.append(f"Test:    {len(examples.test)} examples came with the data")
    bad = examples.about.get("unreadable") or ()
    if bad:
        lines.append(f"Unreadable files, left out: {len(bad)}")
        lines += [f"  {row['path']}: {row['reason']}" for row in bad[:SHOWN]]
    return lines + _duplicate_lines(examples)


def _duplicate_lines(examples: Examples) -> list[str]:
    found = find_duplicates(examples)
    if not found.groups:
        return ["Copies:  none"]
    groups = f"{len(found.conflicting)} group{'s' * (len(found.conflicting) != 1)}"
    lines = [
        f"Copies:  {found.extra} example{'s repeat' if found.extra > 1 else ' repeats'} another "
        f"byte for byte, {groups} of them with different labels"
    ]
    names, classes, labels = examples.ids, examples.classes or (), examples.labels
    for group in found.conflicting[:SHOWN]:
        each = (
            f"{names[i] if names is not None else i} = {classes[int(labels[i])]}"  # type: ignore[index]
            for i in group
        )
        lines.append("  same bytes, different labels: " + ", ".join(each))
    return lines


def _encoder_lines(seen: Glance) -> list[str]:
    if seen.encoder is None:
        return [seen.why] if seen.why else []
    return [
        f"Encoder: {seen.encoder}, about {_duration(seen.seconds)} for all pictures, once; "
        "then kept in the cache"
    ]


def _too_long(task: Task, method: Method) -> str:
    """A bound from below, where not even a small part could be trained in the time there was."""
    epochs = sum(phase.epochs for phase in method.plan())
    least = PATIENCE * task.size / min(SAMPLE, task.size) * epochs
    text = f"Time:    more than {_duration(least)} on this machine"
    if task.kind == "images":
        text += f"; minutes with an encoder instead: --encoder {DEFAULT}"
    return text


def _time_lines(
    measured: Estimate, how: How, again: float, trials: float | None, more: float
) -> list[str]:
    lines = [
        f"Memory:  {measured.data_bytes / 1e6:.1f} MB of data, "
        f"{measured.parameters * 12 / 1e6:.1f} MB of weights, gradients and momentum"
    ]
    for name, (epochs, seconds) in measured.phases.items():
        lines.append(f"Time:    {name}, {epochs} epochs of about {seconds:.1f} s")
    if trials is not None:
        lines.append(_trials_line(trials))
    lines.append(_calibration_line(how, again))
    whole = _duration(measured.seconds + more)
    lines.append(f"         about {whole} in all (measured on a part)")
    return lines


def _trials_line(seconds: float) -> str:
    if not seconds:
        return "         lambda_u takes its default: there is nothing to choose it by"
    return (
        f"         two to four trials to choose lambda_u: about {_duration(seconds)} for two "
        "(--set lambda_u=0 does without)"
    )


def _calibration(task: Task, method: Method, trunk: Trunk, device: torch.device) -> float:
    """Seconds that training on either half of the data takes, as `folds` does."""
    if task.size < FEWEST:
        return 0.0
    half = part_of(task, split(task.y, seed=0)[0])
    return 2 * estimate(half, suited_to_half(method, task.size), trunk, device).seconds


def _calibration_line(how: How, seconds: float) -> str:
    if how != "folds":
        return f"         calibration {how}, which trains nothing"
    if not seconds:
        return f"         calibration quick, since folds needs {FEWEST} examples"
    return (
        f"         calibration, either half trained once more: about {_duration(seconds)} "
        "(--calibrate quick does without)"
    )


def _duration(seconds: float) -> str:
    if seconds >= 7200:
        return f"{seconds / 3600:.0f} hours"
    return f"{seconds / 60:.1f} minutes" if seconds >= 60 else f"{seconds:.0f} seconds"
