"""Methods against each other on vectors with real human label noise; prints a Markdown table.

    python benchmarks/vectors.py cifar10n_features.npz --methods ce,dpc --seeds 3

Every cell is a run folder below --out, made by `labelproof fit` with the defaults of the method
on one core. Finished cells are read, not run again: an interrupted table goes on where it stopped.
`last` is the accuracy after the last epoch; `best` is chosen on the test set and is no result.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

COLUMNS = {
    "accuracy, last (%)": lambda s: 100 * s["accuracy"]["last"],
    "accuracy, best (%)": lambda s: 100 * s["accuracy"]["best"],
    "ECE": lambda s: s["ece"],
    "ECE, calibrated": lambda s: s["ece_calibrated"],
    "AUROC": lambda s: s["error_auroc"],
    "AP": lambda s: s["error_ap"],
    "seconds": lambda s: s["seconds"],
}
DIGITS = {"accuracy, last (%)": 2, "accuracy, best (%)": 2, "seconds": 0}


def main() -> None:
    args = arguments()
    cells = [
        (labels, method, seed)
        for labels in args.labels.split(",")
        for method in args.methods.split(",")
        for seed in range(args.seeds)
    ]
    done = 0
    with ThreadPoolExecutor(args.jobs) as pool:
        for cell, error in pool.map(lambda c: (c, run(args, *c)), cells):
            done += 1
            note = f"failed: {error}" if error else "done"
            sys.stderr.write(f"{done}/{len(cells)} {'-'.join(map(str, cell))} {note}\n")
    print(table(args, cells))


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("data", help=".npz with x, x_test, y_test and several label arrays")
    parser.add_argument("--labels", default="clean,aggre,rand1,worst", help="label arrays")
    parser.add_argument("--truth", default="clean", help="array of true labels, for measuring")
    parser.add_argument("--methods", default="ce,dpc")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="runs at a time")
    parser.add_argument("--out", type=Path, default=Path("runs/vectors"))
    return parser.parse_args()


def folder(args: argparse.Namespace, labels: str, method: str, seed: int) -> Path:
    return args.out / f"{labels}-{method}-{seed}"


def run(args: argparse.Namespace, labels: str, method: str, seed: int) -> str | None:
    """Train one cell unless it is there; returns what went wrong, if anything."""
    out = folder(args, labels, method, seed)
    if (out / "summary.json").exists():
        return None
    command = [sys.executable, "-m", "labelproof", "fit", args.data, "--label-key", labels]
    command += ["--truth-key", args.truth, "--method", method, "--seed", str(seed)]
    command += ["--out", str(out)] + (["--resume"] if (out / "run.json").exists() else [])
    done = subprocess.run(
        command,
        capture_output=True,
        text=True,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        check=False,
    )
    return done.stderr.strip().splitlines()[-1] if done.returncode else None


def table(args: argparse.Namespace, cells: list[tuple[str, str, int]]) -> str:
    """Mean and standard deviation over seeds, a row per label set and method."""
    lines = [
        "| labels | method | " + " | ".join(COLUMNS) + " | seeds |",
        "|---|---|" + "---:|" * (len(COLUMNS) + 1),
    ]
    for labels, method in dict.fromkeys((labels, method) for labels, method, _ in cells):
        paths = [folder(args, labels, method, seed) / "summary.json" for seed in range(args.seeds)]
        found = [json.loads(path.read_text()) for path in paths if path.exists()]
        values = [spread(name, [read(s) for s in found]) for name, read in COLUMNS.items()]
        lines.append(f"| {labels} | {method} | " + " | ".join(values) + f" | {len(found)} |")
    return "\n".join(lines)


def spread(name: str, values: list[float | None]) -> str:
    numbers = [value for value in values if value is not None]
    if not numbers:
        return ""
    digits = DIGITS.get(name, 4)
    mean = f"{statistics.mean(numbers):.{digits}f}"
    if len(numbers) < 2 or name == "seconds":
        return mean
    return f"{mean} ± {statistics.stdev(numbers):.{digits}f}"


if __name__ == "__main__":
    main()
