"""What a new user gets: `labelproof fit photos --test test` on photos with human label errors.

    python benchmarks/photos.py CIFAR10.npz CIFAR10N.npz --labels rand1 --out FOLDER
    python benchmarks/photos.py CIFAR10.npz --changed 0.1 --out FOLDER

Writes 2,000 CIFAR-10 pictures, enlarged to 64 pixels, into a folder for each given label, and 2,000
test pictures; then runs the default command with an empty cache. The truth is known only here.
CIFAR10.npz has train_images, train_labels, test_images, test_labels; CIFAR10N.npz has label sets.
With --changed all pictures are test pictures, and that share of the labels is changed at random.
"""

from __future__ import annotations

import argparse
import csv
import json
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
from PIL import Image
from sklearn.metrics import roc_auc_score

NAMES = ["airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck"]
EDGE = 64


def save(folder: Path, images: np.ndarray, labels: np.ndarray, rows: np.ndarray) -> None:
    for name in NAMES:
        (folder / name).mkdir(parents=True, exist_ok=True)
    for row in rows:
        picture = Image.fromarray(images[row]).resize((EDGE, EDGE), Image.Resampling.BICUBIC)
        picture.save(folder / NAMES[labels[row]] / f"{row:05d}.png")


def truth(folder: Path, labels: np.ndarray) -> None:
    """A list of the photos with given and true labels, for whoever wants to measure more."""
    files = sorted((folder / "photos").glob("*/*.png"), key=lambda file: file.stem)
    with (folder / "labels.csv").open("w", newline="") as table:
        writer = csv.writer(table)
        writer.writerow(["file", "label", "true"])
        for file in files:
            given = file.parent.name
            writer.writerow([f"{given}/{file.name}", given, NAMES[labels[int(file.stem)]]])


def command(folder: Path, *words: str) -> float:
    """Seconds that a command of labelproof takes."""
    start = time.perf_counter()
    subprocess.run([sys.executable, "-m", "labelproof", *words], cwd=folder, check=True)
    return time.perf_counter() - start


def measured(run: Path, truth: np.ndarray) -> str:
    summary = json.loads((run / "summary.json").read_text())
    rows = list(csv.DictReader((run / "labels.csv").open(newline="")))
    wrong = np.array([row["given"] != NAMES[truth[int(Path(row["id"]).stem)]] for row in rows])
    doubt = np.array([-float(row["p_clean"]) for row in rows])
    suspect = np.array([row["suspect"] == "1" for row in rows])
    stated = summary["suspect_precision_estimate"]
    return (
        f"{wrong.sum()} of {len(rows)} labels wrong\n"
        f"accuracy {summary['accuracy']['last']:.1%}, ECE {summary['ece_calibrated']:.3f}\n"
        f"AUROC of wrong labels {roc_auc_score(wrong, doubt):.3f}\n"
        f"{suspect.sum()} suspects, {wrong[suspect].mean():.1%} wrong, stated {stated}\n"
        f"share of wrong labels: {wrong.mean():.1%}, estimated {summary['noise_rate_estimate']:.1%}"
    )


def main() -> None:
    options = argparse.ArgumentParser()
    options.add_argument("pictures", type=Path)
    options.add_argument("given", type=Path, nargs="?")
    options.add_argument("--labels", default="rand1")
    options.add_argument("--changed", type=float)
    options.add_argument("--count", type=int, default=2000)
    options.add_argument("--seed", type=int, default=0)
    options.add_argument("--out", type=Path, required=True)
    told = options.parse_args()
    data, rng = dict(np.load(told.pictures)), np.random.default_rng(told.seed)
    part = "train" if told.changed is None else "test"
    images, true = data[f"{part}_images"], data[f"{part}_labels"]
    if told.changed is None:
        given = np.load(told.given)[told.labels]
        rows, tests = (
            np.sort(rng.choice(len(data[f"{part}_images"]), told.count, replace=False))
            for part in ("train", "test")
        )
    else:
        moved = np.where(rng.random(len(true)) < told.changed, rng.integers(1, 10, len(true)), 0)
        given = (true + moved) % 10
        rows, tests = map(np.sort, np.split(rng.permutation(len(true))[: 2 * told.count], 2))
    save(told.out / "photos", images, given, rows)
    save(told.out / "test", data["test_images"], data["test_labels"], tests)
    truth(told.out, true)
    planned = command(told.out, "plan", "photos", "--test", "test")
    words = ("--cache", "cache", "--out", "run")
    fitted = command(told.out, "fit", "photos", "--test", "test", *words)
    name = told.labels if told.changed is None else f"{told.changed:.0%} changed"
    print(f"{name}: plan {planned:.0f} s, fit {fitted:.0f} s")
    print(measured(told.out / "run", true))


if __name__ == "__main__":
    main()
