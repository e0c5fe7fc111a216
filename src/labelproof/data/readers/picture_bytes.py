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

LARGEST_FILE = 2**29  # bytes; no picture within the pixel limit needs more


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
        """The file, if it is a regular one; a pipe would block for ever."""
        path = self.path(index)
        status = os.stat(path)
        if not stat.S_ISREG(status.st_mode):
            raise Unreadable("not a regular file")
        if status.st_size > LARGEST_FILE:
            raise Unreadable(f"larger than {LARGEST_FILE >> 20} MB")
        return open(path, "rb")

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
