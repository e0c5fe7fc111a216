"""Packages that only some sources need, imported when they are."""

from __future__ import annotations

import importlib
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
