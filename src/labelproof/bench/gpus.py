"""Which GPU a run of the bench gets: the one with the fewest runs."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable, Mapping

import torch

NAME = "CUDA_VISIBLE_DEVICES"


def visible(environment: Mapping[str, str] = os.environ) -> tuple[str, ...]:
    """The GPUs that this process may use, by the names that the variable takes."""
    count = torch.cuda.device_count()
    named = [word.strip() for word in environment.get(NAME, "").split(",") if word.strip()]
    return tuple(named[:count]) if named else tuple(map(str, range(count)))


def least_used(gpus: Iterable[str], taken: Iterable[str]) -> str:
    """The GPU with the fewest runs; nothing where there is none."""
    runs = Counter(taken)
    return min(gpus, key=lambda gpu: runs[gpu], default="")
