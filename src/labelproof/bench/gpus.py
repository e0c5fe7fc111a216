"""Which GPUs runs of the bench may use, and which of them has the fewest runs."""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Iterable, Mapping, MutableMapping

import torch

from labelproof.errors import BadInput

NAME = "CUDA_VISIBLE_DEVICES"


def visible(environment: Mapping[str, str] = os.environ) -> tuple[str, ...]:
    """The GPUs that this process may use, by the names that the variable takes."""
    if environment.get(NAME) == "":  # none may be used
        return ()
    count = torch.cuda.device_count()
    named = [word.strip() for word in environment.get(NAME, "").split(",") if word.strip()]
    return tuple(named[:count]) if named else tuple(map(str, range(count)))


def use_only(device: str, environment: MutableMapping[str, str] = os.environ) -> None:
    """Let this process and those it starts see only what `--device` names."""
    if device == "auto":
        return
    there = visible(environment)
    named = re.fullmatch(r"cuda(?::([0-9]+))?", device)
    place = int(named[1] or 0) if named else 0
    if device != "cpu" and (named is None or place >= len(there)):
        names = [
            "auto",
            "cpu",
            *(["cuda"] if there else []),
            *(f"cuda:{i}" for i in range(len(there))),
        ]
        raise BadInput(f"there is no device {device!r} here; use {' or '.join(names)}.")
    if device != "cuda":
        environment[NAME] = "" if device == "cpu" else there[place]


def least_used(gpus: Iterable[str], taken: Iterable[str]) -> str:
    """The GPU with the fewest runs; nothing where there is none."""
    runs = Counter(taken)
    return min(gpus, key=lambda gpu: runs[gpu], default="")
