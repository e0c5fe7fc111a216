"""The run folder: a readable record of everything a run was and gave.

run.json comes first, metrics.jsonl and checkpoint.pt grow with the run, the rest comes at its end:
labels.csv, summary.json, model.safetensors and report.html. Each file is whole or absent.
"""

from __future__ import annotations

import csv
import itertools
import json
import platform
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from datetime import datetime, timezone
from importlib.metadata import version
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file

import labelproof
from labelproof.judging import Calibration, calibrated
from labelproof.judging.suspects import found, suspect_table
from labelproof.training.loop import Result
from labelproof.training.protocol import Method
from labelproof.errors import BadInput
from labelproof.files import PARTIAL, write_json, write_text, written_whole
from labelproof.runs.manifest import CALIBRATION, write_manifest
from labelproof.runs.model import trained
from labelproof.judging.label_table import labels_csv, summarise
from labelproof.training.settings import settings_of
from labelproof.data.readers import save_like
from labelproof.data.examples import Examples
from labelproof.data.task import Audit, Task, Views

FORMAT = 1
ENDS = ("labels.csv", "model.safetensors", "report.html", "summary.json")
# what a continued run must share with the run it continues
SAME = ("method", "settings", "net", "seed", "task", "views", "test", "reviewed")


def describe(
    *,
    name: str,
    method: Method,
    net: str,
    seed: int,
    device: torch.device,
    task: Task,
    train: Examples,
    test: Examples | None,
    noise: Mapping[str, Any] | None,
    reviewed: Mapping[str, Any] | None,
    reading: Mapping[str, Any] | None,
    command: Sequence[str],
) -> dict[str, Any]:
    """What run.json says."""
    return {
        "format": FORMAT,
        "labelproof": labelproof.__version__,
        "method": name,
        "settings": settings_of(method),
        "chosen": {},  # settings that were left open, once they are chosen: value and reason
        "net": net,
        "seed": seed,
        "device": str(device),
        "task": {
            "digest": task.digest(),
            "size": task.size,
            "kind": task.kind,
            "shape": list(task.x.shape),
            "classes": list(task.classes),
        },
        "reading": reading,  # how to read the same data again; None when it came from memory
        "data": dict(train.about),
        "test": dict(test.about) if test else None,
        "noise": noise,
        "reviewed": reviewed,  # labels that a person confirmed and the run held fixed
        "views": views_record(task.views),
        "command": list(command),
        "versions": {
            "python": platform.python_version(),
            **{package: version(package) for package in ("torch", "numpy", "scikit-learn")},
        },
        "started": datetime.now(timezone.utc).isoformat(timespec="seconds"),
    }


def views_record(views: Views) -> dict[str, Any]:
    """The views as plain values."""
    values = asdict(views)  # type: ignore[call-overload]
    plain = {k: v.tolist() if isinstance(v, torch.Tensor) else v for k, v in values.items()}
    return {"type": type(views).__name__, **plain}


def free_name(folder: Path) -> Path:
    """`folder`, or the first of folder-2, folder-3, ... that does not exist yet."""
    others = (folder.with_name(f"{folder.name}-{number}") for number in itertools.count(2))
    return next(path for path in itertools.chain((folder,), others) if not path.exists())


def begin(folder: Path, record: Mapping[str, Any], resume: bool) -> None:
    """Make a new run folder, or check that an old one is of the same run."""
    old = folder / "run.json"
    if old.exists():
        if not resume:
            raise BadInput(
                f"{folder} already holds a run; add --resume to continue it, or name another --out."
            )
        _compare(folder, _as_asked(read_record(folder)), record)
        return
    if resume and not folder.is_dir():
        raise BadInput(f"{folder} holds no run to resume (no run.json); leave out --resume.")
    if folder.exists() and (not folder.is_dir() or not _empty(folder)):
        raise BadInput(f"{folder} exists and is no run folder; name another --out.")
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
    write_json(folder / "run.json", {**record, "settings": settings, "chosen": dict(chosen)})


def decisions(folder: Path) -> dict[str, Any]:
    """The settings that were left open and have been chosen, by name."""
    return dict(read_record(folder).get("chosen") or {})


def _as_asked(record: Mapping[str, Any]) -> dict[str, Any]:
    """The record as it was before anything was chosen."""
    left_open = dict.fromkeys(record.get("chosen") or {}, "auto")
    return {**record, "settings": {**record.get("settings", {}), **left_open}}


def read_record(folder: Path) -> dict[str, Any]:
    """run.json of a folder."""
    path = folder / "run.json"
    if not path.is_file():
        raise BadInput(f"{folder} is no run folder: it has no run.json; name the folder of a run.")
    try:
        record = json.loads(path.read_text(encoding="utf-8"))
        if record["format"] != FORMAT:
            raise BadInput(f"{path} has format {record['format']}, expected {FORMAT}.")
    except (ValueError, KeyError, TypeError) as error:
        if isinstance(error, BadInput):
            raise
        raise BadInput(f"{path} is damaged ({error}); restore it or start a new run.") from error
    assert isinstance(record, dict)
    return record


def _compare(folder: Path, old: Mapping[str, Any], new: Mapping[str, Any]) -> None:
    fresh = json.loads(json.dumps(new, default=str))
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
        raise BadInput(
            f"{folder} was made with another {key} ({difference}); "
            "resume with the same, or name another --out."
        )


def finish(
    folder: Path, result: Result, calibration: Calibration, audit: Audit, train: Examples
) -> Result:
    """Write what a finished run gives; returns the result with calibrated probabilities."""
    judged = calibrated(result, calibration, audit)
    table = suspect_table(judged)
    summary = {
        **summarise(judged, result.probabilities.argmax(1), table, audit),
        **found(result, judged, table, calibration, audit),
        "chosen": dict(result.chosen),
    }
    write_text(folder / "labels.csv", labels_csv(table, result.task.classes, train.ids))
    save_like(train, folder)
    save_model(folder, result)
    write_json(folder / CALIBRATION, calibration.describe())
    write_unreadable(folder, train)
    write_manifest(folder)
    write_json(folder / "summary.json", summary)
    return judged


def finished(folder: Path, how: str) -> bool:
    """Whether all that a run gives is there already, calibrated in the way asked for."""
    if not all((folder / name).is_file() for name in (*ENDS, CALIBRATION)):
        return False
    try:
        told = json.loads((folder / "summary.json").read_bytes())["calibration"]
    except (ValueError, KeyError, TypeError):  # cut short or changed: written again
        return False
    return bool(told == how)


def save_model(folder: Path, result: Result) -> None:
    """The weights of every network and the plain values of the state, in safetensors."""
    left = trained(result.state)
    with written_whole(folder / "model.safetensors") as aside:
        save_file(left.weights, aside, metadata={"state": json.dumps(left.plain)})
        aside.chmod((folder / "run.json").stat().st_mode)  # safetensors makes it private


def write_unreadable(folder: Path, train: Examples) -> None:
    """The files that could not be read and were left out, if any: path and reason."""
    bad = train.about.get("unreadable")
    if not bad:
        return
    with (
        written_whole(folder / "unreadable.csv") as aside,
        aside.open("w", newline="", encoding="utf-8", errors="backslashreplace") as file,
    ):
        writer = csv.writer(file)
        writer.writerow(("path", "reason"))
        writer.writerows((row["path"], row["reason"]) for row in bad)
