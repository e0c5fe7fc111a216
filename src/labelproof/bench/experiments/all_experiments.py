"""Every experiment by name; each is read when it is asked for."""

from __future__ import annotations

import importlib

from labelproof.bench.cell import Experiment
from labelproof.errors import BadInput
from labelproof.training.settings import nearest

NAMES = (
    "synthetic",
    "cifarn",
    "webvision",
    "ablation",
    "beta",
    "gamma",
    "overconfidence",
    "vectors",
    "pictures",
    "images",
    "digits",
    "lambda_u",
    "yardstick",
)


def experiment(name: str) -> Experiment:
    """The experiment called `name`."""
    if name not in NAMES:
        raise BadInput(f"there is no experiment {name!r}; {nearest(name, list(NAMES))}.")
    found = importlib.import_module(f"labelproof.bench.experiments.{name}").EXPERIMENT
    assert isinstance(found, Experiment)
    return found
