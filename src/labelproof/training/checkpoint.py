"""Saving and restoring all that changes, whole or not at all, with nothing executable inside."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from labelproof.errors import BadInput
from labelproof.training.learner import Learner

FORMAT = 1


def save(path: Path, content: Mapping[str, Any]) -> None:
    """Write a checkpoint aside, then rename it into place."""
    aside = path.with_suffix(".partial")
    with aside.open("wb") as file:
        torch.save({"format": FORMAT, **content}, file)
        file.flush()
        os.fsync(file.fileno())
    os.replace(aside, path)


def load(path: Path) -> dict[str, Any]:
    """Read a checkpoint; only tensors and plain values can be in it."""
    try:
        content = torch.load(path, weights_only=True, map_location="cpu")
    except Exception as error:  # a damaged file can make the reader stumble in any way
        raise BadInput(
            f"{path} is not a checkpoint that can be read ({type(error).__name__}); "
            "start the run anew in another folder."
        ) from error
    if not isinstance(content, dict) or content.get("format") != FORMAT:
        found = content.get("format") if isinstance(content, dict) else "none"
        raise BadInput(
            f"{path} has checkpoint format {found}, not {FORMAT} as expected; start the run anew."
        )
    return content


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
