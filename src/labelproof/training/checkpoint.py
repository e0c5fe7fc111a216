"""Saving and restoring all that changes, whole or not at all, with nothing executable inside."""

from __future__ import annotations

import hashlib
import io
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from labelproof.data.plain_files import read_saved
from labelproof.errors import BadInput
from labelproof.files import PARTIAL, read_regular, written_whole
from labelproof.training.learner import Learner

FORMAT = 2  # 2: carries a digest of its content
LARGEST = 2**36  # bytes
PLAIN = (Tensor, str, bytes, int, float, type(None))  # bool is an int


def save(path: Path, content: Mapping[str, Any]) -> None:
    """Write a checkpoint aside, then rename it into place."""
    whole = io.BytesIO()  # in memory first: of a full disk, PyTorch's own writer says nothing
    torch.save({"format": FORMAT, "digest": digest(content), **content}, whole)
    with written_whole(path, path.with_suffix(PARTIAL)) as aside:
        aside.write_bytes(whole.getbuffer())


def load(path: Path) -> dict[str, Any]:
    """Read a checkpoint: tensors and plain values, exactly as they were saved.

    Raises:
        BadInput: If it is no checkpoint, or one bit of it has changed.
    """
    try:
        data = read_regular(path, LARGEST)
        content = read_saved(data)
        _check_parts(content, len(data))
    except ValueError as error:  # of which Refused and BadInput are kinds
        reason = str(error).split(";")[0]
        raise BadInput(
            f"{path} is not a readable checkpoint ({reason}); start a new run in another folder."
        ) from None
    if not isinstance(content, dict) or content.get("format") != FORMAT:
        found = content.get("format") if isinstance(content, dict) else "none"
        raise BadInput(
            f"{path} has checkpoint format {found}, not {FORMAT} as expected; start a new run."
        )
    saved = {key: value for key, value in content.items() if key not in ("format", "digest")}
    if content.get("digest") != digest(saved):
        raise BadInput(
            f"{path} has been damaged since it was written (its checksum differs); start a new "
            "run in another folder."
        )
    return content


def digest(value: Any) -> str:
    """SHA-256 of nested values: their structure, and every bit of every tensor."""
    found = hashlib.sha256()

    def take(part: Any) -> None:
        if isinstance(part, Tensor):
            found.update(f"tensor {part.dtype} {tuple(part.shape)} ".encode())
            found.update(
                part.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy().data
            )
        elif isinstance(part, Mapping):
            found.update(f"dict {len(part)} ".encode())
            for key, item in part.items():
                take(key)
                take(item)
        elif isinstance(part, (tuple, list)):
            found.update(f"list {len(part)} ".encode())
            for item in part:
                take(item)
        else:
            found.update(f"{type(part).__name__} {part!r} ".encode())

    take(value)
    return found.hexdigest()


def _check_parts(content: Any, most: int) -> None:
    """Refuse other values than those that are saved, and lists that hold themselves or swell.

    Raises:
        ValueError: With the reason as half a sentence.
    """
    left, count = [content], 1
    while left:
        part = left.pop()
        inner = part.values() if isinstance(part, Mapping) else part
        if isinstance(part, Mapping | list | tuple):
            count += len(part)
            if count > most:
                raise ValueError("it holds more than its bytes could")
            left.extend(inner)
        elif not isinstance(part, PLAIN) or (isinstance(part, Tensor) and part.is_sparse):
            raise ValueError(f"it holds a {type(part).__name__}")


def pack(value: Any) -> Any:
    """A state as nested dicts and lists of tensors and plain values."""
    if isinstance(value, Learner):
        return {"net": value.net.state_dict(), "optimiser": value.optimiser.state_dict()}
    if isinstance(value, (nn.Module, torch.optim.Optimizer)):
        return value.state_dict()
    if isinstance(value, Tensor):
        return value.detach().clone()
    if is_dataclass(value):
        return {f.name: pack(getattr(value, f.name)) for f in fields(value)}
    if isinstance(value, Mapping):
        return {key: pack(item) for key, item in value.items()}
    if isinstance(value, (tuple, list)):
        return [pack(item) for item in value]
    return value


def unpack(value: Any, saved: Any) -> Any:
    """`value`, a state as `setup` makes it, with what was saved put in."""
    if isinstance(value, Learner):
        value.net.load_state_dict(saved["net"])
        value.optimiser.load_state_dict(saved["optimiser"])
        return value
    if isinstance(value, (nn.Module, torch.optim.Optimizer)):
        value.load_state_dict(saved)
        return value
    if isinstance(value, nn.Parameter):
        value.data.copy_(saved)
        return value
    if is_dataclass(value):
        for f in fields(value):
            setattr(value, f.name, unpack(getattr(value, f.name), saved[f.name]))
        return value
    if isinstance(value, Mapping):
        return {key: unpack(value.get(key), item) for key, item in saved.items()}
    if isinstance(value, (tuple, list)) and len(value) == len(saved):
        return type(value)(unpack(item, part) for item, part in zip(value, saved, strict=True))
    if isinstance(saved, Tensor) and isinstance(value, Tensor):
        return saved.to(value.device)
    return saved


def networks(state: Any) -> dict[str, nn.Module]:
    """Every network in a state, named by where it stands."""
    found: dict[str, nn.Module] = {}

    def visit(name: str, value: Any) -> None:
        if isinstance(value, Learner):
            found[name] = value.net
        elif isinstance(value, nn.Module):
            found[name] = value
        elif is_dataclass(value):
            for f in fields(value):
                visit(f"{name}.{f.name}" if name else f.name, getattr(value, f.name))
        elif isinstance(value, Mapping):
            for key, item in value.items():
                visit(f"{name}.{key}", item)
        elif isinstance(value, (tuple, list)):
            for i, item in enumerate(value):
                visit(f"{name}.{i}", item)

    visit("", state)
    return found
