"""Run folders written by hand, and real ones of small sets, for the tests of report and review."""

from __future__ import annotations

import csv
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
from PIL import Image

from labelproof import pipeline, report
from labelproof.data.examples import Examples
from labelproof.data.readers import SourceOptions, load
from labelproof.judging.label_table import label_table
from labelproof.runs.spec import RunSpec

CLASSES = ("cat", "dog", "owl")
HEADER = ("index", "id", "given", "suggested", "p_clean", "p_suggested", "margin", "suspect")


def made_rows(
    size: int, classes: Sequence[str], ids: Sequence[str], seed: int = 0
) -> list[list[Any]]:
    """Rows of labels.csv, worst first; about half of them suspects."""
    rng = np.random.default_rng(seed)
    clean = np.sort(rng.random(size)).round(6)
    rows = []
    for place, index in enumerate(rng.permutation(size).tolist()):
        given = classes[index % len(classes)]
        suspect = bool(clean[place] < 0.5)
        suggested = classes[(index + 1) % len(classes)] if suspect else given
        sure, margin = round(float(rng.uniform(0.3, 1)), 6), round(4 * float(clean[place]) - 2, 6)
        rows.append([index, ids[index], given, suggested, clean[place], sure, margin, int(suspect)])
    return rows


def made_run(
    folder: Path,
    *,
    size: int = 60,
    classes: Sequence[str] = CLASSES,
    ids: Sequence[str] | None = None,
    **record: Any,
) -> Path:
    """A finished run as its files alone; the data does not exist unless the record says so."""
    folder.mkdir(parents=True, exist_ok=True)
    rows = made_rows(size, classes, ids or [f"row {i}" for i in range(size)])
    task = {"digest": "0" * 64, "size": size, "kind": "vectors", "shape": [4]}
    content = {
        "format": 1,
        "labelproof": "0.1.0",
        "method": "ce",
        "settings": {"epochs": 3},
        "net": "mlp",
        "seed": 0,
        "device": "cpu",
        "task": {**task, "classes": list(classes)},
        "spec": {},
        "data": {"source": "arrays"},
        "noise": None,
        "command": ["labelproof", "fit", "things.csv", "--epochs", "3", "--out", str(folder)],
        "versions": {"python": "3.11"},
        "started": "2025-01-02T03:04:05+00:00",
        **record,
    }
    summary = {
        "accuracy": None,
        "ece": None,
        "suspects": sum(row[-1] for row in rows),
        "suspect_detection": None,
        "noise_rate_estimate": 0.4321,
        "seconds": 12.0,
    }
    _write(folder / "run.json", json.dumps(content))
    _write(folder / "summary.json", json.dumps(summary))
    lines = [{"epoch": e, "phase": "train", "loss": 3 / e} for e in (1, 2, 3)]
    _write(folder / "metrics.jsonl", "".join(json.dumps(line) + "\n" for line in lines))
    with (folder / "labels.csv").open("w", encoding="utf-8", newline="") as file:
        csv.writer(file, lineterminator="\n").writerows([HEADER, *rows])
    return folder


def table(folder: Path) -> list[dict[str, str]]:
    """labels.csv as the csv module reads it."""
    with (folder / "labels.csv").open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def trained(data: str | Path, out: Path, *, noise: str | None = None, **options: Any) -> Path:
    """A real run of one short epoch, whose four least trusted labels are then called suspects."""
    reading = SourceOptions(**options)
    examples = load(data, reading)
    spec = RunSpec(
        data=str(data),
        reading=reading,
        noise=noise,
        method="ce",
        settings={"epochs": 1},
        calibrate="quick",
        out=out,
    )
    # one epoch teaches too little for a run to suspect anything by itself
    with patch("labelproof.judging.verdict.table_of", lambda sure, _: label_table(sure)):
        pipeline.run(spec)
    _doubt(out, examples, 4)
    return out


def _doubt(folder: Path, examples: Examples, count: int) -> None:
    """One epoch teaches too little for a run to suspect anything by itself."""
    rows = table(folder)
    names = json.loads((folder / "run.json").read_text(encoding="utf-8"))["task"]["classes"]
    for row in rows[:count]:
        other = names[(names.index(row["given"]) + 1) % len(names)]
        suggested = row["suggested"] if row["suggested"] != row["given"] else other
        row |= {"suspect": "1", "suggested": suggested}
    with (folder / "labels.csv").open("w", encoding="utf-8", newline="") as file:
        csv.writer(file, lineterminator="\n").writerows([HEADER, *(r.values() for r in rows)])
    summary = json.loads((folder / "summary.json").read_text(encoding="utf-8"))
    _write(folder / "summary.json", json.dumps(summary | {"suspects": count}))
    report.write(folder, examples)


def picture_folder(root: Path, per_class: int = 8) -> Path:
    """Class folders of plainly coloured pictures; one is a twin of another, one is no picture."""
    for place, name in enumerate(("blue", "red")):
        (root / name).mkdir(parents=True)
        for number in range(per_class):
            pixels = np.zeros((12, 16, 3), np.uint8)
            pixels[..., 2 * (1 - place)] = 120 + 10 * number
            Image.fromarray(pixels).save(root / name / f"{number}.png")
    (root / "red" / "twin.png").write_bytes((root / "blue" / "3.png").read_bytes())
    (root / "red" / "broken.png").write_bytes(b"this is no picture")
    return root


def _write(path: Path, text: str) -> None:
    path.write_text(text, encoding="utf-8")
