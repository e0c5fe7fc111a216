"""Peak memory of training on 100,000 JPEGs of 256 pixels that do not fit into memory.

Run `python benchmarks/memory.py [--images 100000] [--batches 300] [--cache] [--folder KEPT]`. A
few hundred distinct pictures are linked into ten class folders until there are enough; one process
then reads the folder (every file is decoded once), makes weak views of shuffled batches and trains
a small network on them, and reports the peak of its resident memory at each stage. The network is
tiny on purpose: a real one's activations would lie on the accelerator, and it is the data's memory
that is measured. Decoded, the pictures would need 19.7 GB; the promise is less than 3 GB. Exit
status 1 if it is broken.
"""

from __future__ import annotations

import argparse
import os
import resource
import shutil
import sys
import tempfile
import time
from itertools import islice
from pathlib import Path

import numpy as np
import torch
from PIL import Image, ImageFilter
from torch import nn

from labelproof.data.examples import Examples
from labelproof.data.readers import SourceOptions, load
from labelproof.process_memory import keep_freed_memory
from labelproof.runs.prepare import prepare
from labelproof.training.batches import Batches

EDGE, CLASSES, DISTINCT, PROMISE = 256, 10, 300, 3.0


def picture(seed: int) -> Image.Image:
    """Blurred noise: about as many bytes in JPEG as a photograph of this size."""
    pixels = np.random.default_rng(seed).integers(0, 256, (EDGE, EDGE, 3), dtype=np.uint8)
    return Image.fromarray(pixels).filter(ImageFilter.GaussianBlur(1.3))


def make_folder(root: Path, images: int) -> None:
    """Class folders with `images` files in all, which are links to a few hundred pictures."""
    source = root / "distinct"
    source.mkdir(parents=True)
    for seed in range(DISTINCT):
        picture(seed).save(source / f"{seed}.jpg", quality=85)
    for label in range(CLASSES):
        (root / "images" / f"class{label}").mkdir(parents=True)
    for number in range(images):
        name = root / "images" / f"class{number % CLASSES}" / f"{number:06d}.jpg"
        os.link(source / f"{number % DISTINCT}.jpg", name)


def peak_gb() -> float:
    """Peak resident memory of this process so far; Linux counts in kilobytes, macOS in bytes."""
    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit / 1e9


def train(examples: Examples, batches: int, size: int) -> None:
    """A few hundred steps of plain training on weak views."""
    task = prepare(examples).task
    layers = [nn.Conv2d(3, 16, 8, stride=8), nn.ReLU(), nn.Conv2d(16, 32, 3, stride=2), nn.ReLU()]
    net = nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(32, CLASSES))
    optimiser = torch.optim.SGD(net.parameters(), lr=0.01)
    stream = Batches(
        task=task,
        x=task.x,
        y=task.y,
        index=torch.arange(task.size),
        size=size,
        views=("weak",),
        forever=True,
        rng=(rng := torch.Generator().manual_seed(0)),
        host_rng=rng,
        order=torch.Generator().manual_seed(1),
        device=torch.device("cpu"),
    )
    for batch in islice(stream, batches):
        loss = torch.nn.functional.cross_entropy(net(batch.views[0]), batch.y)
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()


def measure(root: Path, arguments: argparse.Namespace) -> float:
    """Read and train, telling the peak after each stage; returns the last one."""
    cache = root / "cache" if arguments.cache else None
    print(f"imports             peak {peak_gb():5.2f} GB")
    start = time.perf_counter()
    examples = load(root / "images", SourceOptions(cache=cache))
    seconds = time.perf_counter() - start
    print(f"{len(examples):,} images read  peak {peak_gb():5.2f} GB  {seconds:.0f} s", flush=True)
    print(f"shape {examples.x.shape}, {examples.about['storage']}")
    train(examples, arguments.batches, arguments.batch)
    print(f"{arguments.batches} batches of {arguments.batch}   peak {peak_gb():5.2f} GB")
    return peak_gb()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--images", type=int, default=100_000)
    parser.add_argument("--batches", type=int, default=300)
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("--cache", action="store_true", help="train from a cache of decoded pixels")
    parser.add_argument("--folder", type=Path, help="make the images here and keep them")
    arguments = parser.parse_args()
    keep_freed_memory()  # as the command line does
    root = arguments.folder or Path(tempfile.mkdtemp(prefix="memory-"))
    try:
        if not (root / "images").is_dir():
            make_folder(root, arguments.images)
        peak = measure(root, arguments)
    finally:
        if arguments.folder is None:
            shutil.rmtree(root, ignore_errors=True)
    kept = peak < PROMISE
    print(f"peak {peak:.2f} GB of {PROMISE:.0f} GB: {'kept' if kept else 'broken'}")
    return 0 if kept else 1


if __name__ == "__main__":
    sys.exit(main())
