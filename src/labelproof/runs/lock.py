"""One process at a time in a run folder: a lock that the system releases when its owner ends."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path

from labelproof.errors import BadInput


@contextlib.contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Hold the lock of a run folder while the block runs; the folder is made if need be.

    The lock lies on the folder itself and belongs to the process: after a kill nothing remains.

    Raises:
        BadInput: If another process holds it, or the folder cannot be made.
    """
    try:
        import fcntl
    except ImportError:  # elsewhere than on Unix, nobody watches
        yield
        return
    handle = _open(folder)
    try:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise BadInput(
                f"another process is working in {folder}; wait for it, or name another --out."
            ) from None
        except OSError:  # a file system without locks: better unwatched than not at all
            pass
        yield
    finally:
        os.close(handle)


def _open(folder: Path) -> int:
    try:
        folder.mkdir(parents=True, exist_ok=True)
        return os.open(folder, os.O_RDONLY)
    except FileExistsError:
        raise BadInput(f"{folder} exists and is no folder; name another --out.") from None
    except OSError as error:
        raise BadInput(
            f"{folder} cannot be written ({error.strerror}); name another --out."
        ) from None
