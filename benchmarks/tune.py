"""Same small budget of trials for every method: what the defaults for vectors were chosen by.

    python benchmarks/tune.py cifar10n_features.npz

Each method is tried with its present defaults and five changes of them (DPC, which began with the
paper's values, with both of its rounds of six), on 20,000 examples with the labels of one annotator
who is in no table (`rand2`). A trial is judged by the accuracy on that
annotator's labels of 10,000 other training examples: no true label and no test example is used.
"""

from __future__ import annotations

import argparse
import os
import time
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from typing import Any

import numpy as np
import torch

from labelproof.fit import fit
from labelproof.recipes import own_data
from labelproof.sources import SourceOptions, load
from labelproof.task import Resident

TRAIN, JUDGE = 20_000, 10_000
PAPER: dict[str, Any] = {"lr": 0.02, "alpha": 4.0, "batch": 64}  # of DPC for CIFAR-10
BEST = PAPER | {"lr": 0.1, "alpha": 1.0}  # of its first round
TRIALS: dict[str, list[dict[str, Any]]] = {
    "ce": [{}, {"lr": 0.05}, {"lr": 0.01}, {"weight_decay": 0.01}, {"epochs": 15}, {"epochs": 7}],
    "mixup": [
        {},
        {"alpha": 0.4},
        {"alpha": 2.0},
        {"weight_decay": 0.001},
        {"epochs": 20},
        {"alpha": 2.0, "lr": 0.05},
    ],
    "gce": [{}, {"q": 0.6}, {"q": 0.8}, {"weight_decay": 0.001}, {"epochs": 20}, {"lr": 0.03}],
    "bootstrap": [
        {},
        {"beta": 0.5},
        {"epochs": 7, "warmup": 2},
        {"target": "soft", "beta": 0.6},
        {"lr": 0.2},
        {"weight_decay": 0.001},
    ],
    "forward": [
        {},
        {"weight_decay": 0.001},
        {"lr": 0.05},
        {"estimate_for": 0.5},
        {"hold_out": 0.2},
        {"epochs": 20},
    ],
    "backward": [
        {},
        {"weight_decay": 0.001},
        {"lr": 0.2},
        {"max_condition": 10.0},
        {"hold_out": 0.2},
        {"epochs": 20},
    ],
    "edl": [
        {},
        {"divergence": 0.01},
        {"scale": 2.0},
        {"weight_decay": 0.002},
        {"lr": 0.05},
        {"epochs": 10},
    ],
    "elr": [
        {},
        {"lam": 2.0},
        {"weight_decay": 0.002},
        {"lr": 0.01},
        {"beta": 0.5},
        {"epochs": 20, "cycle": 20},
    ],
    "elr_plus": [
        {},
        {"lr": 0.1},
        {"lam": 1.0},
        {"lam": 2.0},
        {"alpha": 4.0},
        {"average_ramp": 2.0},
    ],
    "sop": [
        {},
        {"lr": 0.1},
        {"lr_u": 300.0, "lr_v": 300.0},
        {"lr_u": 30.0, "lr_v": 30.0},
        {"weight_decay": 0.002},
        {"epochs": 10},
    ],
    "sop_plus": [
        {},
        {"balance": 0.0},
        {"weight_decay": 0.002},
        {"consistency": 2.0},
        {"lr": 0.03},
        {"epochs": 20},
    ],
    "coteaching": [
        {},
        {"noise_rate": 0.1},
        {"noise_rate": 0.15},
        {"lr": 0.0005},
        {"ramp": 2},
        {"epochs": 20},
    ],
    "coteaching_plus": [
        {},
        {"together": 13},
        {"noise_rate": 0.1},
        {"lr": 0.0005},
        {"ramp": 8},
        {"epochs": 20, "together": 15},
    ],
    "cores": [
        {},
        {"lr": 0.6},
        {"momentum": 0.9, "lr": 0.1},
        {"beta": 1.0},
        {"weight_decay": 0.0005},
        {"epochs": 20},
    ],
    "dividemix": [
        {},
        {"lr": 0.2},
        {"alpha": 1.0},
        {"batch": 64},
        {"warmup": 5},
        {"threshold": 0.3},
    ],
    "pes": [{}, {"lr": 0.2}, {"early": 5}, {"alpha": 1.0}, {"renew_lr": 0.01}, {"lambda_u": 5.0}],
    "dpc": [  # both rounds
        PAPER,
        PAPER | {"lr": 0.1},
        PAPER | {"alpha": 1.0},
        PAPER | {"batch": 128},
        PAPER | {"lr": 0.1, "alpha": 1.0},
        PAPER | {"lr": 0.1, "batch": 128},
        BEST,
        BEST | {"batch": 128},
        BEST | {"lr": 0.2},
        BEST | {"alpha": 0.5},
        BEST | {"epochs": 7},
        BEST | {"weight_decay": 0.001},
    ],
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("data", help="cifar10n_features.npz")
    parser.add_argument("--methods", default=",".join(TRIALS))
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    args = parser.parse_args()
    names = args.methods.split(",")
    jobs = [(args.data, name, change) for name in names for change in TRIALS[name]]
    print("| method | change of the defaults | agreement (%) | seconds |\n|---|---|---:|---:|")
    with ProcessPoolExecutor(args.jobs) as pool:
        for (_, name, change), (score, seconds) in zip(jobs, pool.map(trial, jobs), strict=True):
            told = ", ".join(f"{key}={value}" for key, value in change.items()) or "none"
            print(f"| {name} | {told} | {100 * score:.2f} | {seconds:.0f} |", flush=True)


def trial(job: tuple[str, str, dict[str, Any]]) -> tuple[float, float]:
    """Agreement with held-out given labels, and the time it took."""
    path, name, change = job
    torch.set_num_threads(1)
    data = load(path, SourceOptions(label_key="rand2"))
    rows = np.random.default_rng(0).permutation(len(data))
    train, judge = np.sort(rows[:TRAIN]), rows[TRAIN : TRAIN + JUDGE]
    values = data.x.take(torch.arange(len(data)))
    part = replace(
        data, x=Resident(values[train]), labels=data.labels[train], ids=None, truth=None, test=None
    )
    start = time.perf_counter()
    result = fit(part, replace(own_data(name, "vectors"), **change), name=name, seed=0)
    probabilities = result.predict(Resident(values[judge]))
    given = torch.as_tensor(data.labels[judge])
    return (probabilities.argmax(1) == given).float().mean().item(), time.perf_counter() - start


if __name__ == "__main__":
    main()
