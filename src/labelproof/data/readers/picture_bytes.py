"""Where encoded pictures lie: files on disk, or rows of a data set that holds their bytes."""

from __future__ import annotations

import hashlib
import os
import stat
from collections.abc import Sequence
from dataclasses import dataclass
from typing import BinaryIO, Protocol

from labelproof.data.readers.file_names import printable
from labelproof.data.readers.pixels import Unreadable
from labelproof.files import without_waiting

LARGEST_FILE = 2**29  # bytes; no picture within the pixel limit needs more


def open_picture(path: str) -> BinaryIO:
    """A file to read a picture from: an ordinary one, as a pipe would wait and a device never end.

    Raises:
        Unreadable: If it is anything else, or too large for a picture.
        OSError: If it cannot be opened.
    """
    file = open(path, "rb", opener=without_waiting)  # noqa: SIM115 (the caller closes it)
    status = os.fstat(file.fileno())
    if stat.S_ISREG(status.st_mode) and status.st_size <= LARGEST_FILE:
        return file
    file.close()
    large = stat.S_ISREG(status.st_mode)
    raise Unreadable(f"larger than {LARGEST_FILE >> 20} MB" if large else "not a regular file")


class Blobs(Protocol):
    """Encoded pictures by index."""

    def __len__(self) -> int: ...

    def open(self, index: int) -> BinaryIO:
        """The picture as a file; raises `Unreadable` or OSError where there is none."""

    def name(self, index: int) -> str:
        """How the picture is called in lists and sentences."""

    def fingerprint(self) -> str:
        """A hash that changes when any picture does, found without reading them all."""


@dataclass(frozen=True)
class FileBlobs:
    """Files below a folder, by relative name."""

    root: str
    files: Sequence[str]

    def __len__(self) -> int:
        return len(self.files)

    def open(self, index: int) -> BinaryIO:
        """The file, if it is an ordinary one."""
        return open_picture(self.path(index))

    def path(self, index: int) -> str:
        """Full path of a file."""
        return os.path.join(self.root, self.files[index])

    def name(self, index: int) -> str:
        """Relative name, in one printable line."""
        return printable(self.files[index])

    def fingerprint(self) -> str:
        """Hash of names, lengths and times of change."""
        digest = hashlib.sha256()
        for index, name in enumerate(self.files):
            try:
                status = os.stat(self.path(index))
                line = f"/{status.st_size}/{status.st_mtime_ns}\n"
            except OSError:
                line = "/missing\n"
            digest.update(os.fsencode(name) + line.encode())
        return digest.hexdigest()
