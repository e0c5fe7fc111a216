"""Throughput of batched views against a per-image Pillow loop, in one run.

Run `python benchmarks/views.py [--images 2048] [--batch 128] [--threads 1]`. The ratio is what
counts: absolute numbers depend on the machine. Both sides turn stored uint8 images of 32 x 32 into
a normalised float32 batch; the loop crops, flips and normalises one at a time, as a loader does.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable

import numpy as np
import torch
from PIL import Image, ImageOps
from torch import Tensor

from labelproof.views import ImageViews
from labelproof.views.ops import OPERATIONS
from labelproof.views.policies import NAMES, draw, policy_table

MEAN, STD = (0.4914, 0.4822, 0.4465), (0.2023, 0.1994, 0.2010)  # CIFAR-10, as published


def pillow_weak(batch: Tensor, rng: np.random.Generator) -> Tensor:
    mean, std = torch.tensor(MEAN).view(3, 1, 1), torch.tensor(STD).view(3, 1, 1)
    views = []
    for pixels in batch.numpy():
        image = ImageOps.expand(Image.fromarray(pixels), 4)
        top, left = rng.integers(0, 9, 2)
        image = image.crop((left, top, left + 32, top + 32))
        if rng.random() < 0.5:
            image = ImageOps.mirror(image)
        view = torch.from_numpy(np.array(image)).permute(2, 0, 1).float() / 255
        views.append((view - mean) / std)
    return torch.stack(views)


def one_at_a_time(batch: Tensor, rng: torch.Generator) -> Tensor:
    """The strong policy with every operation called for one image alone."""
    table, out = policy_table("cifar10"), batch.clone()
    for operation, magnitude in draw(table, len(batch), rng):
        for row in (operation >= 0).nonzero().view(-1).tolist():
            run, part = OPERATIONS[NAMES[operation[row]]], slice(row, row + 1)
            out[part] = run(out[part], magnitude[part], table.fill)
    return out


def rate(view: Callable[[Tensor], Tensor], images: Tensor, batch: int) -> float:
    """Images a second, the best of three passes after a first one to warm up."""
    view(images[:batch])
    best = float("inf")
    for _ in range(3):
        start = time.perf_counter()
        for part in torch.split(images, batch):
            view(part)
        best = min(best, time.perf_counter() - start)
    return len(images) / best


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--images", type=int, default=2048)
    parser.add_argument("--batch", type=int, default=128)
    parser.add_argument("--threads", type=int, default=1)
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    draws, loop_draws = torch.Generator().manual_seed(0), np.random.default_rng(0)
    shape = (options.images, 32, 32, 3)
    images = torch.randint(256, shape, generator=draws, dtype=torch.uint8)
    views = ImageViews(mean=MEAN, std=STD)
    loop = rate(lambda x: pillow_weak(x, loop_draws), images, options.batch)
    weak = rate(lambda x: views.weak(x, draws), images, options.batch)
    strong = rate(lambda x: views.strong(x, draws), images, options.batch)
    single = rate(lambda x: one_at_a_time(x, draws), images[: 2 * options.batch], options.batch)
    print(f"per-image Pillow crop and flip  {loop:10.0f} images/s")
    print(f"batched weak views              {weak:10.0f} images/s   {weak / loop:.1f} times")
    print(f"strong policy image by image    {single:10.0f} images/s")
    print(f"batched strong views            {strong:10.0f} images/s   {strong / single:.1f} times")
    print(f"strong views: {1000 * 64 / strong:.1f} ms for 64 images")


if __name__ == "__main__":
    main()
