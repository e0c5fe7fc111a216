"""`labelproof plan`: what was understood of the data, and what a run on it would take.

`fit` says some of its lines too.
"""

from __future__ import annotations

import math
import os
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
import typer
from rich.console import Console

from labelproof import pipeline
from labelproof.cli.read_data import read_like, read_raw
from labelproof.cli.specs import spec_from
from labelproof.data.encoders.apply import BOTH, WORDS, Glance, glance
from labelproof.data.encoders.columns import Column, TableEncoder
from labelproof.data.encoders.picture_encoding import AUTO, DEFAULT, NONE, PictureEncoding
from labelproof.data.encoders.texts import MINILM, AnyTexts, TextEncoder, minilm_folder
from labelproof.data.examples import Examples
from labelproof.data.readers.duplicates import find_duplicates, trained_on
from labelproof.data.readers.file_names import printable
from labelproof.data.readers.sampling import SAMPLE, standing_for_all
from labelproof.data.task import Task
from labelproof.judging.crossfit import FEWEST, fold_count
from labelproof.runs.forecast import HOUR, Forecast, calibrated_by_folds, duration, forecast
from labelproof.runs.prepare import Assembled
from labelproof.training.settings import settings_of
from labelproof.views import VectorViews, views_sheet

MINILM_SECONDS = 0.015  # a text on one core; loading it to measure takes longer than a plan may
SHOWN = 10  # classes, duplicates and files listed one by one
STAY = ("parquet", "hugging face")  # sources of rows that need not be in memory
MOST_BYTES = 300e6  # of inputs that are compared with each other


ROWS = 4000  # rows of a table that are read closely; pictures see `sampling`


def plan_as_asked(ctx: typer.Context, details: bool, show_views: Path | None) -> None:
    """Show what the options of the command would do."""
    console = Console(soft_wrap=True, highlight=False, markup=False)
    spec = spec_from(ctx)
    part = replace(spec, reading=replace(spec.reading, sample=ROWS))
    read = read_raw(part)
    raw = standing_for_all(read)
    test = read_like(spec.test, part.reading, read) if spec.test else read.test
    tested = len(standing_for_all(test)) if test is not None else 0
    name = NONE if show_views else pipeline.wanted_encoder(spec)
    seen = glance(raw, name)
    parts = pipeline.assemble(part, pipeline.Given(data=seen.examples))
    task = parts.prepared.task
    lines = [
        data_line(raw, task, spec.reading.memory_gb),
        class_line(task),
        *file_lines(raw, tested, named=spec.test is not None),
        *duplicate_lines(read, test),
    ]
    console.print(
        "\n".join([*lines, *column_lines(read), *encoder_line(seen, name), run_line(parts)])
    )
    with Console(stderr=True).status("measuring a few batches"):
        encoding = seen.seconds + text_seconds(seen, name)
        coming = forecast(parts, encoding * (1 + tested / len(raw)))
    console.print("\n".join(time_lines(coming, parts)))
    if int(os.environ.get("WORLD_SIZE", "1")) > 1:
        console.print("note: the time is that of a single process")
    if details:
        console.print("\n".join(detail_lines(parts, coming)))
    if show_views:
        views_sheet(task.x, task.views, show_views, torch.Generator().manual_seed(spec.seed))
        console.print(f"Views:   {show_views}")


def data_line(examples: Examples, task: Task, memory_gb: float) -> str:
    """How many examples of what, where a run keeps them, and how much of it was looked at."""
    shape = " x ".join(map(str, examples.x.shape))
    held = "in memory" if _fits(examples, memory_gb) else "read from disk as needed"
    text = f"Data:    {task.size} {examples.kind} of {shape}, {held}"
    told = examples.about.get(SAMPLE)
    return f"{text}; {told['read']} of them were read" if told else text


def _fits(examples: Examples, memory_gb: float) -> bool:
    """Whether a run holds all inputs in memory; a few that stand for many always are."""
    can_stay = examples.kind == "images" or examples.about.get("source") in STAY
    if not examples.x.resident or SAMPLE not in examples.about or not can_stay:
        return examples.x.resident
    one = examples.x.take(torch.zeros(1, dtype=torch.int64))
    room = one.numel() * one.element_size() * len(examples)
    return isinstance(examples.encoder, AnyTexts) or room <= memory_gb * 1e9


def class_line(task: Task) -> str:
    """The classes with their numbers of examples."""
    counts = task.y.bincount(minlength=task.num_classes).tolist()
    named = [f"{printable(name)}: {n}" for name, n in zip(task.classes, counts, strict=True)]
    return f"Classes: {task.num_classes} ({_first(named)})"


def _first(parts: list[str]) -> str:
    """The first few, and the number of the others."""
    more = [f"and {len(parts) - SHOWN} more"] if len(parts) > SHOWN else []
    return ", ".join(parts[:SHOWN] + more)


def file_lines(examples: Examples, tested: int, named: bool) -> list[str]:
    """The number of test examples, from a file that was named or not, and unreadable files."""
    lines = []
    if tested:
        came = "" if named else " came with the data"
        lines.append(f"Test:    {tested} examples{came}")
    bad = examples.about.get("unreadable") or ()
    if bad:
        lines.append(f"Unreadable files, left out: {len(bad)}")
        lines += [f"  {row['path']}: {row['reason']}" for row in bad[:SHOWN]]
    return lines


def duplicate_lines(examples: Examples, test: Examples | None = None) -> list[str]:
    """Equal inputs, those with different labels one by one, and test data that is trained on."""
    one = 4 * math.prod(examples.x.shape)
    if SAMPLE in examples.about:
        told = examples.about[SAMPLE]
        few = f"{told['read']} of {told['of']} examples"
        return [f"Copies:  not searched, because a plan reads only {few}; the report lists them"]
    if one * len(examples) > MOST_BYTES:
        return ["Copies:  not searched in data this large; the report lists them"]
    found = find_duplicates(examples)
    shared = [f"  {text}" for text in trained_on(examples, test)] if test is not None else []
    if not found.groups:
        return ["Copies:  none" + " within the training data" * bool(shared), *shared]
    groups = f"{len(found.conflicting)} group{'s' * (len(found.conflicting) != 1)}"
    lines = [
        f"Copies:  {found.extra} example{'s repeat' if found.extra > 1 else ' repeats'} another "
        f"byte for byte, {groups} of them with different labels"
    ]
    names, classes, labels = examples.ids, examples.classes or (), examples.labels
    for group in found.conflicting[:SHOWN]:
        each = [
            f"{names[i] if names is not None else i} = {classes[int(labels[i])]}"  # type: ignore[index]
            for i in group
        ]
        lines.append(f"  same bytes, different labels: {_first(each)}")
    return [*lines, *shared]


def encoder_line(seen: Glance, name: str) -> list[str]:
    """What makes vectors of pictures or texts if `name` is asked for, and how long that takes."""
    if seconds := text_seconds(seen, name):
        asked = f"{WORDS}, {MINILM} or both, chosen on held-out labels" if name == AUTO else name
        each = duration(seconds)
        return [f"Encoder: {asked}; {MINILM} takes about {each} for these texts, once"]
    if seen.encoder is None:
        return [seen.why] if seen.why else []
    return [
        f"Encoder: {seen.encoder}, about {duration(seen.seconds)} for these pictures, once; "
        "then kept in the cache"
    ]


def text_seconds(seen: Glance, name: str) -> float:
    """How long the sentence encoder takes if `name` is asked for; 0 where there is none."""
    meant = name in (AUTO, MINILM, BOTH) and minilm_folder() is not None
    texts = meant and isinstance(seen.examples.encoder, TextEncoder)
    return MINILM_SECONDS * len(seen.examples) if texts else 0.0


def run_line(parts: Assembled) -> str:
    """What a run does, in a sentence without numbers of the method."""
    title = parts.method.about.title
    calibrated = {
        "folds": "judge every label by a model that has not seen it",
        "quick": "judge every label by the model itself",
        "off": "leave probabilities as they are",
    }
    how = "folds" if calibrated_by_folds(parts) else "quick" if parts.spec.how != "off" else "off"
    epochs = sum(phase.epochs for phase in parts.method.plan())
    return (
        f"Run:     {source_words(parts)}; train {parts.spec.trained} ({title}) for {epochs} "
        f"epoch{'s' * (epochs != 1)}; {calibrated[how]}"
    )


def source_words(parts: Assembled) -> str:
    """What the network will see."""
    encoder, kind = parts.data.encoder, parts.prepared.task.kind
    if isinstance(encoder, PictureEncoding):
        return f"turn pictures into vectors ({encoder.name})"
    if isinstance(encoder, AnyTexts):
        return "turn texts into vectors"
    if kind == "images":
        return f"learn from the pixels, from scratch ({parts.net})"
    plain = "turn columns into numbers" if encoder is not None else "take the vectors as they are"
    views = parts.prepared.task.views
    if isinstance(views, VectorViews) and views.waves:
        return f"{plain}, and add {views.waves} random cosine features, as held-out labels prefer"
    return plain


def time_lines(coming: Forecast, parts: Assembled) -> list[str]:
    """How long it takes here, and what each part takes."""
    lines = [f"Time:    {coming.total()} on this machine (measured on a few examples)"]
    if coming.measured is None:
        return lines + scratch_lines(coming, parts)
    if coming.encoding:
        lines.append(f"  encoding     {duration(coming.encoding)}, once")
    if coming.trials:
        lines.append(
            f"  trials       {duration(coming.trials)} to choose a setting of the method (--set "
            "lambda_u=0 skips this)"
        )
    lines.append(f"  training     {duration(coming.training)}")
    lines.append(f"  calibration  {_calibration(coming, parts)}")
    return lines + scratch_lines(coming, parts)


def _calibration(coming: Forecast, parts: Assembled) -> str:
    how = parts.spec.how
    if calibrated_by_folds(parts):
        return (
            f"{duration(coming.calibration)}: training again without each of "
            f"{fold_count(parts.prepared.task)} folds (--calibrate quick skips this)"
        )
    if how == "folds":
        return f"quick, since folds needs {FEWEST} examples"
    return f"{how}, which trains nothing"


def scratch_lines(coming: Forecast, parts: Assembled) -> list[str]:
    """Advice where training on pixels takes more than an hour here."""
    if parts.prepared.task.kind != "images" or coming.seconds <= HOUR:
        return []
    return [
        "note: training on pixels from scratch takes more than an hour on this machine. "
        f"An encoder needs minutes: --encoder {DEFAULT}"
    ]


def detail_lines(parts: Assembled, coming: Forecast) -> list[str]:
    """Every setting, the network, its memory, and each phase."""
    lines = [f"Network: {parts.net} on {parts.device}"]
    measured = coming.measured
    if measured is not None:
        lines.append(
            f"Memory:  {measured.data_bytes / 1e6:.1f} MB of data, "
            f"{measured.parameters * 12 / 1e6:.1f} MB of weights, gradients and momentum"
        )
        lines += [
            f"Phase:   {name}, {epochs} epochs of about {seconds:.1f} s"
            for name, (epochs, seconds) in measured.phases.items()
        ]
    return [*lines, f"Method:  {parts.spec.trained}", *_settings(settings_of(parts.method))]


def _settings(values: Mapping[str, Any]) -> list[str]:
    width = max(map(len, values), default=0)
    return [f"  {name:{width}}  {value}" for name, value in values.items()]


MOST_COLUMNS = 40  # columns listed one by one
ROLES = {
    "label": ("label", "the given label"),
    "truth": ("label", "true labels: only for measuring"),
    "id": ("name", "names the rows"),
    "file": ("files", "pictures that are read"),
    "text": ("text", "turned into a vector"),
    "group": ("group", "examples that belong together"),
    "annotator": ("name", "who gave the label"),
}
KINDS = {"number": "number", "date": "date", "boolean": "yes/no", "category": "words"}
Line = tuple[str, str, str, str]  # column, kind, treatment, missing


def column_lines(examples: Examples) -> list[str]:
    """A header and a line for every column; nothing where the data is no table."""
    lines = [*_roles(examples), *_features(examples), *_left_out(examples)]
    if not isinstance(examples.encoder, TableEncoder | AnyTexts) or not lines:
        return []
    table = [("column", "kind", "how it is used", "missing"), *lines[:MOST_COLUMNS]]
    widths = [max(len(line[place]) for line in table) for place in range(4)]
    shown = [
        ("  " + "  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)))
        for line in table
    ]
    more = [f"  and {len(lines) - MOST_COLUMNS} more columns"] if len(lines) > MOST_COLUMNS else []
    return ["Columns:", *(line.rstrip() for line in shown), *more]


def _roles(examples: Examples) -> list[Line]:
    columns = examples.about.get("columns") or {}
    return [(_cut(name), *ROLES[role], "") for role, name in columns.items() if role in ROLES]


def _features(examples: Examples) -> list[Line]:
    if not isinstance(examples.encoder, TableEncoder):
        return []
    missing, size = examples.about.get("missing") or {}, len(examples)
    return [
        (_cut(column.name), KINDS[column.kind], _treatment(column), _gaps(column, missing, size))
        for column in examples.encoder.columns
    ]


def _left_out(examples: Examples) -> list[Line]:
    dropped, used = dict(examples.about.get("left_out") or {}), set()
    if isinstance(examples.encoder, TableEncoder):
        dropped = {**examples.encoder.dropped, **dropped}
        used = {column.name for column in examples.encoder.columns}
    return [(_cut(name), "left out", why, "") for name, why in dropped.items() if name not in used]


def _treatment(column: Column) -> str:
    if column.kind == "category":
        values = f"{len(column.levels)} value{'s' * (len(column.levels) != 1)}"
        return f"one number for each of {values}, one for all others"
    if column.kind == "date":
        order = {None: "", True: ", day first", False: ", month first"}[column.day_first]
        return f"days, scaled{order}"
    return "scaled" if column.kind == "number" else "0 or 1, scaled"


def _gaps(column: Column, missing: dict[str, int], size: int) -> str:
    count = missing.get(column.name, 0)
    if not count:
        return "none"
    filled = "a separate value" if column.kind == "category" else "the median, and marked"
    return f"{count} ({count / size:.0%}): {filled}"


def _cut(name: str) -> str:
    return name if len(name) <= 30 else name[:29] + "…"
