"""Two processes against one through the command line, for five methods.

    python benchmarks/same_result.py [--methods ce,dpc] [--seeds 3] [--epochs 20]

For each seed, runs `labelproof fit digits --noise symmetric:0.4 --calibrate off` with one thread,
then the same with `torchrun --nproc-per-node 2 -m labelproof fit ...`. Prints test accuracy after
the last epoch (mean, lowest and highest of the seeds), and for the first seed how many labels are
split alike by one process and by two, and the median difference of p_clean.
"""

from __future__ import annotations

import argparse
import csv
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

METHODS = "ce,coteaching,elr,dividemix,dpc"
TWO = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]


def fitted(method: str, seed: int, epochs: int, folder: Path, before: list[str]) -> Path:
    """The folder of a run."""
    out = folder / f"{method}-{seed}-{len(before)}"
    options = ["--method", method, "--seed", str(seed), "--noise", "symmetric:0.4"]
    command = [sys.executable, *before, "-m", "labelproof", "fit", "digits", *options]
    done = subprocess.run(
        [*command, "--epochs", str(epochs), "--calibrate", "off", "--out", str(out)],
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
    )
    if done.returncode:
        raise SystemExit(done.stderr)
    return out


def accuracy(run: Path) -> float:
    return 100 * json.loads((run / "summary.json").read_text())["accuracy"]["last"]


def clean(run: Path) -> dict[str, float]:
    with (run / "labels.csv").open(newline="") as file:
        return {row["index"]: float(row["p_clean"]) for row in csv.DictReader(file)}


def spread(runs: list[Path]) -> str:
    found = [accuracy(run) for run in runs]
    return f"{sum(found) / len(found):.1f} ({min(found):.1f} to {max(found):.1f})"


def row(method: str, seeds: int, epochs: int, folder: Path) -> str:
    alone = [fitted(method, seed, epochs, folder, []) for seed in range(seeds)]
    two = [fitted(method, seed, epochs, folder, TWO) for seed in range(seeds)]
    one, other = clean(alone[0]), clean(two[0])
    same = sum((one[index] > 0.5) == (p > 0.5) for index, p in other.items()) / len(other)
    apart = sorted(abs(one[index] - p) for index, p in other.items())[len(other) // 2]
    return f"| {method} | {spread(alone)} | {spread(two)} | {same:.1%} | {apart:.1e} |"


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--methods", default=METHODS)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--epochs", type=int, default=20)
    options = parser.parse_args()
    print("| method | one process | two processes | same split | p_clean apart |")
    print("|---|---:|---:|---:|---:|")
    with tempfile.TemporaryDirectory() as folder:
        for method in options.methods.split(","):
            print(row(method, options.seeds, options.epochs, Path(folder)), flush=True)


if __name__ == "__main__":
    main()
