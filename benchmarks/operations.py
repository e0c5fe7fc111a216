"""How many operations and copies a training step takes, counted on the CPU.

    python benchmarks/operations.py

Counts what PyTorch dispatches: every operation of a DPC step, forward and backward, and of it
those that copy from one place or type to another (`_to_copy`), which on a GPU may be host-to-device
copies. Counts do not depend on the machine; no time is measured.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

import torch
from loop import B, images, vectors
from torch.utils._python_dispatch import TorchDispatchMode

from labelproof import functional as fn
from labelproof.methods.dpc import DPC
from labelproof.nets import build_trunk
from labelproof.training.run import Run


class Counting(TorchDispatchMode):
    """Counts operations by name."""

    def __init__(self) -> None:
        super().__init__()
        self.found: Counter[str] = Counter()

    def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None):
        self.found[function.overloadpacket.__name__] += 1
        return function(*args, **(kwargs or {}))


def counted(work) -> Counter[str]:
    with Counting() as mode:
        work()
    return mode.found


def main() -> None:
    print("| data | part | operations | copies |")
    print("|---|---|---:|---:|")
    for task, name in (vectors(), images()):
        shape = tuple(task.views.plain(task.x.take(torch.arange(2))).shape[1:])
        run = Run(
            task, lambda n=name, s=shape: build_trunk(n, s, 1), device=torch.device("cpu"), seed=0
        )
        for label, settings in (("DPC", {}), ("DPC*", {"consistency": 1.0})):
            dpc = DPC(batch=B, lambda_u=25.0, **settings)
            state = dpc.setup(run)
            first, second = state.learners
            run.begin(dpc.warmup)  # before it, the unlabelled part of a split takes no part
            clean = torch.zeros(task.size)
            clean[: 2 * B] = 1.0
            dpc.mixmatch(first, second, clean, run)
            found = counted(lambda: dpc.mixmatch(first, second, clean, run))  # noqa: B023
            steps = 2  # labelled batches
            print(f"| {task.kind} | a step of {label} | {found.total() // steps} | "
                  f"{found['_to_copy'] // steps} |")  # fmt: skip
    logits = torch.randn(2 * B, 10, requires_grad=True)
    labels = torch.randint(10, (2 * B,))
    found = counted(lambda: fn.edl_loss(logits, labels, 1.0, 0.5).mean().backward())
    print(f"| | L_edl, forward and backward | {found.total()} | {found['_to_copy']} |")


if __name__ == "__main__":
    main()
