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
import traceback
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from multiprocessing.connection import Connection, wait
from typing import Any

import torch

from labelproof.errors import RunFailed
from labelproof.training import ranks
from labelproof.training.log import Reporter

Work = Callable[[Reporter], Any]  # does a piece of work, tells how it goes, gives what can be sent
PR_SET_PDEATHSIG = 1  # Linux: a signal when the parent ends
STOPS = (signal.SIGINT, signal.SIGTERM, *([signal.SIGHUP] if sys.platform != "win32" else []))


def at_once(device: torch.device, count: int) -> int:
    """How many of `count` pieces of work to do at once, each with one thread, by the threads here.

    1: one piece after the other, with all threads. That is faster on a GPU, and with many more
    threads than pieces.
    """
    threads = torch.get_num_threads()
    apart = device.type == "cpu" and ranks.now().world == 1 and 2 * count >= threads
    return min(threads, count) if apart else 1


def can_fork() -> bool:
    """Whether this process may begin others. The results are the same where it may not.

    Forks need Linux, the main thread, no GPU that was begun to be used, and no `OMP_NUM_THREADS=1`,
    with which a person asks for one process.
    """
    return (
        sys.platform == "linux"
        and os.environ.get("OMP_NUM_THREADS") != "1"
        and not torch.cuda.is_available()
        and threading.current_thread() is threading.main_thread()
        and not multiprocessing.current_process().daemon
    )


class Beside:
    """Pieces of work in processes beside this one, `room` of them at once."""

    def __init__(self, works: Sequence[Work], room: int) -> None:
        self._processes: list[Any] = []
        self._messages: list[Connection] = []
        self._places = os.pipe()  # a byte for each piece that may begin
        try:
            with _stops_wait(), warnings.catch_warnings():
                warnings.simplefilter("ignore", DeprecationWarning)  # of threads that do nothing
                for work in works:
                    self._begin(work)
        except BaseException:
            self.stop()
            raise
        for _ in range(room):
            self.more_room()

    def _begin(self, work: Work) -> None:
        context = multiprocessing.get_context("fork")
        messages, sent = context.Pipe(duplex=False)
        self._messages.append(messages)
        process = context.Process(
            target=_do, args=(work, sent, self._places, os.getpid()), daemon=True
        )
        process.start()
        sent.close()  # so that the end of the process is the end of the messages
        self._processes.append(process)

    def more_room(self) -> None:
        """Let one more piece be done at once."""
        os.write(self._places[1], b".")

    def values(self, reporter: Reporter | None = None) -> list[Any]:
        """What each piece gives, in order; an error of one is raised here.

        The reporter is told of a piece when it ends, and of a step for each of its messages.
        """
        told = reporter or Reporter()
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
        except (EOFError, OSError):  # it ended, perhaps in the middle of a message
            self._processes[number].join()
            code = self._processes[number].exitcode
            why = "; it may have run out of memory" if code == -signal.SIGKILL else ""
            raise RunFailed(
                f"a process that trained without a fold ended early (exit code {code}){why}. "
                "Continue with --resume. With OMP_NUM_THREADS=1, everything runs in one process."
            ) from None

    def stop(self) -> None:
        """End all processes; what they have saved stays."""
        for process in self._processes:
            process.kill()
        for process in self._processes:
            process.join()
        for messages in self._messages:
            messages.close()
        for end in self._places:
            os.close(end)


@contextlib.contextmanager
def beside(works: Sequence[Work], room: int) -> Iterator[Beside | None]:
    """Do these pieces in processes while the block runs; None where they cannot be begun."""
    begun = None
    with contextlib.suppress(OSError):  # too many processes, or no memory for one more
        begun = Beside(works, room)
    try:
        yield begun
    finally:
        if begun:
            begun.stop()


@contextlib.contextmanager
def _stops_wait() -> Iterator[None]:
    """Let Ctrl-C and its kin come after the block, so that no process is begun by half."""
    came: list[int] = []  # a mask would not do: it holds for this thread alone
    before = {stop: signal.signal(stop, lambda number, _: came.append(number)) for stop in STOPS}
    try:
        yield
    finally:
        for stop, handler in before.items():
            signal.signal(stop, handler or signal.SIG_DFL)
        for number in set(came):
            signal.raise_signal(number)


@contextlib.contextmanager
def one_thread() -> Iterator[None]:
    """Compute with one thread, as those beside do."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


class _Told(Reporter):
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


def _do(work: Work, sent: Connection, places: tuple[int, int], parent: int) -> None:
    """A child: do one piece of work and send what it gives."""
    _end_with(parent)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent hears it too, and ends this process
    for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGALRM):
        signal.signal(number, signal.SIG_DFL)
    sys.stdout = sys.stderr = open(os.devnull, "w")  # noqa: SIM115  the parent speaks
    torch.set_num_threads(1)
    os.read(places[0], 1)
    try:
        kind, content = "value", work(_Told(sent))
    except Exception as error:
        kind, content = "error", _portable(error)
    os.write(places[1], b".")  # before the parent has read what follows
    _send(sent, kind, content)


def _portable(error: Exception) -> Exception:
    """The error with its traceback as a note, or its text where it cannot be sent."""
    error.add_note(traceback.format_exc())
    try:
        same = type(pickle.loads(pickle.dumps(error))) is type(error)
    except Exception:
        same = False
    return error if same else RunFailed(f"{type(error).__name__}: {error}")


def _send(sent: Connection, kind: str, content: Any) -> None:
    # not `send`, which would leave tensors with this process, that ends, and send their address
    sent.send_bytes(pickle.dumps((kind, content)))


def _end_with(parent: int) -> None:
    """Be killed when the parent ends, even by a kill."""
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:  # it has ended already
        os._exit(1)
