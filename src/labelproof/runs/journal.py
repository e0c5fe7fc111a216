"""What one process holds: the lock of a run folder, and a file of lines that only grows.

A line is on disk, whole, before anyone hears of it.

Writes are unbuffered. One that fails (a full disk, a quota) is taken back to the last whole line,
so nothing of it can appear later, and no line before it is touched.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path

from labelproof.errors import BadInput
from labelproof.files import sync_folder

_NO_LINK = os.O_NOFOLLOW if os.name == "posix" else 0  # it would lead to another file


class Journal:
    """One open journal; it holds a lock that ends with the process."""

    def __init__(self, path: Path, busy: str) -> None:
        """Open the file, or make it.

        Raises:
            BadInput: With the sentence `busy`, if another process has it open.
        """
        self.path = path
        self._handle = os.open(path, os.O_RDWR | os.O_APPEND | os.O_CREAT | _NO_LINK, 0o666)
        try:
            _lock(self._handle, busy)
            self._end = os.fstat(self._handle).st_size
        except BaseException:
            self.close()
            raise
        sync_folder(path.parent)
        self._torn = False  # whether something unacknowledged lies behind the end

    def content(self) -> bytes:
        """All of it."""
        with open(self._handle, "rb", closefd=False) as file:
            file.seek(0)
            return file.read()

    def append(self, text: bytes) -> None:
        """Write whole lines; when this returns they are on the disk.

        Raises:
            OSError: If they could not be written; then the file is as it was.
            BadInput: If the file was changed or removed by somebody else.
        """
        self._check()
        try:
            _write(self._handle, text)
            os.fsync(self._handle)
            if os.fstat(self._handle).st_size != self._end + len(text):
                raise OSError(f"{self.path} does not have the expected length")
        except OSError:
            self._torn = True
            with contextlib.suppress(OSError):  # else before the next write
                self._repair()
            raise
        self._end += len(text)

    def cut(self, length: int) -> None:
        """Shorten the file to `length` bytes."""
        self._end = length
        self._repair()

    def close(self) -> None:
        """Let another process have the file."""
        if self._handle >= 0:
            os.close(self._handle)
            self._handle = -1

    def _check(self) -> None:
        if self._torn:
            self._repair()
        here = os.fstat(self._handle)
        try:
            there: os.stat_result | None = os.stat(self.path)
        except OSError:
            there = None
        if there is None or (there.st_dev, there.st_ino) != (here.st_dev, here.st_ino):
            raise BadInput(
                f"{self.path} was moved or removed; nothing is saved until it is restored."
            )
        if here.st_size != self._end:
            raise BadInput(
                f"{self.path} was changed by another program; start the review again to read it."
            )

    def _repair(self) -> None:
        os.ftruncate(self._handle, self._end)
        os.fsync(self._handle)
        self._torn = False


def _write(handle: int, text: bytes) -> None:
    """All of `text`; a system may take a part and refuse the rest."""
    rest = memoryview(text)
    while rest:
        rest = rest[os.write(handle, rest) :]


def _lock(handle: int, busy: str) -> None:
    """Lock a file or folder until it is closed, or say that it is `busy`.

    Nobody watches elsewhere than on Unix, nor on a file system without locks: better than nothing.
    """
    with contextlib.suppress(ImportError):
        import fcntl

        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise BadInput(busy) from None
        except OSError:
            pass


@contextlib.contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Hold the lock of a run folder while the block runs; the folder is made if need be.

    The lock lies on the folder itself and belongs to the process: after a kill nothing remains.

    Raises:
        BadInput: If another process holds it, or the folder cannot be made.
    """
    if os.name != "posix":  # a folder cannot be opened there
        yield
        return
    handle = _open(folder)
    try:
        _lock(handle, f"another process is using {folder}; wait for it, or name another --out.")
        yield
    finally:
        os.close(handle)


def _open(folder: Path) -> int:
    try:
        folder.mkdir(parents=True, exist_ok=True)
        return os.open(folder, os.O_RDONLY)
    except FileExistsError:
        raise BadInput(f"{folder} exists and is not a folder; name another --out.") from None
    except OSError as error:
        raise BadInput(
            f"{folder} cannot be written ({error.strerror}); name another --out."
        ) from None
