"""What our loop costs beyond the network passes a method needs, in one run.

    python benchmarks/loop.py [--data vectors,images] [--rounds 9]

Trains one epoch of cross-entropy and of DPC after its warm-up. A first epoch counts which passes
the networks make: how many rows, with gradients or without. Then times as many bare forward passes
and training steps on batches that are already there. 1.0 would mean no overhead at all.
CPU time is measured, and of each the best of some rounds: other work on the machine, which shares
its caches, only adds to it.
"""

from __future__ import annotations

import argparse
import time
from collections import Counter

import torch

from labelproof import functional as fn
from labelproof.data.examples import Resident
from labelproof.data.task import Task
from labelproof.methods.ce import CrossEntropy
from labelproof.methods.dpc import DPC
from labelproof.nets import build_trunk
from labelproof.training.run import Run
from labelproof.views import ImageViews, VectorViews

B = 64


def vectors() -> tuple[Task, str]:
    x = torch.randn(12_800, 256)
    views = VectorViews(mean=torch.zeros(256), std=torch.ones(256))
    y = torch.randint(10, (len(x),))
    return Task(x=Resident(x), y=y, classes=tuple("0123456789"), views=views, kind="vectors"), "mlp"


def images() -> tuple[Task, str]:
    x = torch.randint(256, (1280, 32, 32, 3), dtype=torch.uint8)
    views = ImageViews(mean=(0.5,) * 3, std=(0.25,) * 3)
    y = torch.randint(10, (len(x),))
    task = Task(x=Resident(x), y=y, classes=tuple("0123456789"), views=views, kind="images")
    return task, "preact18_narrow"


def timed(function) -> float:
    start = time.process_time()
    function()
    return time.process_time() - start


def ratio(epoch, bare, rounds: int) -> float:
    """The best time of an epoch by that of its bare passes, measured in turns."""
    took = [(timed(epoch), bare()) for _ in range(rounds)]
    return min(one for one, _ in took) / min(other for _, other in took)


def passes(learners, epoch) -> Counter[tuple[int, bool]]:
    """How often an epoch calls these networks, by rows and whether with gradients."""
    seen: Counter[tuple[int, bool]] = Counter()

    def note(_module, given, _out) -> None:
        seen[len(given[0]), torch.is_grad_enabled()] += 1

    hooks = [learner.net.trunk.register_forward_hook(note) for learner in learners]
    epoch()
    for hook in hooks:
        hook.remove()
    return seen


def bare_seconds(learner, x: torch.Tensor, y: torch.Tensor, found: Counter) -> float:
    """Time of these passes alone, from twenty of each kind; those with gradients are steps."""

    def forward(rows: int) -> None:
        with torch.no_grad():
            learner.net(x[:rows])

    def step(rows: int) -> None:
        learner.optimiser.zero_grad()
        fn.edl_nll(learner.net(x[:rows]), y[:rows], 0).mean().backward()
        learner.optimiser.step()

    return sum(
        timed(lambda: [(step if grad else forward)(rows) for _ in range(20)]) / 20 * count  # noqa: B023
        for (rows, grad), count in found.items()
    )


def ce_epoch(run: Run):
    """The network, and a function that trains it for an epoch."""
    ce = CrossEntropy(batch=2 * B)
    state = ce.setup(run)
    return [state.learner], lambda: ce.train(state, run)


def dpc_epoch(run: Run):
    """Two networks, and a function that trains the first for an epoch after the warm-up."""
    dpc = DPC(batch=B, lambda_u=0.0)
    learners = dpc.setup(run).learners
    run.begin(dpc.warmup)  # before it, the unlabelled part of a split takes no part
    clean = torch.rand(run.task.size)  # half of the labels kept
    return [*learners], lambda: dpc.mixmatch(*learners, clean, run)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--data", default="vectors,images", help="one of them, or both")
    parser.add_argument("--rounds", type=int, default=9)
    options = parser.parse_args()
    known = {"vectors": vectors, "images": images}
    print("| data | method | epoch / bare passes |")
    print("|---|---|---:|")
    for task, net in (known[kind]() for kind in options.data.split(",")):
        shape = tuple(task.views.plain(task.x.take(torch.arange(2))).shape[1:])
        run = Run(
            task, lambda n=net, s=shape: build_trunk(n, s, 1), device=torch.device("cpu"), seed=0
        )
        x, y = task.views.plain(task.x.take(torch.arange(4 * B))), task.y[: 4 * B]
        for name, made in (("ce", ce_epoch), ("dpc, one network", dpc_epoch)):
            learners, epoch = made(run)
            found = passes(learners, epoch)
            times = ratio(
                epoch,
                lambda: bare_seconds(learners[0], x, y, found),  # noqa: B023
                options.rounds,
            )
            print(f"| {task.kind} | {name} | {times:.2f} |", flush=True)


if __name__ == "__main__":
    main()
