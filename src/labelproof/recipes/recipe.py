"""Settings nobody should have to guess: defaults for a user's own data, and the published ones.

docs/tuning.md tells how those for vectors were chosen. They stand in `recipes/METHOD.toml`:

    [vectors]                    where `labelproof fit` starts from on a user's own vectors,
    [images]                     and on their images; settings left out are the record's
    [[vectors.sizes]]            what changes
    examples = 5000              from so many examples on
    weight_decay = 0.002

    differs = "..."              how these two differ from the published algorithm, without a stop

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
from typing import Any, TypeVar

from labelproof.data.examples import Kind
from labelproof.data.readers.published.cifar import SETS
from labelproof.data.task import Views
from labelproof.errors import BadInput
from labelproof.messages import closest, did_you_mean
from labelproof.methods import METHODS
from labelproof.noise.noise_spec import KINDS
from labelproof.recipes.sizing import shortened, suited
from labelproof.training.protocol import Method
from labelproof.training.settings import nearest, read_changes, settings_of
from labelproof.views.image_views import ImageViews

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


DATA = ("digits", "mnist", "cifar10", "cifar100")  # in names such as cifar10-symmetric-0.5
DEFAULT = "default"  # in names of settings that released code has for noise of any kind
# shares of wrong labels; cifar100n has one set
HUMAN_RATES = {"aggre": 0.0903, "rand1": 0.1723, "rand2": 0.1812, "rand3": 0.1764}
HUMAN_RATES |= {"worst": 0.4021, "noisy100": 0.4020, "": 0.4020}
M = TypeVar("M")


def method_type(name: str) -> type[Method]:
    """The method called `name`."""
    if name not in METHODS:
        raise BadInput(f"there is no method {name!r}; {nearest(name, list(METHODS))}.")
    return METHODS[name]


def own_data(name: str, kind: Kind, size: int | None = None) -> Method:
    """The method called `name` with the defaults for so many of a user's own images or vectors."""
    return method_type(name)(**recipes_of(name).own(kind, size))


def departure(name: str, recipe: str | None, kind: Kind = "images") -> str:
    """A clause: how the settings for a user's own data differ from the published ones."""
    if recipe is None:
        return recipes_of(name).differs
    used = for_kind(name, recipe, kind)
    return "" if used == recipe else f"those of {used}: {source_of(name, str(used))}"


def for_kind(name: str, recipe: str | None, kind: Kind) -> str | None:
    """The recipe, or its form for vectors, such as paper-vectors, where the data is vectors."""
    longer = f"{recipe}-vectors"
    return longer if kind == "vectors" and longer in published_names(name) else recipe


def with_views(views: Views, name: str, recipe: str | None) -> Views:
    """The views of the data, changed to those of the recipe where it has others."""
    if recipe is None or not isinstance(views, ImageViews):
        return views
    return replace(views, **_recipe(name, recipe).views)


def published(name: str, experiment: str) -> Method:
    """The method called `name` as published for `experiment`, such as cifar10-symmetric-0.5."""
    return method_type(name)(**_recipe(name, experiment).settings)


def published_names(name: str) -> list[str]:
    """The experiments whose published settings are known for the method called `name`."""
    return list(recipes_of(name).published)


def is_ours(name: str, experiment: str) -> bool:
    """Whether a recipe is our reading of a method for data that its authors did not try."""
    return _recipe(name, experiment).ours


def source_of(name: str, experiment: str) -> str:
    """Where the settings of a recipe were published."""
    return _recipe(name, experiment).source


def nearest_recipe(method: str, wanted: str) -> str:
    """The published setting of this name, or the one that is most like it.

    Same data counts most, then the same kind of noise or a default for any, then the nearest rate.
    """
    known = published_names(method)
    form = [name for name in known if name.endswith(STAR) == wanted.endswith(STAR)] or known
    return wanted if wanted in known else max(form, key=lambda name: _likeness(name, wanted))


def read_settings(name: str, changes: Mapping[str, str], recipe: str | None) -> dict[str, Any]:
    """Changes of settings as values, from the user's text.

    An unknown method, recipe or setting is refused here, before any data is read.
    """
    return read_changes(published(name, recipe) if recipe else method_type(name)(), changes)


def chosen_method(
    name: str,
    kind: Kind,
    changes: Mapping[str, Any],
    recipe: str | None = None,
    size: int | None = None,
) -> Method:
    """The method called `name` for this kind of data or this recipe, with the user's changes.

    Where the number of examples is given, few of them get smaller batches and more epochs. Fewer
    epochs also shorten what is counted in epochs, unless the user sets it.
    """
    recipe = for_kind(name, recipe, kind)
    start = published(name, recipe) if recipe else own_data(name, kind, size)
    if size is not None and not recipe:
        start = suited(start, size, kind)
    known = list(settings_of(start))
    for setting in changes:
        if setting not in known:
            raise BadInput(f"{name} has no setting {setting!r}; {nearest(setting, known)}.")
    return with_changes(start, changes)


def chosen_net(net: str, name: str, kind: Kind, recipe: str | None = None) -> str:
    """The network asked for; where that is "auto", the one published with the recipe."""
    if net != "auto" or recipe is None or kind == "vectors":
        return net
    return _recipe(name, recipe).net


def with_changes(method: M, changes: Mapping[str, Any]) -> M:
    """The record with settings changed; fewer epochs shorten what is counted in epochs."""
    record: Any = shortened(method, changes["epochs"]) if "epochs" in changes else method
    changed: M = replace(record, **changes)
    return changed


def known_defaults(name: str, recipe: str | None) -> str:
    """All settings that a run of the method can start from, as text, to tell when they change."""
    known = recipes_of(name)
    start = [_recipe(name, recipe)] if recipe else [known.vectors, known.images, known.sizes]
    return f"{method_type(name)()!r} {start!r}"


def _recipe(name: str, experiment: str) -> Recipe:
    method_type(name)
    known = recipes_of(name).published
    if experiment not in known:
        raise BadInput(f"{name} has no recipe {experiment!r}{_instead(name, experiment)}.")
    return known[experiment]


def _instead(name: str, experiment: str) -> str:
    """What to say after the name of a recipe that is not there."""
    known = published_names(name)
    if not known:
        return ": none are published for it; leave the recipe out"
    if not _is_experiment(experiment):
        return f"; {_spelling(experiment, known)}known: {', '.join(known)}"
    similar = nearest_recipe(name, experiment)
    if _parts(similar) == _parts(experiment):
        return f"; use {similar!r}"
    ours = " (ours: the authors gave no values)" if is_ours(name, similar) else ""
    return (
        f", since no settings are published for it; the most similar is {similar!r}{ours}, and "
        "labelproof methods --json lists all"
    )


def _spelling(text: str, known: list[str]) -> str:
    """A hint, if of all methods' recipes it is one of these that is spelt most like the text."""
    every = {name: None for method in METHODS for name in published_names(method)}
    return did_you_mean(text, every) if closest(text, every) in known else ""


def _is_experiment(text: str) -> bool:
    """Whether a text is a set of CIFAR-N, or data with a kind and a rate of noise."""
    data, kind, rate = _parts(text)
    humans = text.removesuffix(STAR) in SETS
    return humans or (data in DATA and kind in KINDS and 0 < rate <= 1)


def _likeness(name: str, wanted: str) -> tuple[int, int, float]:
    (data, kind, rate), (data_2, kind_2, rate_2) = _parts(name), _parts(wanted)
    classes = data.removesuffix("n") == data_2.removesuffix("n")
    noise = 2 * (kind == kind_2) + (kind == DEFAULT)
    return (2 * (data == data_2) + classes, noise, -abs(rate - rate_2))


def _parts(name: str) -> tuple[str, str, float]:
    data, _, rest = name.removesuffix(STAR).partition("-")
    kind, _, rate = rest.rpartition("-")
    try:
        return data, kind, float(rate)
    except ValueError:
        return data, rest, HUMAN_RATES.get(rest, 0.0)
