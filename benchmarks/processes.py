"""One process against two, each with one thread, in one run.

    python benchmarks/processes.py [--net preact18_narrow] [--images 1280] [--rounds 3]

Trains whole epochs of cross-entropy and of DPC, during and after its warm-up, on random images. It
does so alone, then as two processes that share every batch, and again, in
turns. Prints how many times faster two are, by the best of the rounds. Needs two free cores; on a
busy machine the number means nothing.
"""

from __future__ import annotations

import argparse
import gc
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
from labelproof.process_memory import keep_freed_memory
from labelproof.training.run import Run

PATIENCE = 3600.0  # seconds; a process that failed never answers


def epoch_seconds(net: str, size: int) -> dict[str, float]:
    """Seconds of an epoch, by method; the first of two is not counted."""
    # both as the command line does
    keep_freed_memory()
    gc.freeze()
    torch.set_num_threads(1)
    torch.manual_seed(0)
    whole, _ = images()
    task = Task(
        x=Resident(whole.x.take(torch.arange(size) % len(whole.x))),
        y=whole.y[torch.arange(size) % len(whole.y)],
        classes=whole.classes,
        views=whole.views,
        kind="images",
    )
    run = Run(task, lambda: build_trunk(net, (3, 32, 32), size), device=torch.device("cpu"), seed=0)
    ce, dpc = CrossEntropy(batch=2 * B), DPC(batch=B)
    trained, pair = ce.setup(run), dpc.setup(run)
    epochs = {
        "cross-entropy": lambda: ce.train(trained, run),
        "DPC, warm-up": lambda: dpc.warm_up(pair, run),
        "DPC, after it": lambda: dpc.co_divide(pair, run),
    }
    first = {"DPC, after it": dpc.warmup}  # before it, the unlabelled part takes no part
    took = {}
    for name, epoch in epochs.items():
        run.begin(first.get(name, 0))
        took[name] = second_time(epoch)
    return took


def second_time(epoch: Any) -> float:
    epoch()
    start = time.perf_counter()
    epoch()
    return time.perf_counter() - start


def work(rank: int, folder: str, net: str, size: int, answers: Any) -> None:
    """One of two processes."""
    store = dist.FileStore(str(Path(folder) / "meeting-place"), 2)
    dist.init_process_group("gloo", store=store, rank=rank, world_size=2)
    took = epoch_seconds(net, size)
    if rank == 0:
        answers.put(took)
    dist.barrier()
    dist.destroy_process_group()


def alone(net: str, size: int, answers: Any) -> None:
    """One process, new like the two."""
    answers.put(epoch_seconds(net, size))


def started(context: Any, target: Any, calls: list[tuple[Any, ...]]) -> dict[str, float]:
    answers = context.Queue()
    running = [context.Process(target=target, args=(*call, answers)) for call in calls]
    for process in running:
        process.start()
    took = answers.get(timeout=PATIENCE)
    for process in running:
        process.join()
    return took


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--net", default="preact18_narrow", help="preact18 is the paper's")
    parser.add_argument("--images", type=int, default=1280)
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    context = torch.multiprocessing.get_context("spawn")
    what = (options.net, options.images)
    one, two = [], []
    for _ in range(options.rounds):
        one.append(started(context, alone, [what]))
        with tempfile.TemporaryDirectory() as folder:
            two.append(started(context, work, [(rank, folder, *what) for rank in range(2)]))
    print("| epoch | one process, s | two, s | one / two |")
    print("|---|---:|---:|---:|")
    for name in one[0]:
        single, both = (min(took[name] for took in rounds) for rounds in (one, two))
        print(f"| {name} | {single:.2f} | {both:.2f} | {single / both:.2f} |")


if __name__ == "__main__":
    main()
