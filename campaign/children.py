"""Commands of labelproof in forked children: all is imported once, so a start takes no time."""

from __future__ import annotations

import contextlib
import importlib
import os
import signal
import sys
import time
from collections.abc import Sequence
from pathlib import Path

_running: set[int] = set()  # process ids of children that were not waited for


def start(
    words: Sequence[str], log: Path, folder: Path | None = None, used: Path | None = None
) -> int:
    """Run a command in a child of its own; returns its process id.

    Args:
        words: the command without `labelproof`.
        log: what it prints is added to this file.
        folder: where it runs.
        used: a file for the names of the modules that it had imported at its end.
    """
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
        if used is not None:
            used.write_text("\n".join(sys.modules))
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


def import_for(words: Sequence[str], log: Path) -> None:
    """Import what a command needs, as a child finds out: two thirds of a short run go into that."""
    used = log.with_name("modules")
    ended(start(words, log, used=used))
    for name in used.read_text().split():
        with contextlib.suppress(Exception):  # names that are no modules of their own
            importlib.import_module(name)


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


def alone(child: int, limit: float = 30.0) -> bool:
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
