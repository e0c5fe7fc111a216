"""What cleanlab's Datalab finds in the same data, beside our own findings.

Digits of scikit-learn as vectors, with planted near-duplicates, outliers, wrong labels and a rare
class; or, with --data, an .npz of vectors `x` and labels `y`.

    python benchmarks/health_vs_datalab.py
"""

from __future__ import annotations

import argparse
import contextlib
import io
import warnings

import numpy as np
import torch
from cleanlab import Datalab
from sklearn.datasets import load_digits

from labelproof.judging.health import near_duplicates, neighbours, outliers, rare_classes


def planted(seed: int = 0) -> tuple[np.ndarray, np.ndarray, dict[str, set[int]]]:
    rng = np.random.default_rng(seed)
    x, y = load_digits(return_X_y=True)
    keep = (y != 3) | (rng.random(len(y)) < 0.05)
    x, y = x[keep].astype(np.float32), y[keep]
    copied = rng.choice(len(x), 20, replace=False)
    x = np.concatenate([x, x[copied] + rng.normal(size=(20, 64)) * 0.02])
    y = np.concatenate([y, y[copied]])
    strange = rng.choice(len(x) - 20, 15, replace=False)
    x[strange] = rng.permutation(np.eye(64, dtype=np.float32) * 40)[:15]
    twice = {*copied.tolist(), *range(len(x) - 20, len(x))} - set(strange.tolist())
    return x, y, {"near duplicates": twice, "outliers": set(strange.tolist())}


def ours(x: np.ndarray, y: np.ndarray) -> dict[str, set[int]]:
    near = neighbours(torch.from_numpy(x))
    return {
        "near duplicates": {row for a, b, _ in near_duplicates(near) for row in (a, b)},
        "outliers": {row for row, _ in outliers(near)},
        "rare classes": {code for code, _ in rare_classes(torch.from_numpy(y).long(), y.max() + 1)},
    }


def theirs(x: np.ndarray, y: np.ndarray) -> dict[str, set[int]]:
    with warnings.catch_warnings(), contextlib.redirect_stdout(io.StringIO()):
        warnings.simplefilter("ignore")
        lab = Datalab({"y": y.tolist()}, label_name="y")
        wanted = {"outlier": {}, "near_duplicate": {}, "class_imbalance": {}}
        lab.find_issues(features=x, issue_types=wanted)
    found = lab.get_issues()
    rows = {
        name: set(np.flatnonzero(found[f"is_{key}_issue"]).tolist())
        for name, key in (("near duplicates", "near_duplicate"), ("outliers", "outlier"))
    }
    rare = np.flatnonzero(found["is_class_imbalance_issue"])
    return {**rows, "rare classes": set(y[rare].tolist())}


def main() -> None:
    options = argparse.ArgumentParser()
    options.add_argument("--data")
    options.add_argument("--label-key", default="y")
    given = options.parse_args()
    known: dict[str, set[int]] = {}
    if given.data:
        arrays = np.load(given.data)
        x, y = arrays["x"][:10_000].astype(np.float32), arrays[given.label_key][:10_000]
        y = y.astype(int)
    else:
        x, y, known = planted()
    mine, other = ours(x, y), theirs(x, y)
    print(
        f"{'':16} {'ours':>6} {'Datalab':>8} {'both':>6} {'planted':>8} {'ours of planted':>16}"
        f" {'Datalab of planted':>19}"
    )
    for name in mine:
        true = known.get(name)
        cells = (
            [str(len(true)), str(len(true & mine[name])), str(len(true & other[name]))]
            if true
            else ["", "", ""]
        )
        print(
            f"{name:16} {len(mine[name]):6} {len(other[name]):8} "
            f"{len(mine[name] & other[name]):6} {cells[0]:>8} {cells[1]:>16} {cells[2]:>19}"
        )


if __name__ == "__main__":
    main()
