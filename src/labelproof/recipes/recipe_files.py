"""Reads `recipes/METHOD.toml`: settings for a user's own data, and published ones.

    [vectors]                    where `labelproof fit` starts from on a user's own vectors,
    [images]                     and on their images; settings left out are the record's
    [[vectors.sizes]]            what changes
    examples = 5000              from so many examples on
    weight_decay = 0.002

    differs = "..."              a clause: how these two differ from the published algorithm

    [[published]]                settings that some published experiments share
    names = ["cifar10-..."]      the experiments, by the name that --recipe takes
    source = "appendix, table 1" where they were published
    net = "resnet34"             the network, if "auto" would choose another on this data
    ours = true                  the authors gave no values; this is our reading of the method
    views = { size = 227 }       views of this experiment's images, where others are usual
    star = { consistency = 1.0 } every NAME has a longer form NAME-star, which adds these; it can
                                 be `ours` where NAME is not
    lr = 0.02                    any setting of the method

    [published.lambda_u]         a setting that differs by experiment; it can stand for `names`
    "cifar10-symmetric-0.5" = 25.0

A method without a file has its record's defaults for all data, and no published settings.
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from importlib import resources
from typing import Any

from labelproof.data.examples import Kind

STAR = "-star"  # ends names of a method's longer form
NONE: Mapping[str, Any] = {}


@dataclass(frozen=True, kw_only=True)
class Recipe:
    """The published settings of a method for one experiment."""

    settings: Mapping[str, Any]
    source: str
    net: str = "auto"
    ours: bool = False
    views: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class Recipes:
    """All that is known of a method's settings, beside the defaults of its record."""

    vectors: Mapping[str, Any] = field(default_factory=dict)
    images: Mapping[str, Any] = field(default_factory=dict)
    sizes: Mapping[str, Sequence[Mapping[str, Any]]] = field(default_factory=dict)  # by kind
    published: Mapping[str, Recipe] = field(default_factory=dict)
    differs: str = ""

    def own(self, kind: Kind, size: int | None = None) -> dict[str, Any]:
        """Settings for so many of a user's own images or vectors."""
        settings = dict(self.vectors if kind == "vectors" else self.images)
        for change in self.sizes.get(kind, ()):
            if size is not None and size >= change["examples"]:
                settings |= {name: v for name, v in change.items() if name != "examples"}
        return settings


@cache
def recipes_of(method: str) -> Recipes:
    """The recipes of the method called so; none where it has no file."""
    file = resources.files(__package__).joinpath(f"{method}.toml")
    return read(file.read_text("utf-8")) if file.is_file() else Recipes()


def read(text: str) -> Recipes:
    """Recipes as their file states them."""
    tables = tomllib.loads(text)
    own = {kind: dict(tables.get(kind, NONE)) for kind in ("vectors", "images")}
    sizes = {kind: tuple(map(_frozen, table.pop("sizes", ()))) for kind, table in own.items()}
    groups = tables.get("published", [])
    return Recipes(
        vectors=_frozen(own["vectors"]),
        images=_frozen(own["images"]),
        sizes=sizes,
        published={
            name: recipe for longer in (False, True) for name, recipe in _all(groups, longer)
        },
        differs=tables.get("differs", ""),
    )


def _all(groups: list[dict[str, Any]], longer: bool) -> Iterator[tuple[str, Recipe]]:
    """Every experiment of the groups, or the longer form of those that have one."""
    for group in groups:
        rest = dict(group)
        about = {key: rest.pop(key) for key in ("source", "net", "ours", "views") if key in rest}
        star, names = rest.pop("star", NONE), rest.pop("names", None)
        for name in names or next(v for v in rest.values() if isinstance(v, dict)):
            own = {k: v[name] if isinstance(v, dict) else v for k, v in rest.items()}
            if not longer:
                yield name, Recipe(settings=_frozen(own), **about)
            elif star:
                extra = {key: value for key, value in star.items() if key != "ours"}
                ours = star.get("ours", about.get("ours", False))
                recipe = Recipe(settings=_frozen(own | extra), **about)
                yield name + STAR, replace(recipe, ours=ours)


def _frozen(settings: Mapping[str, Any]) -> dict[str, Any]:
    return {k: tuple(v) if isinstance(v, list) else v for k, v in settings.items()}
