"""What our loop costs beyond the network passes a method needs, in one run.

    python benchmarks/loop.py

Trains one epoch of cross-entropy and of DPC, and times the same number of bare forward and backward
passes of the same networks on batches that are already there. 1.0 would mean no overhead at all.
CPU time is measured, and of each the best of some rounds: other work on the machine, which shares
its caches, only adds to it.
"""

from __future__ import annotations

import time

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
ROUNDS = 9


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


def ratio(epoch, bare) -> float:
    """The best time of an epoch by that of its bare passes, measured in turns."""
    took = [(timed(epoch), bare()) for _ in range(ROUNDS)]
    return min(one for one, _ in took) / min(other for _, other in took)


def forwards(net, batch: torch.Tensor, count: float) -> float:
    with torch.no_grad():
        return timed(lambda: [net(batch) for _ in range(20)]) / 20 * count


def steps(learner, batch: torch.Tensor, labels: torch.Tensor, count: float) -> float:
    def one() -> None:
        learner.optimiser.zero_grad()
        fn.edl_nll(learner.net(batch), labels, 0).mean().backward()
        learner.optimiser.step()

    return timed(lambda: [one() for _ in range(20)]) / 20 * count


def main() -> None:
    print("| data | method | epoch / bare passes |")
    print("|---|---|---:|")
    for task, net in (vectors(), images()):
        shape = tuple(task.views.plain(task.x.take(torch.arange(2))).shape[1:])
        run = Run(
            task, lambda n=net, s=shape: build_trunk(n, s, 1), device=torch.device("cpu"), seed=0
        )
        plain = task.views.plain(task.x.take(torch.arange(4 * B)))
        y, n = task.y[: 4 * B], task.size

        ce = CrossEntropy(batch=2 * B)
        state = ce.setup(run)
        ce.train(state, run)
        found = ratio(
            lambda: ce.train(state, run),  # noqa: B023
            lambda: steps(state.learner, plain[: 2 * B], y[: 2 * B], n / (2 * B)),  # noqa: B023
        )
        print(f"| {task.kind} | ce | {found:.2f} |", flush=True)

        dpc = DPC(batch=B, lambda_u=0.0)
        state = dpc.setup(run)
        dpc.warm_up(state, run)
        first, second = state.learners
        clean = torch.rand(n)  # half of the labels kept
        kept = int((clean > 0.5).sum()) // B
        dpc.mixmatch(first, second, clean, run)
        found = ratio(
            lambda: dpc.mixmatch(first, second, clean, run),  # noqa: B023
            lambda: (
                forwards(first.net, plain[: 2 * B], 2 * kept)  # noqa: B023
                + steps(first, plain, y, kept)  # noqa: B023
            ),
        )
        print(f"| {task.kind} | dpc, one network | {found:.2f} |", flush=True)


if __name__ == "__main__":
    main()
