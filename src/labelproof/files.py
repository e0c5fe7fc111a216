"""Writing files so that they appear whole or not at all."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

PARTIAL = ".partial"  # ends the name of a file that is being written


@contextmanager
def written_whole(path: Path) -> Iterator[Path]:
    """A path to write to; it becomes `path` when the block ends well and vanishes otherwise."""
    aside = path.with_name(f".{path.name}{PARTIAL}")
    try:
        yield aside
        with aside.open("rb") as file:
            os.fsync(file.fileno())
        os.replace(aside, path)
    finally:
        aside.unlink(missing_ok=True)


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
