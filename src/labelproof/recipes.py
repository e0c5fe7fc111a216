"""Settings nobody should have to guess: defaults for a user's own data, and the published ones.

`own_data` gives the settings `labelproof fit` starts from. They depend on the kind of data alone.
Those for vectors were chosen on one label set, CIFAR-10N rand2 (docs/results.md tells how); those
for images are the published ones with fewer epochs.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from labelproof.engine.method import Method
from labelproof.errors import BadInput
from labelproof.methods import METHODS
from labelproof.settings import nearest, override, settings_of
from labelproof.task import Kind

VECTORS: Mapping[str, Mapping[str, Any]] = {
    "ce": {"epochs": 10},
    "dpc": {
        "epochs": 10,
        "warmup": 2,
        "batch": 128,
        "lr": 0.1,
        "alpha": 1.0,
        "lambda_u": 0.0,
        "selector": "mirror",
    },
}
IMAGES: Mapping[str, Mapping[str, Any]] = {
    "ce": {"epochs": 60},
    "dpc": {"epochs": 60, "warmup": 5, "selector": "mirror"},
}


def method_type(name: str) -> type[Method]:
    """The method called `name`."""
    if name not in METHODS:
        raise BadInput(f"there is no method {name!r}; {nearest(name, list(METHODS))}.")
    return METHODS[name]


def own_data(name: str, kind: Kind) -> Method:
    """The method called `name` with the defaults for a user's own images or vectors."""
    table = VECTORS if kind == "vectors" else IMAGES
    return method_type(name)(**table.get(name, {}))


def chosen_method(name: str, kind: Kind, changes: Mapping[str, str]) -> Method:
    """The method called `name` for this kind of data, with the user's changes applied.

    A changed number of epochs alone shortens or lengthens the warm-up with it.
    """
    default = own_data(name, kind)
    warmup = settings_of(default).get("warmup")
    if warmup and changes.get("epochs", "").isdigit() and "warmup" not in changes:
        scaled = round(warmup * int(changes["epochs"]) / default.epochs)
        changes = {**changes, "warmup": str(max(1, scaled))}
    return override(default, changes)
