"""One process against two, each with one thread, in one run.

    python benchmarks/processes.py [--images 1280]

Trains an epoch of cross-entropy and of DPC's warm-up on random images with a narrow ResNet, first
alone, then as two processes that share every batch. Prints how many times faster two are. Needs two
free cores; on a busy machine the number means nothing.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from loop import B, images

from labelproof.data.examples import Resident
from labelproof.data.task import Task
from labelproof.methods.ce import CrossEntropy
from labelproof.methods.dpc import DPC
from labelproof.nets import build_trunk
from labelproof.training.run import Run


def epoch_seconds(size: int) -> dict[str, float]:
    """Seconds of an epoch, by method; the first epoch is not counted."""
    torch.set_num_threads(1)
    torch.manual_seed(0)
    whole, net = images()
    task = Task(
        x=Resident(whole.x.take(torch.arange(size) % len(whole.x))),
        y=whole.y[torch.arange(size) % len(whole.y)],
        classes=whole.classes,
        views=whole.views,
        kind="images",
    )
    run = Run(task, lambda: build_trunk(net, (3, 32, 32), size), device=torch.device("cpu"), seed=0)
    took = {}
    ce, dpc = CrossEntropy(batch=2 * B), DPC(batch=B, lambda_u=0.0)
    for name, method, epoch in (("ce", ce, ce.train), ("dpc, warm-up", dpc, dpc.warm_up)):
        state: Any = method.setup(run)
        epoch(state, run)
        start = time.perf_counter()
        epoch(state, run)
        took[name] = time.perf_counter() - start
    return took


def work(rank: int, folder: str, size: int, answers: Any) -> None:
    """One of two processes."""
    store = dist.FileStore(str(Path(folder) / "meeting-place"), 2)
    dist.init_process_group("gloo", store=store, rank=rank, world_size=2)
    took = epoch_seconds(size)
    if rank == 0:
        answers.put(took)
    dist.barrier()
    dist.destroy_process_group()


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--images", type=int, default=1280)
    size = parser.parse_args().images
    one = epoch_seconds(size)
    context = torch.multiprocessing.get_context("spawn")
    answers = context.SimpleQueue()
    with tempfile.TemporaryDirectory() as folder:
        both = [context.Process(target=work, args=(r, folder, size, answers)) for r in range(2)]
        for process in both:
            process.start()
        two = answers.get()
        for process in both:
            process.join()
    print("| method | one process / two |")
    print("|---|---:|")
    for name, seconds in one.items():
        print(f"| {name} | {seconds / two[name]:.2f} |")


if __name__ == "__main__":
    main()
