"""One process at a time in a run folder: a lock that the system releases when its owner ends."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path

from labelproof.errors import BadInput

NAME = ".lock"


@contextlib.contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Hold the lock of a run folder, which must exist, while the block runs.

    The lock belongs to the process and not to the file: after a kill nothing need be removed.

    Raises:
        BadInput: If another process holds it.
    """
    try:
        import fcntl
    except ImportError:  # elsewhere than on Unix, nobody watches
        yield
        return
    handle = os.open(folder / NAME, os.O_RDWR | os.O_CREAT, 0o666)
    try:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise BadInput(
                f"{folder} is being worked on by another process{_who(handle)}; "
                "wait for it to end, or name another --out."
            ) from None
        os.ftruncate(handle, 0)
        os.pwrite(handle, f"{os.getpid()}\n".encode(), 0)
        yield
    finally:
        os.close(handle)


def _who(handle: int) -> str:
    number = os.pread(handle, 20, 0).strip()
    return f" (number {number.decode()})" if number.isdigit() else ""
