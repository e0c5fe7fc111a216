"""The run folder: a readable record of everything a run was and gave.

run.json comes first, metrics.jsonl and checkpoint.pt grow with the run, the rest comes at its end:
labels.csv, summary.json, model.safetensors and report.html. Each file is whole or absent.
"""

from __future__ import annotations

import csv
import itertools
import json
import os
import platform
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
from safetensors.torch import save_file

import labelproof
from labelproof.csv_files import safe
from labelproof.data.examples import Examples
from labelproof.data.readers import save_like
from labelproof.data.task import Views
from labelproof.errors import BadInput
from labelproof.files import PARTIAL, read_json, write_json, written_whole
from labelproof.judging.calibration import Calibration
from labelproof.judging.label_table import LabelRows
from labelproof.judging.verdict import Judged
from labelproof.recipes.recipe import departure
from labelproof.run_files import (
    CALIBRATION,
    FOLDS,
    LABELS,
    METRICS,
    MODEL,
    REPORT,
    RUN,
    SCORES,
    SUMMARY,
    TRIALS,
    UNREADABLE,
)
from labelproof.runs.labels_file import write_rows
from labelproof.runs.manifest import write_manifest
from labelproof.runs.model import member_prefix
from labelproof.runs.ownership import PARTS, sealed, visible
from labelproof.runs.prepare import Assembled
from labelproof.runs.schemas import RunRecord, SummaryRecord
from labelproof.runs.spec import RunSpec, spec_of
from labelproof.runs.votes_file import write_votes
from labelproof.training import ranks
from labelproof.training.loop import Result
from labelproof.training.settings import settings_of
from labelproof.training.trained import trained

FORMAT = 1
ENDS = (LABELS, MODEL, REPORT, SUMMARY, CALIBRATION)
# what a continued run must share with the run it continues
SAME = ("method", "settings", "net", "seed", "task", "views", "test", "reviewed")
SAME_BITS = {"compile": False, "deterministic": False, "precision": "auto"}  # of the spec


def describe(run: Assembled, command: Sequence[str]) -> dict[str, Any]:
    """What run.json says: the spec, and facts about the run."""
    task, test = run.prepared.task, run.test or run.data.test
    record = {
        "format": FORMAT,
        "labelproof": labelproof.__version__,
        "spec": run.spec.describe(),
        "method": run.spec.trained,
        "settings": settings_of(run.method),
        "differs": departure(run.spec.trained, run.spec.recipe, task.kind),  # from the paper
        "chosen": {},  # settings that were left open, once they are chosen: value and reason
        "net": run.net,
        "seed": run.spec.seed,
        "device": str(run.device),
        "threads": torch.get_num_threads(),
        "processes": ranks.now().world,
        "task": {
            "digest": task.digest(),
            "size": task.size,
            "kind": task.kind,
            "shape": list(task.x.shape),
            "classes": list(task.classes),
            "votes": task.votes.digest() if task.votes else None,
        },
        "data": dict(run.data.about),
        "test": dict(test.about) if test else None,
        "noise": run.prepared.noise,
        "votes": run.prepared.votes,
        "reviewed": run.held.describe() if run.held else None,
        "views": views_record(task.views),
        "command": list(command),
        "versions": {
            "python": platform.python_version(),
            **{package: version(package) for package in ("torch", "numpy", "scikit-learn")},
        },
        "started": datetime.now(UTC).isoformat(timespec="seconds"),
    }
    return sealed(record)


def views_record(views: Views) -> dict[str, Any]:
    """The views as plain values."""
    values = asdict(views)  # type: ignore[call-overload]
    plain = {k: v.tolist() if isinstance(v, torch.Tensor) else v for k, v in values.items()}
    return {"type": type(views).__name__, **plain}


def free_name(folder: Path) -> Path:
    """`folder`, or the first of folder-2, folder-3, ... that does not exist yet."""
    others = (folder.with_name(f"{folder.name}-{number}") for number in itertools.count(2))
    return next(path for path in itertools.chain((folder,), others) if not path.exists())


def check_free(folder: Path, resume: bool) -> None:
    """Refuse a folder in which no run can begin, or that holds one which is not to go on."""
    if (folder / RUN).exists():
        if not resume:
            raise BadInput(
                f"{folder} already holds a run; add --resume to continue it, or name another --out."
            )
    elif folder.exists() and (not folder.is_dir() or not _empty(folder)):
        raise BadInput(f"{folder} exists and is not a run folder; name another --out.")


def begin(folder: Path, record: Mapping[str, Any], resume: bool) -> None:
    """Make a new run folder, or check that an old one is of the same run."""
    check_free(folder, resume)
    old = folder / RUN
    if old.exists():
        _compare(folder, _as_asked(read_record(folder)), record)
        return
    try:
        folder.mkdir(parents=True, exist_ok=True)
        write_json(old, record)
    except OSError as error:
        raise BadInput(
            f"{folder} cannot be written ({error.strerror}); name another --out."
        ) from error


def _empty(folder: Path) -> bool:
    """Whether nothing is in a folder but what a kill in its first moment left half-written."""
    return all(path.name.endswith(PARTIAL) for path in folder.iterdir())


def decide(folder: Path, chosen: Mapping[str, Any]) -> None:
    """Write down the settings that were left open, before training starts with them."""
    record = read_record(folder)
    values = {name: choice["value"] for name, choice in chosen.items()}
    settings = {**record["settings"], **values}
    write_json(folder / RUN, {**record, "settings": settings, "chosen": dict(chosen)})


def began_with(folder: Path, what: Literal["threads", "processes"]) -> int | None:
    """How many of these the run in a folder began with; None where it is not known."""
    if not (folder / RUN).is_file():
        return None
    found: int | None = read_record(folder).get(what)
    return found


def decisions(folder: Path) -> dict[str, Any]:
    """The settings that were left open and have been chosen, by name."""
    return dict(read_record(folder).get("chosen") or {})


def retell(folder: Path, record: Mapping[str, Any]) -> None:
    """Let run.json say how a continued run was asked for in the end: it may be judged otherwise.

    The summary goes first, so that a kill leaves a run to be continued, and not two that contradict
    each other.
    """
    old = read_record(folder)
    if spec_of(old, folder / RUN).same_run(spec_of(record, folder / RUN)):
        return
    (folder / SUMMARY).unlink(missing_ok=True)
    kept = {name: value for name, value in old.items() if name not in PARTS}
    write_json(folder / RUN, sealed({**kept, **{n: record[n] for n in PARTS if n in record}}))


def _as_asked(record: Mapping[str, Any]) -> dict[str, Any]:
    """The record as it was before anything was chosen."""
    left_open = dict.fromkeys(record.get("chosen") or {}, "auto")
    return {**record, "settings": {**record.get("settings", {}), **left_open}}


def read_record(folder: Path) -> dict[str, Any]:
    """run.json of a folder."""
    path = folder / RUN
    if not path.is_file():
        columns = sorted(one.parent.name for one in folder.glob(f"*/{RUN}"))
        if columns and (folder / LABELS).is_file():
            raise BadInput(
                f"{folder} holds the runs of several columns (--multilabel); name the folder of "
                f"one column, such as {folder / columns[0]}."
            )
        raise BadInput(
            f"{folder} is not a run folder: it has no run.json; name the folder of a run."
        )
    check_entries(folder)
    record = read_json(path, RunRecord, "restore it or start a new run")
    if record["format"] != FORMAT:
        raise BadInput(f"{path} has format {record['format']}, expected {FORMAT}.")
    return record


def check_entries(folder: Path) -> None:
    """Make sure that a folder holds ordinary files and folders alone.

    A link could make a command read or overwrite a file that the user never named.
    """
    for entry in os.scandir(folder):
        if not (entry.is_file(follow_symlinks=False) or entry.is_dir(follow_symlinks=False)):
            raise BadInput(
                f"expected ordinary files in {folder}, but {entry.name} is a link, a pipe or a "
                "device; put the file itself there, or delete it."
            )


def read_task(folder: Path, data: str | None = None) -> tuple[dict[str, Any], list[str], int]:
    """run.json of a folder, and of it the class names and the number of examples.

    `data` is where the user says that the data of the run lies; see `runs.ownership`.
    """
    record = visible(read_record(folder), data)
    return record, list(record["task"]["classes"]), record["task"]["size"]


def read_summary(folder: Path) -> dict[str, Any]:
    """summary.json of a folder."""
    path = folder / SUMMARY
    if not path.is_file():
        raise BadInput(
            f"{folder} has no {SUMMARY}: the run has not finished or was copied in part; "
            "finish it with `labelproof fit ... --resume`, or copy it again."
        )
    return read_json(path, SummaryRecord, "restore the run folder")


def history_so_far(folder: Path) -> list[dict[str, Any]]:
    """The epochs of a run that may be under way; a line that is being written is left out."""
    try:
        text = (folder / METRICS).read_text(encoding="utf-8")
    except OSError:
        return []
    return [json.loads(line) for line in text.splitlines(keepends=True) if line.endswith("}\n")]


def _compare(folder: Path, old: Mapping[str, Any], new: Mapping[str, Any]) -> None:
    fresh = json.loads(json.dumps(new, default=str))
    for name, usual in SAME_BITS.items():
        there, here = ((record.get("spec") or {}).get(name, usual) for record in (old, fresh))
        if there != here:
            raise BadInput(
                f"{folder} was made with {name} {there}, and it is {here} here; resume with "
                "the same, or name another --out."
            )
    for key in SAME:
        if old.get(key) == fresh[key]:
            continue
        if key == "task":
            raise BadInput(
                f"{folder} was made with other data or labels than these; "
                "resume with the same data, or name another --out."
            )
        if key in ("views", "test"):
            raise BadInput(
                f"{folder} was made with other {'test data' if key == 'test' else key}; "
                "resume with the same options, or name another --out."
            )
        difference = f"{old.get(key)!r} there, {fresh[key]!r} here"
        if key == "settings":
            names = [n for n in fresh[key] if old.get(key, {}).get(n) != fresh[key][n]]
            difference = ", ".join(
                f"{n} {old.get(key, {}).get(n)!r} there, {fresh[key][n]!r} here" for n in names
            )
        other = "other settings" if key == "settings" else f"another {key}"
        raise BadInput(
            f"{folder} was made with {other} ({difference}); "
            "resume with the same, or name another --out."
        )


def finish(
    folder: Path, ended: Judged, train: Examples, rows: LabelRows, record: Mapping[str, Any]
) -> None:
    """Write what a finished run gives, all but the report; `record` is what run.json should say."""
    retell(folder, record)
    write_rows(folder, rows, ended.result.task.classes)
    write_votes(folder, ended, train.ids)
    write_scores(folder, ended)
    save_like(train, folder)
    save_model(folder, ended.result, ended.calibration)
    write_json(folder / CALIBRATION, ended.calibration.describe())
    write_unreadable(folder, train)
    write_manifest(folder)
    write_json(folder / SUMMARY, ended.summary)


def finished(spec: RunSpec) -> bool:
    """Whether the run folder of a spec holds all that this very run gives."""
    folder = spec.out
    if folder is None or not all((folder / name).is_file() for name in (RUN, *ENDS)):
        return False
    try:
        told = read_summary(folder)["calibration"]
    except (BadInput, KeyError):  # cut short or changed: written again
        return False
    there = spec_of(read_record(folder), folder / RUN)
    few = told == "quick" and spec.how == "folds"  # too few examples for folds
    return spec.same_run(there) and (told == spec.how or few)


def tidy(folder: Path) -> None:
    """Remove what a run needs only while it goes on; a kill may have left it."""
    for name in (FOLDS, TRIALS):
        shutil.rmtree(folder / name, ignore_errors=True)


def write_scores(folder: Path, ended: Judged) -> None:
    """Scores of the training set, for a review that judges labels again after decisions."""
    scores = ended.calibration.scores
    if scores is None:
        (folder / SCORES).unlink(missing_ok=True)
        return
    with written_whole(folder / SCORES) as aside, aside.open("wb") as file:
        np.save(file, scores.numpy().astype(np.float32), allow_pickle=False)


def save_model(folder: Path, result: Result, found: Calibration) -> None:
    """The weights of every network that predicts and the plain values of the state, in safetensors.

    Those of networks trained without a fold have names that begin with its number.
    """
    own = trained(result.state)
    weights = {**own.weights, **{n: t.contiguous() for n, t in found.link.tensors().items()}}
    for number, state in enumerate(found.members, 1):
        member = trained(state)
        weights |= {f"{member_prefix(number)}{name}": t for name, t in member.weights.items()}
    with written_whole(folder / MODEL) as aside:  # of several entries the order would be random
        save_file(weights, aside, metadata={"state": json.dumps(own.plain)})
        aside.chmod((folder / RUN).stat().st_mode)  # safetensors makes it private


def write_unreadable(folder: Path, train: Examples) -> None:
    """The files that could not be read and were left out, if any: path and reason."""
    bad = train.about.get("unreadable")
    if not bad:
        return
    with (
        written_whole(folder / UNREADABLE) as aside,
        aside.open("w", newline="", encoding="utf-8", errors="backslashreplace") as file,
    ):
        writer = csv.writer(file)
        writer.writerow(("path", "reason"))
        writer.writerows((safe(row["path"]), safe(row["reason"])) for row in bad)
