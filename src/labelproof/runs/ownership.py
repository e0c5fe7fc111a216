"""Whether a run folder was made by this user: only then are the files it names read again.

A run folder names the data it was made from. Report and review read that data for its pictures and
texts, and a folder that somebody else made could name any file. So `fit` seals what it writes into
run.json with a key that lies in the user's own state folder. With an intact seal, this user named
these files on a command line once, and they are read. Without it, nothing outside the folder is
read unless the user names the data: `labelproof report RUN --data DATA`.
"""

from __future__ import annotations

import contextlib
import hashlib
import hmac
import json
import os
import secrets
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from labelproof.files import finite

FIELD = "seal"
PARTS = ("data", "test", "command", "spec")  # of run.json: all that names other files
KEY_BYTES = 32
ELSEWHERE = (  # what names other files
    "path", "labels", "data_dir", "cache", "text_model", "encoder", "files", "pictures", "below",
)  # fmt: skip
BUILT_IN = ("digits",)  # data that is no file of anybody's
WITHHELD = "withheld"  # in a record: that files it named are not told


def sealed(record: Mapping[str, Any]) -> dict[str, Any]:
    """The record with its seal; without one where no key can be kept."""
    key = _key(make=True)
    return {**record, FIELD: _mark(record, key) if key else None}


def is_own(record: Mapping[str, Any]) -> bool:
    """Whether this user's `fit` wrote what the record says of files elsewhere."""
    key, found = _key(make=False), record.get(FIELD)
    return bool(key and isinstance(found, str)) and hmac.compare_digest(
        str(found).encode(), _mark(record, key or b"").encode()
    )


def visible(record: Mapping[str, Any], named: str | None = None) -> dict[str, Any]:
    """The record as others may use it: without any file that this user never named.

    `named`, where the user says that the data lies, takes the place of what the record says.
    """
    own = is_own(record)
    if own and named is None:
        return dict(record)
    data = {k: v for k, v in (record.get("data") or {}).items() if own or k not in ELSEWHERE}
    if named is not None:
        data["path"] = named
    shown = {**record, "data": data, WITHHELD: not own and named is None}
    if "spec" in record:
        shown["spec"] = _spec(record["spec"], named, own)
    return shown if own else {**shown, "command": []}


def _spec(spec: Mapping[str, Any], named: str | None, own: bool) -> dict[str, Any]:
    if own:
        return {**spec, "data": named}
    kept = spec.get("data") if spec.get("data") in BUILT_IN else None  # lies in a Python package
    reading = spec.get("reading") or {}
    inside = {k: v for k, v in reading.items() if k not in ELSEWHERE} if isinstance(
        reading, dict
    ) else {}  # fmt: skip
    return {**spec, "data": named or kept, "test": None, "reviewed": None, "reading": inside}


def _mark(record: Mapping[str, Any], key: bytes) -> str:
    parts = {name: record.get(name) for name in PARTS}
    text = json.dumps(finite(parts), sort_keys=True, default=str)
    plain = json.dumps(json.loads(text), sort_keys=True)  # as it is once read back
    return hmac.new(key, plain.encode(), hashlib.sha256).hexdigest()


def _key(make: bool) -> bytes | None:
    """This user's key; made at the first need."""
    path = _state_folder() / "key"
    with contextlib.suppress(OSError):
        found = path.read_bytes()
        if len(found) == KEY_BYTES:
            return found
    if not make:
        return None
    with contextlib.suppress(OSError):
        path.parent.mkdir(parents=True, exist_ok=True)
        aside = path.with_name(f"key.{os.getpid()}")
        with open(aside, "xb", opener=lambda name, flags: os.open(name, flags, 0o600)) as file:
            file.write(secrets.token_bytes(KEY_BYTES))
        try:
            os.link(aside, path)  # unless another process was first
        except FileExistsError:
            pass
        finally:
            aside.unlink()
        return path.read_bytes()
    return None


def _state_folder() -> Path:
    return Path(os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state") / "labelproof"
