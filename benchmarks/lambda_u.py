"""lambda_u="auto" against every fixed value; prints a Markdown table.

    python benchmarks/lambda_u.py cifar10n_features.npz
    python benchmarks/lambda_u.py small_images.npz --settings y,y+symmetric:0.5 --net cnn --epochs 8

A setting is an array of labels, with noise put in where `+kind:rate` follows. Accuracy is that of
the last epoch on test data. Training with a chosen value is training with that value, bit for bit,
so `auto` costs its trials alone here. Times are those of this process on the CPU.
"""

from __future__ import annotations

import argparse
import sys
import time
from dataclasses import replace
from typing import Any

import numpy as np
import torch

from labelproof.build import Prepared, prepare
from labelproof.choose import CANDIDATES, choose_lambda_u, decided
from labelproof.engine.loop import train
from labelproof.fit import make_trunk
from labelproof.metrics import accuracy
from labelproof.recipes import chosen_method
from labelproof.sources import SourceOptions, load
from labelproof.task import Audit, Examples, Resident

SETTINGS = "clean,rand1,worst,clean+symmetric:0.5,clean+symmetric:0.8,clean+asymmetric:0.4"
CPU = torch.device("cpu")


def main() -> None:
    args = arguments()
    torch.set_num_threads(1)
    print(
        f"| labels | {' | '.join(f'{v:g}' for v in CANDIDATES)} | auto | behind the best | "
        "given labels predicted in the trials | time of the trials |"
    )
    print("|---|" + "---:|" * (len(CANDIDATES) + 4))
    for setting in args.settings.split(","):
        print(row(args, setting), flush=True)


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("data", help=".npz with x, x_test, y_test and arrays of labels")
    parser.add_argument("--settings", default=SETTINGS, help="label arrays, with +kind:rate")
    parser.add_argument("--size", type=int, default=8000, help="training examples, at random")
    parser.add_argument("--method", default="dpc")
    parser.add_argument("--net", default="auto")
    parser.add_argument("--epochs", type=int)
    parser.add_argument("--seed", type=int, default=0)
    return parser.parse_args()


def row(args: argparse.Namespace, setting: str) -> str:
    """One setting: all fixed values, and what auto takes."""
    prepared = problem(args, setting)
    changes = {"epochs": str(args.epochs)} if args.epochs else {}
    method = chosen_method(args.method, prepared.task.kind, {**changes, "lambda_u": "auto"})
    trunk, _ = make_trunk(args.net, prepared.task)
    started = time.process_time()
    choice = choose_lambda_u(prepared.task, method, trunk, seed=args.seed, device=CPU)
    trials = time.process_time() - started
    found, seconds = {}, {}
    for value in CANDIDATES:
        started = time.process_time()
        result = train(prepared.task, decided(method, value), trunk, seed=args.seed, device=CPU)
        seconds[value] = time.process_time() - started
        found[value] = 100 * test_accuracy(result, prepared.audit)
        told = (
            f"{found[value]:.2f} at {value:g}, {seconds[value]:.0f} s; {choice.why} {trials:.0f} s"
        )
        sys.stderr.write(f"{setting}: {told}\n")
    best = max(found.values())
    cells = [f"{'**' * (a == best)}{a:.2f}{'**' * (a == best)}" for a in found.values()]
    agreed = [f"{100 * (t.agreement or 0):.1f}" for t in choice.trials]
    cells += [f"{choice.value:g}", f"{best - found[choice.value]:.2f}", ", ".join(agreed)]
    cells.append(f"{trials / seconds[choice.value]:.0%} of the run")
    return f"| {setting.replace('+', ', ')} | {' | '.join(cells)} |"


def test_accuracy(result: Any, audit: Audit) -> float:
    assert audit.test_x is not None
    assert audit.test_y is not None
    return accuracy(result.predict(audit.test_x).cpu(), audit.test_y)


def problem(args: argparse.Namespace, setting: str) -> Prepared:
    """A random part of the data with these labels, the same part for every setting."""
    labels, _, noise = setting.partition("+")
    data = load(args.data, SourceOptions(label_key=labels))
    return prepare(part(data, args.size, args.seed), noise=noise or None, seed=args.seed)


def part(data: Examples, size: int, seed: int) -> Examples:
    rows = np.sort(np.random.default_rng(seed).permutation(len(data))[:size])
    assert data.labels is not None
    inputs = Resident(data.x.take(torch.from_numpy(rows)))
    return replace(data, x=inputs, labels=data.labels[rows], truth=None, ids=None)


if __name__ == "__main__":
    main()
