"""`labelproof demo`: the main job in two minutes, on data that ships with scikit-learn."""

from __future__ import annotations

import shlex
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from PIL import Image
from rich.console import Console
from rich.table import Table

from labelproof import pipeline
from labelproof.csv_files import write_csv
from labelproof.data.readers import SourceOptions
from labelproof.errors import BadInput
from labelproof.run_files import LABELS, REPORT
from labelproof.runs import folder as runfolder
from labelproof.runs.forecast import duration
from labelproof.runs.spec import RunSpec
from labelproof.training.log import reporter_for

NOISE = "symmetric:0.4"
EPOCHS = 20  # enough for 1,437 pictures of 8 x 8 pixels


def demo_as_asked(out: Path | None, seed: int, photos: bool) -> None:
    """Carry out the demo that was asked for."""
    console = Console(highlight=False)
    out = out or Path("runs/demo-photos" if photos else "runs/demo")
    if out.is_file():
        raise BadInput(f"{out} is a file; name a folder for the demo with --out.")
    if photos:
        _photos(out, seed, console)
    else:
        _digits(out, seed, console)
    console.print("Next, try your own data: labelproof fit DATA", soft_wrap=True)


def _photos(out: Path, seed: int, console: Console) -> None:
    """Photos with wrong labels, from pictures to a report."""
    table = make_photos(out / "photos", seed)
    console.print(
        f"{len(CLASSES) * EACH} pictures: parts of the two photos that ship with scikit-learn, and "
        f"drawn sunsets. {WRONG:.0%} of the labels are wrong, and the method is not told which.\n",
        soft_wrap=True,
    )
    spec = RunSpec(
        data=str(out / "photos"),
        reading=SourceOptions(labels=table, truth_key="truth"),
        seed=seed,
        out=out / "dpc",
    )
    start, before = time.monotonic(), runfolder.finished(spec)
    _train(spec, console)
    console.print(_reading(runfolder.read_summary(out / "dpc")), soft_wrap=True)
    if not before:
        console.print(f"Encoding, training and judging took {duration(time.monotonic() - start)}.")
    _show_files(out / "dpc", console)


def _digits(out: Path, seed: int, console: Console) -> None:
    """Digits with wrong labels, by two methods."""
    console.print(
        "scikit-learn's digits: 40% of the training labels are replaced at random, sometimes by "
        "the same label. Neither method is told which.\n"
    )
    for name in ("ce", "dpc"):
        spec = RunSpec(
            data="digits",
            noise=NOISE,
            method=name,
            settings={"epochs": EPOCHS},
            seed=seed,
            out=out / name,
        )
        _train(spec, console)
    summaries = {name: runfolder.read_summary(out / name) for name in ("ce", "dpc")}
    console.print(_table(summaries))
    console.print(_reading(summaries["dpc"]))
    _show_files(out / "dpc", console)


def _show_files(run: Path, console: Console) -> None:
    console.print(f"\nThe report, for a browser: {run / REPORT}", soft_wrap=True)
    console.print(f"Every label, the most suspicious first: {run / LABELS}", soft_wrap=True)
    command = shlex.join(["labelproof", "review", str(run)])
    console.print(f"To check the suspects in a browser: {command}", soft_wrap=True)


def _train(spec: RunSpec, console: Console) -> None:
    """Carry out the spec unless that was done before."""
    if runfolder.finished(spec):
        return
    try:
        pipeline.run(spec, resume=True, reporter=reporter_for(Console(stderr=True)))
    except KeyboardInterrupt:
        console.print("\nStopped. The same command continues from the last complete epoch.")
        sys.exit(130)


def _table(summaries: dict[str, dict[str, Any]]) -> Table:
    table = Table(box=None, pad_edge=False)
    for heading in ("", "ordinary training", "DPC"):
        table.add_column(heading, justify="left" if not heading else "right")
    both = [summaries["ce"], summaries["dpc"]]
    found = [s["suspect_detection"] for s in both]
    rows = {
        "labels that are wrong": [f"{s['noise_rate_true']:.1%}" for s in both],
        "test accuracy": [f"{s['accuracy']['last']:.1%}" for s in both],
        "labels called wrong": [str(s["suspects"]) for s in both],
        "  of these, really wrong": [f"{d['precision'] or 0:.1%}" for d in found],
        "  wrong labels found": [f"{d['recall'] or 0:.1%}" for d in found],
        "calibration error (ECE)": [f"{s['ece']:.3f}" for s in both],
        "  after calibration": [f"{s['ece_calibrated']:.3f}" for s in both],
        "seconds, with calibration": [f"{_seconds(s):.0f}" for s in both],
    }
    for name, cells in rows.items():
        table.add_row(name, *cells)
    return table


def _seconds(summary: dict[str, Any]) -> float:
    """Of training and calibrating."""
    return float(summary["seconds"] + summary.get("seconds_calibration", 0.0))


def _reading(summary: dict[str, Any]) -> str:
    found = summary["suspect_detection"]
    right, caught = found["precision"] or 0, found["recall"] or 0
    return (
        f"\nDPC listed {summary['suspects']} labels as wrong. Of these, {right:.1%} are wrong, "
        f"and they include {caught:.1%} of all wrong labels."
    )


EACH = 60  # pictures of a class
EDGE = 128  # pixels
WRONG = 0.2  # share of labels that are made wrong
CLASSES = ("flower", "sunset", "temple")
TABLE = "labels.csv"
Pixels = npt.NDArray[np.uint8]


def make_photos(folder: Path, seed: int) -> Path:
    """Pictures and labels.csv (file, label, truth) in a folder; what is there already stays."""
    table = folder / TABLE
    if table.exists():
        return table
    rng = np.random.default_rng(seed)
    truth = np.repeat(np.arange(len(CLASSES)), EACH)
    given = truth.copy()
    wrong = rng.choice(len(truth), round(WRONG * len(truth)), replace=False)
    given[wrong] = (given[wrong] + rng.integers(1, len(CLASSES), len(wrong))) % len(CLASSES)
    sources = _sources()
    folder.mkdir(parents=True, exist_ok=True)
    names = []
    for number, kind in enumerate(rng.permutation(len(truth)).tolist()):
        names.append((f"{number:03d}.jpg", kind))
        Image.fromarray(_picture(CLASSES[truth[kind]], sources, rng)).save(folder / names[-1][0])
    rows = ((name, CLASSES[given[k]], CLASSES[truth[k]]) for name, k in names)
    write_csv(table, ("file", "label", "truth"), rows)
    return table


def _sources() -> dict[str, Image.Image]:
    from sklearn.datasets import load_sample_image

    return {
        "temple": Image.fromarray(load_sample_image("china.jpg")),
        "flower": Image.fromarray(load_sample_image("flower.jpg")),
    }


def _picture(name: str, sources: dict[str, Image.Image], rng: np.random.Generator) -> Pixels:
    """A part of a photo, perhaps mirrored and in other light; or a drawn sunset."""
    pixels = _sunset(rng) if name == "sunset" else _part(sources[name], rng)
    light = pixels.astype(np.float64) * rng.uniform(0.7, 1.2) + rng.uniform(-15, 15)
    mirrored = light[:, ::-1] if rng.random() < 0.5 else light
    return np.clip(mirrored, 0, 255).astype(np.uint8)


def _part(photo: Image.Image, rng: np.random.Generator) -> npt.NDArray[Any]:
    edge = int(rng.integers(160, 320))
    left = int(rng.integers(0, photo.width - edge))
    top = int(rng.integers(0, photo.height - edge))
    part = photo.crop((left, top, left + edge, top + edge))
    return np.asarray(part.resize((EDGE, EDGE), Image.Resampling.BILINEAR))


def _sunset(rng: np.random.Generator) -> npt.NDArray[Any]:
    """A sky from blue to orange, a sun, dark land with a wavy edge, and grain."""
    rows, columns = np.mgrid[0:EDGE, 0:EDGE] / EDGE
    high, low = rng.uniform((20, 20, 80), (90, 70, 160)), rng.uniform((220, 90, 20), (255, 160, 90))
    sky = high + rows[..., None] * (low - high)
    at, size = rng.uniform((0.3, 0.2), (0.7, 0.8)), rng.uniform(0.05, 0.12)
    glow = np.exp(-((rows - at[0]) ** 2 + (columns - at[1]) ** 2) / (2 * size**2))[..., None]
    edge = 0.75 + 0.05 * np.sin(rng.uniform(4, 14) * columns + rng.uniform(0, 6))
    land = np.where((rows > edge)[..., None], np.array([25, 20, 25]), sky + glow * (255 - sky))
    return np.asarray(land + rng.normal(0, 6, land.shape))
