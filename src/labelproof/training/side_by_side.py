"""Work that can be done at once: each piece in a process of its own, with one thread.

On few examples a second thread gains nothing, and a second process halves the time. The processes
are forked, so that they share the data and start at once. They end with the process that began
them, however that ends.
"""

from __future__ import annotations

import contextlib
import ctypes
import multiprocessing
import os
import pickle
import signal
import sys
import threading
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from multiprocessing.connection import Connection, wait
from multiprocessing.synchronize import Semaphore
from typing import Any

import torch

from labelproof.errors import RunFailed
from labelproof.training import ranks
from labelproof.training.log import Reporter, Silent

Work = Callable[[Reporter], Any]  # does a piece of work, tells how it goes, gives what can be sent
PR_SET_PDEATHSIG = 1  # Linux: a signal when the parent ends


def processes(device: torch.device, count: int) -> int:
    """How many of `count` pieces of work can be done at once; 1 where all stay in this process.

    Forks need Linux, a main thread that may have children, and no GPU that was begun to be used.
    """
    threads = torch.get_num_threads()
    possible = (
        sys.platform == "linux"
        and device.type == "cpu"
        and not torch.cuda.is_available()
        and ranks.now().world == 1
        and threading.current_thread() is threading.main_thread()
        and not multiprocessing.current_process().daemon
    )
    # with many more threads than pieces, all threads on one piece after the other are faster
    return min(threads, count) if possible and 2 * count >= threads else 1


class Beside:
    """Pieces of work in processes beside this one, `room` of them at once."""

    def __init__(self, works: Sequence[Work], room: int) -> None:
        context = multiprocessing.get_context("fork")
        self._room = context.Semaphore(room)
        self._processes, self._messages = [], list[Connection]()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # of threads that do nothing now
            for work in works:
                messages, sent = context.Pipe(duplex=False)
                process = context.Process(
                    target=_do, args=(work, sent, self._room, os.getpid()), daemon=True
                )
                process.start()
                sent.close()  # so that the end of the process is the end of the messages
                self._processes.append(process)
                self._messages.append(messages)

    def more_room(self) -> None:
        """Let one more piece be done at once."""
        self._room.release()

    def values(self, reporter: Reporter | None = None) -> list[Any]:
        """What each piece gives, in order; an error of one is raised here.

        The reporter is told of a piece when it ends, and of a step for each of its epochs.
        """
        told = reporter or Silent()
        found: dict[int, Any] = {}
        epochs: dict[int, list[Mapping[str, Any]]] = {}
        while len(found) < len(self._messages):
            left = [m for i, m in enumerate(self._messages) if i not in found]
            for messages in wait(left):
                number = self._messages.index(messages)  # type: ignore[arg-type]
                kind, content = self._next(number)
                if kind == "error":
                    raise content
                if kind == "value":
                    found[number] = content
                    self._processes[number].join()
                    _retell(told, epochs.get(number, []))
                else:
                    epochs.setdefault(number, []).append(content)
                    told.step()
        return [found[number] for number in range(len(found))]

    def _next(self, number: int) -> tuple[str, Any]:
        try:
            return pickle.loads(self._messages[number].recv_bytes())  # type: ignore[no-any-return]
        except EOFError:
            self._processes[number].join()
            code = self._processes[number].exitcode
            raise RunFailed(
                f"a process that trained on a part of the data ended early (exit code {code}); it "
                "may have run out of memory. Go on with --resume, or set OMP_NUM_THREADS=1 to "
                "train in one process."
            ) from None

    def stop(self) -> None:
        """End all processes; what they have saved stays."""
        for process in self._processes:
            process.kill()
        for process, messages in zip(self._processes, self._messages, strict=True):
            process.join()
            messages.close()


@contextlib.contextmanager
def beside(works: Sequence[Work], room: int) -> Iterator[Beside]:
    """Do these pieces in processes while the block runs."""
    begun = Beside(works, room)
    try:
        yield begun
    finally:
        begun.stop()


@contextlib.contextmanager
def one_thread() -> Iterator[None]:
    """Compute with one thread, as those beside do."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


class _Told(Silent):
    """Sends what a training tells to the process that shows it."""

    def __init__(self, sent: Connection) -> None:
        self._sent = sent

    def start(self, name: str, epochs: int, done: int, unit: str = "epochs") -> None:
        """A training begins."""
        _send(self._sent, "start", {"epochs": epochs, "done": done})

    def epoch(self, line: Mapping[str, Any]) -> None:
        """An epoch ended."""
        _send(self._sent, "epoch", dict(line))


def _retell(reporter: Reporter, told: list[Mapping[str, Any]]) -> None:
    if not told:
        return
    start, *lines = told
    reporter.start("training", start["epochs"], start["done"])
    for line in lines:
        reporter.epoch(line)
    reporter.close()


def _do(work: Work, sent: Connection, room: Semaphore, parent: int) -> None:
    """A child: do one piece of work and send what it gives."""
    _end_with(parent)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent hears it too, and ends this process
    for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGALRM):
        signal.signal(number, signal.SIG_DFL)
    sys.stdout = sys.stderr = open(os.devnull, "w")  # noqa: SIM115  the parent speaks
    torch.set_num_threads(1)
    with room:
        try:
            _send(sent, "value", work(_Told(sent)))
        except (OSError, RuntimeError, ValueError) as error:  # as BadInput and RunFailed are
            _send(sent, "error", error)


def _send(sent: Connection, kind: str, content: Any) -> None:
    # not `send`, which would leave tensors with this process, that ends, and send their address
    sent.send_bytes(pickle.dumps((kind, content)))


def _end_with(parent: int) -> None:
    """Be killed when the parent ends, even by a kill."""
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:  # it has ended already
        os._exit(1)
