"""What cleanlab's Datalab finds in the same data, beside our own findings.

Digits of scikit-learn as vectors, with planted near-duplicates, outliers, wrong labels, a group of
labels that are all wrong, and a rare class; or, with --data, an .npz of vectors `x` and labels `y`.
With --sorted the rows are sorted by class first, which Datalab reports as non_iid. Both get the
same out-of-fold probabilities of a softmax regression; our label issues are those of
`find_label_issues`' judge.

    python benchmarks/health_vs_datalab.py
    python benchmarks/health_vs_datalab.py --sorted
    python benchmarks/health_vs_datalab.py --data DATA.npz --truth-key clean
    python benchmarks/health_vs_datalab.py --fit     # also the lists of a default run
"""

from __future__ import annotations

import argparse
import contextlib
import csv
import io
import tempfile
import warnings
from pathlib import Path

import numpy as np
import torch
from cleanlab import Datalab
from sklearn.datasets import load_digits

from labelproof.functional.softmax_regression import cross_fit, folds_of
from labelproof.judging.health import near_duplicates, neighbours, outliers, rare_classes
from labelproof.judging.regions import failing, in_order, sorted_by_class
from labelproof.pipeline import run
from labelproof.runs.spec import RunSpec
from labelproof.sklearn import find_label_issues, label_quality

GROUP = 60  # examples of a group whose labels are at random
THEIRS = {
    "label issues": "label",
    "near duplicates": "near_duplicate",
    "outliers": "outlier",
    "rows in an order": "non_iid",
    "failing regions": "underperforming_group",
}
Found = dict[str, set[int]]


def planted(seed: int = 0) -> tuple[np.ndarray, np.ndarray, Found]:
    rng = np.random.default_rng(seed)
    x, y = load_digits(return_X_y=True)
    keep = (y != 3) | (rng.random(len(y)) < 0.05)
    x, y = x[keep].astype(np.float32), y[keep]
    group = 16 - x[:GROUP]  # negatives, labelled at random
    x, y = np.concatenate([x, group]), np.concatenate([y, rng.integers(0, 10, GROUP)])
    copied = rng.choice(len(x) - GROUP, 20, replace=False)
    x = np.concatenate([x, x[copied] + rng.normal(size=(20, 64)) * 0.02]).astype(np.float32)
    y = np.concatenate([y, y[copied]])
    rest = np.setdiff1d(np.arange(len(x) - 20 - GROUP), copied)
    strange, wrong = np.split(rng.permutation(rest)[:115], [15])
    x[strange] = rng.permutation(np.eye(64, dtype=np.float32) * 40)[:15]
    y[wrong] = (y[wrong] + rng.integers(1, 10, len(wrong))) % 10
    spread = np.r_[wrong, len(x) - 20 - GROUP : len(x) - 20]
    y[spread] = np.where(y[spread] == 3, 4, y[spread])  # the rare class stays rare
    twice = {*copied.tolist(), *range(len(x) - 20, len(x))}
    known = {
        "near duplicates": twice,
        "outliers": set(strange.tolist()),
        "label issues": set(wrong.tolist()),
        "failing regions": set(range(len(x) - 20 - GROUP, len(x) - 20)),
        "rare classes": {3},
    }
    order = rng.permutation(len(x))
    return x[order], y[order], _moved(known, order)


def _moved(known: Found, order: np.ndarray) -> Found:
    """The same examples after rows were put in another order."""
    place = np.argsort(order)
    rows = {name: set(place[list(found)].tolist()) for name, found in known.items()}
    return {**rows, "rare classes": known.get("rare classes", set())}


def out_of_fold(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    inputs, labels = torch.from_numpy(x), torch.from_numpy(y).long()
    inputs = (inputs - inputs.mean(0)) / inputs.std(0).clamp_min(1e-6)
    inputs = 4 * inputs / inputs.square().sum(1).mean().sqrt()
    fold = folds_of(labels, 5, torch.Generator().manual_seed(0))
    return cross_fit(inputs, labels, int(y.max()) + 1, fold).log_probs.exp().double().numpy()


def ours(x: np.ndarray, y: np.ndarray, probs: np.ndarray) -> Found:
    near, labels = neighbours(torch.from_numpy(x)), torch.from_numpy(y).long()
    given = torch.from_numpy(probs).gather(1, labels[:, None]).squeeze(1)
    wrong = find_label_issues(labels=y, pred_probs=probs)
    return {
        "label issues": set(np.flatnonzero(wrong).tolist()),
        "near duplicates": {row for a, b, _ in near_duplicates(near) for row in (a, b)},
        "outliers": {row for row, _ in outliers(near)},
        "rows in an order": {row for row, _ in in_order(near, labels)},
        "rows sorted by class": set(range(sorted_by_class(labels))),
        "failing regions": {row for row, _ in failing(near, given)},
        "rare classes": {code for code, _ in rare_classes(labels, int(y.max()) + 1)},
    }


def theirs(x: np.ndarray, y: np.ndarray, probs: np.ndarray) -> Found:
    with warnings.catch_warnings(), contextlib.redirect_stdout(io.StringIO()):
        warnings.simplefilter("ignore")
        lab = Datalab({"y": y.tolist()}, label_name="y")
        lab.find_issues(features=x, pred_probs=probs)
    found = lab.get_issues()
    rows = {
        name: set(np.flatnonzero(found[f"is_{key}_issue"]).tolist()) for name, key in THEIRS.items()
    }
    rare = np.flatnonzero(found["is_class_imbalance_issue"])
    return {**rows, "rows sorted by class": set(), "rare classes": set(y[rare].tolist())}


def _lists(
    wrong: set[int], mine: set[int], other: set[int], order: np.ndarray, against: set[int]
) -> None:
    """Print how many wrong labels each list has, also where ours is as long as Datalab's."""
    first, whole = set(order[: len(other)].tolist()), mine | against
    lists = {
        "ours": mine,
        "Datalab's": other,
        "ours, as long as Datalab's": first,
        "ours and the contradicted labels": whole,
    }
    print("\n| list of label issues | labels | wrong | precision | recall |\n|---|---|---|---|---|")
    for name, found in lists.items():
        hits = len(found & wrong)
        shares = f"{hits / max(1, len(found)):.1%} | {hits / len(wrong):.1%}"
        print(f"| {name} | {len(found)} | {hits} | {shares} |")
    both = len(first & other & wrong)
    print(f"\nOf the {len(other & wrong)} wrong labels on Datalab's list, {both} are on ours.")
    print(
        f"Of all {len(other)} labels on Datalab's list, {len(other & mine)} are suspects and "
        f"{len(other & whole)} are suspects or contradicted labels."
    )


def by_default(x: np.ndarray, y: np.ndarray) -> set[int]:
    """Suspects and contradicted labels of `labelproof fit`."""
    with tempfile.TemporaryDirectory() as name:
        data, out = Path(name) / "data.npz", Path(name) / "run"
        np.savez(data, x=x, y=y)
        run(RunSpec(data=str(data), out=out))
        with (out / "labels.csv").open() as labels, (out / "health.csv").open() as health:
            suspects = {
                int(row["index"]) for row in csv.DictReader(labels) if row["suspect"] == "1"
            }
            rows = [row for row in csv.DictReader(health) if row["kind"] == "contradicted labels"]
            return suspects | {int(row["index"]) for row in rows}


def main() -> None:
    options = argparse.ArgumentParser()
    options.add_argument("--data")
    options.add_argument("--label-key", default="y")
    options.add_argument("--truth-key", help="true labels: which label issues are real")
    options.add_argument("--sorted", action="store_true", help="sort the rows by class first")
    options.add_argument("--fit", action="store_true", help="compare with a default run, too")
    given = options.parse_args()
    known: Found = {}
    if given.data:
        arrays = np.load(given.data)
        x, y = arrays["x"][:10_000].astype(np.float32), arrays[given.label_key][:10_000]
        y = y.astype(int)
        if given.truth_key:
            known["label issues"] = set(
                np.flatnonzero(y != arrays[given.truth_key][: len(y)]).tolist()
            )
    else:
        x, y, known = planted()
    if given.sorted:
        order = np.argsort(y, kind="stable")
        x, y, known = x[order], y[order], _moved(known, order)
    probs = out_of_fold(x, y)
    mine, other = ours(x, y, probs), theirs(x, y, probs)
    print("| finding | planted | ours | Datalab | both | planted, ours | planted, Datalab |")
    print("|---|---|---|---|---|---|---|")
    for name, found in mine.items():
        true = known.get(name)
        there = len(true) if true else ""
        parts = (len(true & found), len(true & other[name])) if true else ("", "")
        both = len(found & other[name])
        print(
            f"| {name} | {there} | {len(found)} | {len(other[name])} | {both} | {parts[0]} "
            f"| {parts[1]} |"
        )
    if known.get("label issues"):
        order = np.argsort(label_quality(labels=y, pred_probs=probs))
        against = set(np.flatnonzero(probs.argmax(1) != y).tolist())
        _lists(known["label issues"], mine["label issues"], other["label issues"], order, against)
    if known.get("label issues") and given.fit:
        real, theirs_real = known["label issues"], known["label issues"] & other["label issues"]
        listed = by_default(x, y)
        print("| wrong on Datalab's list | of these, listed by a default run | listed | wrong |")
        print("|---|---|---|---|")
        both = len(theirs_real & listed)
        print(f"| {len(theirs_real)} | {both} | {len(listed)} | {len(real & listed)} |")


if __name__ == "__main__":
    main()
