"""Photos for `labelproof demo --photos`: parts of scikit-learn's two photos, and drawn sunsets."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from PIL import Image

from labelproof.files import written_whole

EACH = 60  # pictures of a class
EDGE = 128  # pixels
WRONG = 0.2  # share of labels that are made wrong
CLASSES = ("flower", "sunset", "temple")
LABELS = "labels.csv"
Pixels = npt.NDArray[np.uint8]


def make_photos(folder: Path, seed: int) -> Path:
    """Pictures and labels.csv (file, label, truth) in a folder; what is there already stays."""
    table = folder / LABELS
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
    with written_whole(table) as aside, aside.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(("file", "label", "truth"))
        writer.writerows((name, CLASSES[given[k]], CLASSES[truth[k]]) for name, k in names)
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
