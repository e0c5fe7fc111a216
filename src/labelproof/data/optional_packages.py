"""Packages that only some sources need, imported when they are."""

from __future__ import annotations

import importlib
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from labelproof.errors import BadInput


def need(module: str, extra: str, purpose: str) -> Any:
    """A module of an optional dependency.

    Raises:
        BadInput: If it is not installed; the sentence says what to install.
    """
    try:
        return importlib.import_module(module)
    except ImportError:
        package = module.split(".")[0]
        raise BadInput(
            f"expected the package {package}, which {purpose} needs, but it is not installed; "
            f'run: pip install "labelproof[{extra}]"'
        ) from None


def package_file(package: str, name: str) -> Path | None:
    """A file of an installed package, whose code is not executed; None where it is not there."""
    found = find_spec(package)
    places = found.submodule_search_locations if found else None
    path = Path(next(iter(places))) / name if places else None
    return path if path is not None and path.is_file() else None
