"""Several processes that train one model together, started by `torchrun`.

All processes run the same code on the same task with the same seed. They share the forward and
backward passes (`nets.sharded`) and hold the same state. Only the first one writes. What could
differ between them, such as the content of a folder, comes from the first.
"""

from __future__ import annotations

import gc
import hashlib
import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from typing import TypeVar

import torch
import torch.distributed as dist
from torch import Tensor

from labelproof.errors import LOST, BadInput, PeerLost, RunFailed
from labelproof.nets.exchange import Cut

T = TypeVar("T")
# a process that ends closes its connections at once; a long wait is for one that reads or writes
PATIENCE = timedelta(days=1)


@dataclass(frozen=True)
class Ranks:
    """The processes of a run, and which of them this is."""

    rank: int = 0
    world: int = 1

    @property
    def first(self) -> bool:
        """Whether this process writes and speaks."""
        return self.rank == 0

    def cut(self, total: int) -> Cut:
        """This process's rows of so many."""
        return Cut(self.rank, self.world, total)


ALONE = Ranks()


def now() -> Ranks:
    """The processes that PyTorch knows of; one where none were started together."""
    if not (dist.is_available() and dist.is_initialized()):
        return ALONE
    return Ranks(dist.get_rank(), dist.get_world_size())


@contextmanager
def joined(environment: Mapping[str, str] = os.environ, device: str = "auto") -> Iterator[Ranks]:
    """Join the processes that `torchrun` started; without it, this one is alone.

    Args:
        environment: where `torchrun` says who this process is.
        device: what the user wants to compute on; a name as for `pick_device`.
    """
    if int(environment.get("WORLD_SIZE", "1")) < 2 or dist.is_initialized():
        yield now()
        return
    cuda = device.split(":")[0] in ("auto", "cuda") and torch.cuda.is_available()
    if cuda:
        torch.cuda.set_device(local_device(device, environment))
    dist.init_process_group("cpu:gloo,cuda:nccl" if cuda else "gloo", timeout=PATIENCE)
    yield now()
    # not after an error: others would wait for this process, which ends instead
    wait()
    gc.collect()  # gloo can abort where networks still hold the group
    dist.destroy_process_group()


def local_device(name: str = "cuda", environment: Mapping[str, str] = os.environ) -> torch.device:
    """The CUDA device of this process: one each; one with a number suits a single process."""
    place, count = int(environment.get("LOCAL_RANK", "0")), torch.cuda.device_count()
    processes = max(place + 1, int(environment.get("LOCAL_WORLD_SIZE", "1")))
    if ":" in name:
        number = name.split(":")[1]
        if not number.isdigit() or int(number) >= count:
            raise BadInput(f"there is no device {name!r} here; use auto.")
        if processes > 1:
            raise BadInput(
                f"expected a device for each process on this machine, but {name} is a single one; "
                "use --device cuda, which gives every process its own."
            )
        return torch.device("cuda", int(number))
    if place >= count:
        raise BadInput(
            f"expected a CUDA device for each process, but this machine has {count}; use "
            f"--nproc-per-node {count}, or compute with --device cpu."
        )
    return torch.device("cuda", place)


def wait() -> None:
    """Go on when all processes have come here."""
    same(0.0)


def from_first(make: Callable[[], T]) -> T:
    """What the first process makes, on every one; an error there ends all."""
    here = now()
    if here.world == 1:
        return make()
    held = [make() if here.first else None]
    try:
        dist.broadcast_object_list(held)
    except RuntimeError as error:
        raise PeerLost(LOST) from error
    return held[0]  # type: ignore[return-value]


def in_turn(make: Callable[[], T]) -> T:
    """Made by the first process, then by the others, which find what it has left in a cache."""
    here = now()
    if here.world == 1:
        return make()
    made = make() if here.first else None
    from_first(lambda: None)
    return make() if made is None else made


def rows_from_first(index: Tensor) -> Tensor:
    """Indices (n,) as the first process has them, so that all make as many steps."""
    return index if now().world == 1 else from_first(lambda: index)


def same(value: float) -> bool:
    """Whether all processes have this value, bit for bit."""
    here = now()
    if here.world == 1:
        return True
    values = [torch.zeros(1, dtype=torch.float64) for _ in range(here.world)]
    try:
        dist.all_gather(values, torch.tensor([value], dtype=torch.float64))
    except RuntimeError as error:
        raise PeerLost(LOST) from error
    bits = torch.cat(values).view(torch.int64)
    return bool((bits == bits[0]).all())


def check_alike(content: str, sentence: str) -> None:
    """Refuse to start with a sentence where processes do not have the same text."""
    number = int(hashlib.sha256(content.encode()).hexdigest()[:12], 16)
    if not same(float(number)):
        raise BadInput(sentence)


def check_same(value: float, when: str) -> None:
    """End the run where processes no longer hold the same networks."""
    if not same(value):
        raise RunFailed(
            f"the processes of this run no longer hold the same networks {when}; a network that "
            "draws random numbers by other means than nn.Dropout needs a single process."
        )
