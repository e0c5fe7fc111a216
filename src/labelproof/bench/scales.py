"""What `paper`, `small` and `tiny` mean: data, network, epochs. docs/bench.md says it in prose.

A `Setting` is a column of a table: data with its noise. `published_form` and `own_form` make the
spec of a run on it: the paper's recipe, or the defaults a user would meet. At the scale small
the data can be vectors too; there the paper's form is the defaults for vectors with the paper's
selection and weights.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from labelproof.bench.cell import Scale, Sources
from labelproof.bench.prepared_data import (
    full_images,
    has_vectors,
    small_images,
    small_vectors,
    tiny_images,
)
from labelproof.data.readers import SourceOptions
from labelproof.data.readers.published.cifar import CIFAR10, CIFAR100, FOLDERS, SETS
from labelproof.data.readers.published.locate import locate
from labelproof.errors import BadInput
from labelproof.methods import METHODS
from labelproof.recipes.recipe import HUMAN_RATES, nearest_recipe, published, published_names
from labelproof.runs.spec import RunSpec
from labelproof.training.protocol import Method
from labelproof.training.settings import Epochs, NoiseRate, marked, settings_of

EPOCHS: Mapping[Scale, int] = {"small": 24, "tiny": 4}
WARMUP: Mapping[Scale, int] = {"small": 5, "tiny": 2}  # of DPC, DivideMix and UniCon
NETS: Mapping[Scale, str] = {"small": "cnn", "tiny": "cnn"}
WITH_WARMUP = ("dpc", "dividemix", "unicon")
STAR = "dpc_star"  # DPC*: DPC with strong views
STARS = {STAR: "dpc", "cores_star": "cores"}  # longer forms of methods
KINDS = {"symmetric": "sym.", "asymmetric": "asym."}
TITLES = {"cifar10": "CIFAR-10", "cifar100": "CIFAR-100"}
CLASSES = {"cifar10": 10, "cifar100": 100}
MLP = "mlp"
PAPER_VECTORS = "paper-vectors"  # a recipe of methods whose own defaults are another algorithm
WEIGHTS = ("lambda_u", "confidence_penalty", "consistency")  # the paper's, on vectors too
VECTORS_RAMP = 4.0  # epochs until λ_u is reached
Settings = Mapping[str, object]  # of a method, by name
NONE: Settings = {}


def title_of(method: str) -> str:
    """How a table names a method or its longer form."""
    return f"{STARS[method]}*" if method in STARS else method


@dataclass(frozen=True, kw_only=True)
class Setting:
    """A column: data and its noise."""

    column: str
    recipe: str  # its name among the published settings
    data: RunSpec  # how to read it; no method yet
    net: str
    rate: float  # share of labels that are wrong


def synthetic_settings(scale: Scale, sources: Sources, names: Sequence[str]) -> list[Setting]:
    """Columns with label noise put in, by names such as cifar10-symmetric-0.5."""
    found = []
    for name in names:
        data, kind, rate = name.split("-")
        read = data_spec(scale, sources, data)
        if read is not None:
            noise = f"{kind}:{rate}" if kind == "symmetric" else f"{kind}-{data}:{rate}"
            blocks = sources.blocks and noise.startswith("asymmetric-cifar100")
            noise = noise.replace("cifar100", "cifar100-blocks") if blocks else noise
            flat = of_vectors(scale, sources)
            title = "vectors" if flat else "digits" if scale == "tiny" else TITLES[data]
            found.append(
                Setting(
                    column=f"{title} {KINDS[kind]} {float(rate):.0%}",
                    recipe=name,
                    data=replace(read, noise=noise),
                    net=MLP if flat else NETS.get(scale, "preact18"),
                    rate=wrong_share(data, kind, float(rate)),
                )
            )
    if not found:
        raise BadInput(f"none of the columns {', '.join(names)} has its data in {sources.data}.")
    return found


def wrong_share(data: str, kind: str, rate: float) -> float:
    """Share of labels that a nominal rate makes wrong."""
    if kind == "symmetric":
        return rate * (1 - 1 / CLASSES[data])
    return rate / 2 if data == "cifar10" else rate


def of_vectors(scale: Scale, sources: Sources) -> bool:
    """Whether the user's data for this scale is vectors instead of images."""
    return scale == "small" and has_vectors(sources.data)


def data_spec(scale: Scale, sources: Sources, data: str) -> RunSpec | None:
    """Where the data is; None where the user has this set not, but another one."""
    if scale == "tiny":
        return RunSpec(data="digits")
    if sources.stand_ins:
        return RunSpec(data=data)
    if of_vectors(scale, sources):
        return array_spec(small_vectors(sources), "clean")
    plain = replace(sources, human_labels=None)  # the same file and runs with and without them
    if scale == "small":
        return array_spec(small_images(plain))
    if sources.data is not None and sources.data.is_file():
        return array_spec(full_images(plain)) if data == "cifar10" else None
    if sources.data is None or not sources.data.is_dir():
        raise BadInput(
            "the scale paper needs --data DIR, a folder with cifar-10-batches-py and "
            f"cifar-100-python; {sources.data or 'nothing'} was named."
        )
    cifar = CIFAR10 if data == "cifar10" else CIFAR100
    try:
        locate(sources.data, (cifar.python, cifar.binary))
    except BadInput:
        kinds = [kind for c in (CIFAR10, CIFAR100) for kind in (c.python, c.binary)]
        if not any((sources.data / kind.folder).is_dir() for kind in kinds):
            raise
        return None
    return published_spec(data, sources.data)


def array_spec(path: Path, labels: str = "y", truth: str | None = None) -> RunSpec:
    """An .npz, with the names of its labels and true labels."""
    return RunSpec(data=str(path), reading=SourceOptions(label_key=labels, truth_key=truth))


def published_spec(name: str, folder: Path) -> RunSpec:
    """A published data set whose files lie in a folder."""
    return RunSpec(data=name, reading=SourceOptions(data_dir=folder.resolve()))


def human_settings(scale: Scale, sources: Sources, names: Sequence[str]) -> list[Setting]:
    """Columns with labels that people gave: aggre, rand1, ..., worst, noisy100."""
    return [_human(scale, sources, name) for name in names]


def _human(scale: Scale, sources: Sources, name: str) -> Setting:
    recipe = "cifar100n" if name == "noisy100" else f"cifar10n-{name}"
    flat = of_vectors(scale, sources)
    title = "vectors " if flat else "digits " if scale == "tiny" else ""
    return Setting(
        column=f"{title}{name}",
        recipe=recipe,
        data=_human_spec(scale, sources, name, recipe),
        net=MLP if flat else NETS.get(scale, "resnet34"),
        rate=HUMAN_RATES[name],
    )


def _human_spec(scale: Scale, sources: Sources, name: str, recipe: str) -> RunSpec:
    if scale == "tiny":
        return replace(array_spec(tiny_images(sources), name, "clean"), flip=False)
    if sources.stand_ins:
        return RunSpec(data=recipe)
    if sources.data is not None and not sources.data.exists():
        raise BadInput(f"expected CIFAR at {sources.data}, which does not exist; check --data.")
    if scale == "paper" and sources.data is not None and sources.data.is_dir():
        files = (SETS[recipe].labels, SETS[recipe].ordered)
        if not any(
            (sources.data / folder / file).is_file() for folder in FOLDERS for file in files
        ):
            raise BadInput(
                f"expected {files[0]} of CIFAR-N in {sources.data}, but it is not there; put it "
                "beside the CIFAR files, or leave its label sets out with --labels."
            )
        return published_spec(recipe, sources.data)
    if of_vectors(scale, sources) and name != "noisy100":
        return array_spec(small_vectors(sources, (name,)), name, "clean")
    if name == "noisy100":
        raise BadInput("noisy100 needs --scale paper and a folder with CIFAR-100; see --labels.")
    if sources.human_labels is None:
        raise BadInput(
            "label sets of people need --human-labels FILE.npz with the arrays clean, aggre, "
            "rand1, rand2, rand3 and worst in the order of the CIFAR-10 images."
        )
    file = small_images(sources) if scale == "small" else full_images(sources)
    return array_spec(file, name, "clean")


def published_form(
    setting: Setting,
    method: str,
    scale: Scale,
    sources: Sources,
    changes: Settings = NONE,
) -> RunSpec:
    """A run with the published settings; shorter below the scale paper."""
    star, name = method in STARS, STARS.get(method, method)
    if not published_names(name):
        return own_form(setting, name, scale, sources, changes)
    recipe = nearest_recipe(name, setting.recipe)
    values = dict(changes)
    if recipe != setting.recipe:
        values = {**_told(METHODS[name], setting), **values}
    recipe += "-star" if star else ""
    if setting.net == MLP:
        return _vectors_form(setting, name, recipe, sources, values)
    return replace(own_form(setting, name, scale, sources, values), recipe=recipe)


def _told(method: type[Method], setting: Setting) -> dict[str, object]:
    """The share of wrong labels, for a method that must be told it."""
    return {name: round(setting.rate, 4) for name in marked(method, NoiseRate)}


def _vectors_form(
    setting: Setting, name: str, recipe: str, sources: Sources, changes: Settings
) -> RunSpec:
    """A run on vectors that selects and weighs as published."""
    known = published(name, recipe)
    lengths = marked(known, Epochs)
    weights = [key for key in WEIGHTS if key not in lengths]
    values = {key: value for key, value in settings_of(known).items() if key in weights}
    if values.get("lambda_u"):
        values["ramp"] = VECTORS_RAMP
    values |= _told(type(known), setting)
    return replace(
        setting.data,
        method=name,
        recipe=PAPER_VECTORS if PAPER_VECTORS in published_names(name) else None,
        settings={**values, **changes, **lasting(sources.epochs)},
        calibrate="quick",
    )


def own_form(
    setting: Setting,
    method: str,
    scale: Scale,
    sources: Sources,
    changes: Settings = NONE,
) -> RunSpec:
    """A run with the defaults for a user's own images."""
    short = method in WITH_WARMUP and scale in WARMUP and sources.epochs is None
    warmup = {"warmup": WARMUP[scale]} if short else {}
    length = lasting(sources.epochs or EPOCHS.get(scale))
    return replace(
        setting.data,
        method=method,
        net=setting.net,
        settings={**warmup, **changes, **length},
        calibrate="quick",
    )


def cleanlab_form(setting: Setting, scale: Scale, sources: Sources) -> RunSpec:
    """A run of cleanlab with the settings of cross-entropy for a user's own images."""
    return replace(own_form(setting, "ce", scale, sources), calibrate=None)


def lasting(epochs: int | None) -> dict[str, int]:
    """The setting of a run with so many epochs; nothing where the method's own number holds."""
    return {"epochs": epochs} if epochs else {}
