"""Writing files so that they appear whole or not at all, and reading those of others with care.

A JSON file is read once through a schema, a `msgspec.Struct` that lists what the code relies on;
other keys may be there. What comes back is the plain dict, with the schema's defaults put in and
nothing lost, or one sentence.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import shutil
import stat
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec

from labelproof.errors import BadInput

_NOT_BLOCKING = os.O_NONBLOCK if os.name == "posix" else 0
PARTIAL = ".partial"  # ends the name of a file that is being written


@contextmanager
def written_whole(path: Path, aside: Path | None = None) -> Iterator[Path]:
    """A path to write to; it becomes `path` when the block ends well and vanishes otherwise."""
    aside = aside or path.with_name(f".{path.name}{PARTIAL}")
    aside.unlink(missing_ok=True)  # a link that somebody left there would lead elsewhere
    try:
        yield aside
        with aside.open("rb") as file:
            os.fsync(file.fileno())
        os.replace(aside, path)
        sync_folder(path.parent)
    finally:
        with contextlib.suppress(OSError):  # what went wrong before is the thing to say
            aside.unlink(missing_ok=True)


@contextmanager
def folder_written_whole(folder: Path) -> Iterator[Path]:
    """The same for a new folder, whose parent must be there."""
    aside = Path(tempfile.mkdtemp(prefix=f".{folder.name}.", dir=folder.absolute().parent))
    try:
        yield aside
        os.replace(aside, folder)
    finally:
        shutil.rmtree(aside, ignore_errors=True)


def sync_folder(folder: Path) -> None:
    """Make sure that new names in a folder survive a power cut, where the system can do that."""
    if os.name != "posix":
        return
    with contextlib.suppress(OSError):  # some network and FUSE folders refuse
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


def write_text(path: Path, text: str) -> None:
    """Write text, whole or not at all."""
    with written_whole(path) as aside:
        aside.write_text(text, encoding="utf-8")


def write_json(path: Path, content: Any, default: Callable[[Any], Any] = str) -> None:
    """Write JSON a person can read; numbers that are not finite become null."""
    write_text(
        path, json.dumps(finite(content), indent=2, default=default, ensure_ascii=False) + "\n"
    )


def finite(value: Any) -> Any:
    """The value with NaN and infinity as None, which JSON can carry."""
    if isinstance(value, float):
        return value if value - value == 0 else None
    if isinstance(value, dict):
        return {key: finite(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [finite(item) for item in value]
    return value


def file_hash(path: Path) -> str:
    """SHA-256 of a file's bytes."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def read_regular(path: Path, largest: int) -> bytes:
    """All bytes of an ordinary file of at most `largest` bytes.

    A pipe would wait for ever and a device never end, so neither is opened for reading.

    Raises:
        BadInput: If it is no ordinary file, too large, or cannot be read.
    """
    try:
        with open(path, "rb", opener=without_waiting) as file:
            found = os.fstat(file.fileno())  # once it is open, so that nobody swaps it meanwhile
            if not stat.S_ISREG(found.st_mode):
                raise BadInput(f"expected a regular file, but {path} is not one; check the path")
            if found.st_size > largest:
                raise BadInput(f"expected at most {largest:,} bytes, but {path} has more")
            return file.read()
    except (OSError, ValueError) as error:
        if isinstance(error, BadInput):
            raise
        reason = error.strerror if isinstance(error, OSError) else str(error)
        raise BadInput(f"{path} cannot be read ({reason or error}); check the path") from None


def without_waiting(path: str, flags: int) -> int:
    """An opener that returns at once even for a pipe nobody writes to."""
    return os.open(path, flags | _NOT_BLOCKING)


LARGEST = 2**28  # bytes


def read_json(path: Path, schema: Any, advice: str) -> dict[str, Any]:
    """The JSON object in a file, if it fits the schema; `advice` ends the sentence if it does not.

    Raises:
        BadInput: If the file cannot be read, is no JSON, or does not fit the schema.
    """
    return parse_json(read_regular(path, LARGEST), schema, str(path), advice)


def parse_json(content: bytes, schema: Any, name: str, advice: str) -> dict[str, Any]:
    """The same for bytes at hand; `name` is how the sentence calls them."""
    try:
        found = msgspec.json.decode(content)
        promised = msgspec.to_builtins(msgspec.convert(found, schema))
    except (msgspec.MsgspecError, ValueError, RecursionError) as error:
        why = " ".join(str(error).split())[:160]
        raise BadInput(f"{name} is damaged ({why}); {advice}.") from None
    assert isinstance(found, dict)
    filled: dict[str, Any] = _filled(found, promised)
    return filled


def _filled(found: Any, promised: Any) -> Any:
    """What was found, with the defaults of the schema at every depth."""
    if isinstance(found, dict) and isinstance(promised, dict):
        inner = {key: _filled(value, promised.get(key)) for key, value in found.items()}
        return {**promised, **inner}
    if isinstance(found, list) and isinstance(promised, list | tuple):
        return [_filled(*pair) for pair in zip(found, promised, strict=True)]
    return found
