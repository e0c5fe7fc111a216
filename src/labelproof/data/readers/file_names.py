"""Files: found in a fixed order, whatever the bytes of their names, and opened as pictures."""

from __future__ import annotations

import hashlib
import os
import stat
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, Protocol

from labelproof.data.readers.pixels import SUFFIXES, Unreadable
from labelproof.errors import BadInput
from labelproof.files import without_waiting


def printable(name: str) -> str:
    """A name as one line of valid Unicode: bytes and control characters become escapes."""
    text = os.fsencode(name).decode("utf-8", "backslashreplace")
    return "".join(
        char if char.isprintable() else char.encode("unicode_escape").decode() for char in text
    )


def walk(root: Path) -> Iterator[str]:
    """Visible files below `root` in order of their names, relative to it.

    Links to folders are followed, except back into a folder the walk is in. A link that leads
    nowhere is reported like a file, so that it is listed as unreadable rather than overlooked.
    """
    try:
        yield from _walk(str(root), "", frozenset())
    except RecursionError:
        raise BadInput(
            f"expected folders a few levels deep in {printable(root.name)}, but they are nested "
            "hundreds of times; name the folder of the pictures"
        ) from None


def outside(root: Path, files: Sequence[str]) -> dict[str, list[str]]:
    """The folders that hold all files of a list, as `below`; empty where they are in `root`.

    A list may name files by absolute names, or with `..`. Report and review show nothing else.
    """
    if not files:
        return {}
    here = os.path.abspath(root)
    folders = {os.path.dirname(os.path.abspath(os.path.join(here, name))) for name in files}
    places: dict[tuple[str, ...], list[str]] = {}  # by drive and first folder: never the root
    for folder in folders:
        places.setdefault(Path(folder).parts[:2], []).append(folder)
    shared = sorted(os.path.commonpath(place) for place in places.values())
    inside = here != os.path.dirname(here) and all(Path(one).is_relative_to(here) for one in shared)
    return {} if inside else {"below": shared}


def is_image(name: str) -> bool:
    """Whether a name ends as those of pictures do."""
    return os.path.splitext(name)[1].lower() in SUFFIXES


def subfolders(root: Path) -> list[str]:
    """Visible folders directly in `root`, in order."""
    entries = (entry for entry in os.scandir(root) if not entry.name.startswith("."))
    return sorted(entry.name for entry in entries if _is_folder(entry))


def _walk(root: str, prefix: str, above: frozenset[tuple[int, int]]) -> Iterator[str]:
    folder = os.path.join(root, prefix)
    try:
        status = os.stat(folder)
        identity = (status.st_dev, status.st_ino)
        if identity in above:
            return
        with os.scandir(folder) as entries:
            found = sorted((e.name, _is_folder(e)) for e in entries if e.name[0] != ".")
    except FileNotFoundError:  # gone since it was listed
        return
    for name, is_folder in found:
        if is_folder:
            yield from _walk(root, f"{prefix}{name}/", above | {identity})
        else:
            yield prefix + name


def _is_folder(entry: os.DirEntry[str]) -> bool:
    try:
        return stat.S_ISDIR(entry.stat().st_mode)
    except OSError:  # a link to nowhere, or to itself
        return False


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
