"""A limit on how long a measurement may take."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType


class OutOfTime(Exception):
    """The work was not done in time."""


@contextmanager
def at_most(seconds: float) -> Iterator[None]:
    """Raise `OutOfTime` in the block after some seconds, where the system has timers."""
    timers = "setitimer" in dir(signal) and threading.current_thread() is threading.main_thread()
    if not timers:  # Windows: the block takes what it takes
        yield
        return

    def stop(number: int, frame: FrameType | None) -> None:
        raise OutOfTime

    before = signal.signal(signal.SIGALRM, stop)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
