"""Commands of labelproof in forked children: torch is imported once, so a start takes no time."""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import time
from collections.abc import Sequence
from pathlib import Path

_running: set[int] = set()  # process ids of children that were not waited for


def start(words: Sequence[str], log: Path, folder: Path | None = None) -> int:
    """Run a command in a child of its own; returns its process id."""
    from labelproof.__main__ import application, main

    application()  # imported before the fork, so that each child has it

    child = os.fork()
    if child:
        _running.add(child)
        return child
    code = 70
    try:
        os.setsid()  # a group of its own, so that nothing it started goes unseen
        if folder is not None:
            os.chdir(folder)
        handle = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
        os.dup2(handle, 1)
        os.dup2(handle, 2)
        sys.argv = ["labelproof", *words]
        main()
        code = 0
    except SystemExit as end:
        code = int(end.code or 0) if not isinstance(end.code, str) else 1
    except BaseException:
        import traceback

        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


def ended(child: int, limit: float = 300.0) -> int:
    """Wait for a child; its exit code, negative for a signal. One that hangs is killed."""
    stop = time.monotonic() + limit
    while time.monotonic() < stop:
        found, status = os.waitpid(child, os.WNOHANG)
        if found:
            _running.discard(child)
            return os.waitstatus_to_exitcode(status)
        time.sleep(0.005)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    raise TimeoutError(f"process {child} did not end in {limit:g} s")


def end_all() -> None:
    """Kill the children that still run, with all that they started."""
    for child in _running:
        for kill in (os.kill, os.killpg):  # the group may not be there yet
            with contextlib.suppress(ProcessLookupError):
                kill(child, signal.SIGKILL)
    _running.clear()


def alone(child: int, limit: float = 10.0) -> bool:
    """Whether nothing that an ended child had started is left after some seconds."""
    stop = time.monotonic() + limit
    while time.monotonic() < stop:
        try:
            os.killpg(child, 0)
        except ProcessLookupError:
            return True
        time.sleep(0.02)
    os.killpg(child, signal.SIGKILL)
    return False


def run(words: Sequence[str], log: Path, folder: Path | None = None) -> int:
    """Run a command to its end; its exit code."""
    return ended(start(words, log, folder))
