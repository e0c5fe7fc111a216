"""Same small budget of trials for every method: what the defaults for vectors were chosen by.

    python benchmarks/tune.py cifar10n_features.npz

Two rounds of six trials each, on 20,000 examples with the labels of one annotator who is in no
table (`rand2`). A trial is judged by the accuracy on that annotator's labels of 10,000 other
training examples: no true label and no test example is used. What it printed:
docs/results/trials.csv.
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

from labelproof.data.examples import Resident
from labelproof.data.readers import SourceOptions, load
from labelproof.pipeline import Given, run
from labelproof.recipes.recipe import own_data
from labelproof.runs.spec import RunSpec

TRAIN, JUDGE = 20_000, 10_000
Round = tuple[dict[str, Any], list[dict[str, Any]]]  # where it starts, and five changes of that
TRIALS: dict[str, tuple[Round, Round]] = {
    "ce": (
        (
            {"lr": 0.02, "weight_decay": 0.0005},
            [{"lr": 0.01}, {"lr": 0.05}, {"epochs": 5}, {"epochs": 20}, {"weight_decay": 0.005}],
        ),
        (
            {"lr": 0.02, "weight_decay": 0.005},
            [{"lr": 0.05}, {"lr": 0.01}, {"weight_decay": 0.01}, {"epochs": 15}, {"epochs": 7}],
        ),
    ),
    "mixup": (
        (
            {"alpha": 4.0},
            [{"alpha": 1.0}, {"alpha": 16.0}, {"lr": 0.03}, {"lr": 0.3}, {"epochs": 10}],
        ),
        (
            {"alpha": 1.0},
            [
                {"alpha": 0.4},
                {"alpha": 2.0},
                {"weight_decay": 0.001},
                {"epochs": 20},
                {"alpha": 2.0, "lr": 0.05},
            ],
        ),
    ),
    "gce": (
        ({}, [{"q": 0.5}, {"q": 0.9}, {"truncate": True}, {"lr": 0.1}, {"epochs": 10}]),
        ({}, [{"q": 0.6}, {"q": 0.8}, {"weight_decay": 0.001}, {"epochs": 20}, {"lr": 0.03}]),
    ),
    "bootstrap": (
        (
            {"epochs": 15},
            [
                {"beta": 0.5},
                {"beta": 0.8},
                {"target": "soft", "beta": 0.6},
                {"lr": 0.03},
                {"epochs": 10},
            ],
        ),
        (
            {"epochs": 10},
            [
                {"beta": 0.5},
                {"epochs": 7, "warmup": 2},
                {"target": "soft", "beta": 0.6},
                {"lr": 0.2},
                {"weight_decay": 0.001},
            ],
        ),
    ),
    "forward": (
        (
            {"epochs": 15},
            [
                {"lr": 0.03},
                {"estimate_for": 0.3},
                {"weight_decay": 0.0005},
                {"quantile": 1.0},
                {"epochs": 10},
            ],
        ),
        (
            {"epochs": 15},
            [
                {"weight_decay": 0.001},
                {"lr": 0.05},
                {"estimate_for": 0.5},
                {"hold_out": 0.2},
                {"epochs": 20},
            ],
        ),
    ),
    "backward": (
        (
            {"epochs": 15, "quantile": 0.97},
            [
                {"lr": 0.03},
                {"estimate_for": 0.3},
                {"weight_decay": 0.0005},
                {"quantile": 1.0},
                {"epochs": 10},
            ],
        ),
        (
            {"epochs": 15, "quantile": 1.0},
            [
                {"weight_decay": 0.001},
                {"lr": 0.2},
                {"max_condition": 10.0},
                {"hold_out": 0.2},
                {"epochs": 20},
            ],
        ),
    ),
    "edl": (
        (
            {"divergence": 0.1},
            [
                {"divergence": 0.3},
                {"divergence": 0.03},
                {"risk": "log"},
                {"lr": 0.05},
                {"epochs": 10},
            ],
        ),
        (
            {"divergence": 0.03},
            [
                {"divergence": 0.01},
                {"scale": 2.0},
                {"weight_decay": 0.002},
                {"lr": 0.05},
                {"epochs": 10},
            ],
        ),
    ),
    "mlnt": (
        (
            {"kl_mean": "element", "weight_decay": 0.0005},
            [
                {"order": "second"},
                {"meta_lr": 0.05},
                {"kl_mean": "example"},
                {"lr": 0.1},
                {"late_decay": 0.99},
            ],
        ),
        (
            {"kl_mean": "example", "weight_decay": 0.0005},
            [
                {"meta_lr": 0.05},
                {"meta_weight": 3.0},
                {"late_decay": 0.99},
                {"weight_decay": 0.002},
                {"mentor_epochs": 3},
            ],
        ),
    ),
    "elr": (
        ({"lam": 3.0}, [{"lam": 1.0}, {"lam": 7.0}, {"beta": 0.9}, {"lr": 0.05}, {"epochs": 10}]),
        (
            {"lam": 3.0},
            [
                {"lam": 2.0},
                {"weight_decay": 0.002},
                {"lr": 0.01},
                {"beta": 0.5},
                {"epochs": 20, "cycle": 20},
            ],
        ),
    ),
    "elr_plus": (
        (
            {"lr": 0.02, "lam": 3.0},
            [{"lam": 1.0}, {"lam": 7.0}, {"beta": 0.9}, {"lr": 0.05}, {"epochs": 8}],
        ),
        (
            {"lr": 0.05, "lam": 3.0},
            [{"lr": 0.1}, {"lam": 1.0}, {"lam": 2.0}, {"alpha": 4.0}, {"average_ramp": 2.0}],
        ),
    ),
    "sop": (
        (
            {"lr": 0.02, "lr_u": 100.0, "lr_v": 100.0},
            [
                {"lr_u": 30.0, "lr_v": 30.0},
                {"lr_u": 300.0, "lr_v": 300.0},
                {"lr": 0.05},
                {"lr": 0.01},
                {"epochs": 10},
            ],
        ),
        (
            {"lr": 0.05, "lr_u": 100.0, "lr_v": 100.0},
            [
                {"lr": 0.1},
                {"lr_u": 300.0, "lr_v": 300.0},
                {"lr_u": 30.0, "lr_v": 30.0},
                {"weight_decay": 0.002},
                {"epochs": 10},
            ],
        ),
    ),
    "sop_plus": (
        (
            {},
            [
                {"lr_u": 30.0, "lr_v": 30.0},
                {"lr_u": 300.0, "lr_v": 300.0},
                {"consistency": 0.3},
                {"lr": 0.05},
                {"epochs": 10},
            ],
        ),
        (
            {},
            [
                {"balance": 0.0},
                {"weight_decay": 0.002},
                {"consistency": 2.0},
                {"lr": 0.03},
                {"epochs": 20},
            ],
        ),
    ),
    "coteaching": (
        ({}, [{"noise_rate": 0.3}, {"ramp": 8}, {"lr": 0.001}, {"lr": 0.0001}, {"epochs": 10}]),
        (
            {},
            [
                {"noise_rate": 0.1},
                {"noise_rate": 0.15},
                {"lr": 0.0005},
                {"ramp": 2},
                {"epochs": 20},
            ],
        ),
    ),
    "coteaching_plus": (
        (
            {"together": 5},
            [{"noise_rate": 0.3}, {"together": 10}, {"lr": 0.001}, {"lr": 0.0001}, {"epochs": 10}],
        ),
        (
            {"together": 10},
            [
                {"together": 13},
                {"noise_rate": 0.1},
                {"lr": 0.0005},
                {"ramp": 8},
                {"epochs": 20, "together": 15},
            ],
        ),
    ),
    "cores": (
        (
            {"lr": 0.1, "weight_decay": 0.0},
            [
                {"beta": 1.0},
                {"beta": 4.0},
                {"lr": 0.3},
                {"sieve_from": 9},
                {"momentum": 0.9, "lr": 0.03},
            ],
        ),
        (
            {"lr": 0.3, "weight_decay": 0.0},
            [
                {"lr": 0.6},
                {"momentum": 0.9, "lr": 0.1},
                {"beta": 1.0},
                {"weight_decay": 0.0005},
                {"epochs": 20},
            ],
        ),
    ),
    "dividemix": (
        (
            {"lr": 0.02, "alpha": 4.0},
            [{"lr": 0.1}, {"alpha": 1.0}, {"threshold": 0.3}, {"warmup": 1}, {"batch": 64}],
        ),
        (
            {"lr": 0.1, "alpha": 4.0},
            [{"lr": 0.2}, {"alpha": 1.0}, {"batch": 64}, {"warmup": 5}, {"threshold": 0.3}],
        ),
    ),
    "unicon": (
        (
            {"lr": 0.02, "warmup": 3},
            [{"lr": 0.1}, {"alpha": 1.0}, {"lambda_c": 0.0}, {"warmup": 1}, {"batch": 64}],
        ),
        (
            {"lr": 0.1, "warmup": 3},
            [{"lr": 0.2}, {"alpha": 1.0}, {"batch": 64}, {"warmup": 5}, {"lambda_c": 0.0}],
        ),
    ),
    "pes": (
        (
            {"lr": 0.02, "alpha": 4.0},
            [{"lr": 0.1}, {"alpha": 1.0}, {"early": 2}, {"early": 5}, {"lambda_u": 5.0}],
        ),
        (
            {"lr": 0.1, "alpha": 4.0},
            [{"lr": 0.2}, {"early": 5}, {"alpha": 1.0}, {"renew_lr": 0.01}, {"lambda_u": 5.0}],
        ),
    ),
    "dpc": (
        (
            {"lr": 0.02, "alpha": 4.0, "batch": 64},
            [
                {"lr": 0.1},
                {"alpha": 1.0},
                {"batch": 128},
                {"lr": 0.1, "alpha": 1.0},
                {"lr": 0.1, "batch": 128},
            ],
        ),
        (
            {"lr": 0.1, "alpha": 1.0, "batch": 64},
            [{"batch": 128}, {"lr": 0.2}, {"alpha": 0.5}, {"epochs": 7}, {"weight_decay": 0.001}],
        ),
    ),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("data", help="cifar10n_features.npz")
    parser.add_argument("--methods", default=",".join(TRIALS))
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    args = parser.parse_args()
    names = args.methods.split(",")
    jobs = [(args.data, *each) for name in names for each in trials(name)]
    print("| method | round | settings | agreement (%) | seconds |\n|---|---|---|---:|---:|")
    with ProcessPoolExecutor(args.jobs) as pool:
        for job, (score, seconds) in zip(jobs, pool.map(trial, jobs), strict=True):
            _, name, number, settings = job
            told = ", ".join(f"{key}={value}" for key, value in settings.items()) or "the defaults"
            print(f"| {name} | {number} | {told} | {100 * score:.2f} | {seconds:.0f} |", flush=True)


def trials(name: str) -> list[tuple[str, int, dict[str, Any]]]:
    """The trials of a method: its name, the round, and what differs from the present defaults."""
    return [
        (name, number, start | change)
        for number, (start, changes) in enumerate(TRIALS[name], 1)
        for change in ({}, *changes)
    ]


def trial(job: tuple[str, str, int, dict[str, Any]]) -> tuple[float, float]:
    """Agreement with held-out given labels, and the time it took."""
    path, name, _, change = job
    torch.set_num_threads(1)
    data = load(path, SourceOptions(label_key="rand2"))
    rows = np.random.default_rng(0).permutation(len(data))
    train, judge = np.sort(rows[:TRAIN]), rows[TRAIN : TRAIN + JUDGE]
    values = data.x.take(torch.arange(len(data)))
    part = replace(
        data, x=Resident(values[train]), labels=data.labels[train], ids=None, truth=None, test=None
    )
    start = time.perf_counter()
    method = replace(own_data(name, "vectors"), **change)
    spec = RunSpec(method=name, calibrate="off")
    result = run(spec, Given(data=part, method=method)).result
    probabilities = result.predict(Resident(values[judge]))
    given = torch.as_tensor(data.labels[judge])
    return (probabilities.argmax(1) == given).float().mean().item(), time.perf_counter() - start


if __name__ == "__main__":
    main()
