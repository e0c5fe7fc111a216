"""labelproof: classifiers you can trust on labels you cannot, and which of the labels are wrong."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from labelproof.errors import BadInput, RunFailed
    from labelproof.methods import METHODS
    from labelproof.methods.ce import CrossEntropy
    from labelproof.methods.dpc import DPC
    from labelproof.runs.load import load_model
    from labelproof.sklearn.estimator import NoisyLabelClassifier
    from labelproof.sklearn.issues import add_findings, find_label_issues, label_quality

__version__ = "0.1.0"
__all__ = [
    "DPC",
    "METHODS",
    "BadInput",
    "CrossEntropy",
    "NoisyLabelClassifier",
    "RunFailed",
    "__version__",
    "add_findings",
    "find_label_issues",
    "label_quality",
    "load_model",
]

_HOMES = {
    "BadInput": "errors",
    "CrossEntropy": "methods.ce",
    "DPC": "methods.dpc",
    "METHODS": "methods",
    "NoisyLabelClassifier": "sklearn.estimator",
    "RunFailed": "errors",
    "add_findings": "sklearn.issues",
    "find_label_issues": "sklearn.issues",
    "label_quality": "sklearn.issues",
    "load_model": "runs.load",
}


def __getattr__(name: str) -> Any:
    """Import a public name when it is first used: `labelproof --help` should not wait for torch."""
    if name not in _HOMES:
        raise AttributeError(f"module 'labelproof' has no attribute {name!r}")
    return getattr(importlib.import_module(f"labelproof.{_HOMES[name]}"), name)
