"""Sockets between the processes of one machine, for the exchanges of a training step on the CPU.

gloo hands every exchange from thread to thread, which takes long where all cores compute, and a
step of a deep network has dozens of small exchanges. Here the thread that computes sends and
receives by itself. gloo remains for processes on several machines, and for what is large where
there are more than two.
"""

from __future__ import annotations

import os
import select
import shutil
import socket
import tempfile
import time
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any
from weakref import WeakKeyDictionary

import torch
import torch.distributed as dist
from torch import Tensor

SMALL = 1 << 15  # bytes that each process sends to every other
MOST = 8  # processes
SOON = 5e-3  # seconds; a process that sleeps wakes up late, so for these it looks again and again

Views = dict[socket.socket, memoryview]  # what is still to be sent or received


@dataclass(frozen=True)
class Sockets:
    """One to every other process of this machine, by its rank."""

    rank: int
    peers: Mapping[int, socket.socket]

    def take(self, part: Tensor) -> bool:
        """Whether this is how to exchange such tensors."""
        size = part.numel() * part.element_size()
        return part.device.type == "cpu" and (size <= SMALL or len(self.peers) == 1)

    def everyones(self, part: Tensor) -> list[Tensor]:
        """The tensors of all processes, alike in shape and type, by rank.

        Raises:
            OSError: If another process has ended.
        """
        mine = part.contiguous()
        parts = {self.rank: mine} | {rank: torch.empty_like(mine) for rank in self.peers}
        outgoing = {peer: _bytes(mine) for peer in self.peers.values()}
        incoming = {peer: _bytes(parts[rank]) for rank, peer in self.peers.items()}
        late = time.perf_counter() + SOON
        while outgoing or incoming:
            # in turn, as two that only send would wait for each other for ever
            if _moved(outgoing, socket.socket.send) | _moved(incoming, _receive):
                continue
            if time.perf_counter() < late:
                os.sched_yield()
            else:
                _wait(incoming, outgoing)
        return [parts[rank] for rank in sorted(parts)]


def _moved(views: Views, move: Any) -> bool:
    """Send or receive what goes at once; whether anything did."""
    some = False
    for peer, view in list(views.items()):
        try:
            count = move(peer, view)
        except BlockingIOError:
            continue
        some = True
        if count < len(view):
            views[peer] = view[count:]
        else:
            del views[peer]
    return some


def _wait(incoming: Views, outgoing: Views) -> None:
    """Sleep until something can be sent or received."""
    events = select.poll()  # select() takes no file numbers from 1024 on
    for peer in incoming.keys() | outgoing.keys():
        wanted = (peer in incoming) * select.POLLIN | (peer in outgoing) * select.POLLOUT
        events.register(peer, wanted)
    events.poll()


def _receive(peer: socket.socket, view: memoryview) -> int:
    count = peer.recv_into(view)
    if not count:
        raise ConnectionError("the other process has closed the connection")
    return count


def _bytes(tensor: Tensor) -> memoryview:
    return tensor.detach().reshape(-1).view(torch.uint8).numpy().data


# ---- connecting ----

_connected: WeakKeyDictionary[Any, Sockets | None] = WeakKeyDictionary()  # by process group


def sockets() -> Sockets | None:
    """Those of the present processes, connected at the first call; None where they cannot be."""
    group = dist.group.WORLD
    if group not in _connected:
        _connected[group] = _connect(dist.get_rank(), dist.get_world_size())
    return _connected[group]


def _connect(rank: int, world: int) -> Sockets | None:
    """Connect every process with every other; all get sockets, or none does."""
    if world > MOST or "AF_UNIX" not in dir(socket):
        return None
    folder = ""
    try:
        folder = tempfile.mkdtemp(prefix="labelproof-") if rank == 0 else ""
        told = [folder]
        dist.broadcast_object_list(told)
        with ExitStack() as doors, ExitStack() as lines:
            waiting = _doors(doors, told[0], rank, world)
            if not _everywhere(waiting is not None) or waiting is None:
                return None  # the folder is another machine's
            called = _called(lines, told[0], rank)
            if not _everywhere(called is not None) or called is None:
                return None
            peers = called | {other: door.accept()[0] for other, door in waiting.items()}
            for peer in peers.values():
                peer.setblocking(False)
            lines.pop_all()
            return Sockets(rank, peers)
    finally:
        if folder:
            shutil.rmtree(folder, ignore_errors=True)


def _doors(stack: ExitStack, folder: str, rank: int, world: int) -> dict[int, socket.socket] | None:
    """A door for each process of higher rank."""
    doors = {}
    for other in range(rank + 1, world):
        doors[other] = stack.enter_context(socket.socket(socket.AF_UNIX))
        try:
            doors[other].bind(f"{folder}/{rank}-{other}")
            doors[other].listen(1)
        except OSError:
            return None
    return doors


def _called(stack: ExitStack, folder: str, rank: int) -> dict[int, socket.socket] | None:
    """A line to each process of lower rank."""
    lines = {}
    for other in range(rank):
        lines[other] = stack.enter_context(socket.socket(socket.AF_UNIX))
        try:
            lines[other].connect(f"{folder}/{other}-{rank}")
        except OSError:
            return None
    return lines


def _everywhere(true: bool) -> bool:
    """Whether something is true in all processes."""
    count = torch.tensor([int(true)])
    dist.all_reduce(count)
    return int(count) == dist.get_world_size()
