"""λ_u without guessing: fixed weights of the unsupervised loss against `auto`.

On CIFAR-10's images or vectors with label sets, on any other data that has right labels to test
with, and on made vectors where no data is named.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from sklearn.datasets import make_classification

from labelproof.bench.asked import chosen
from labelproof.bench.cell import Cell, Experiment, Scale, Sources, crossed, seeded
from labelproof.bench.prepared_data import (
    LABEL_SETS,
    has_label_sets,
    has_vectors,
    measurable,
    small_images,
    small_vectors,
    store,
    tiny_vectors,
)
from labelproof.bench.results import LAST, SECONDS, Results, mean_spread
from labelproof.bench.scales import (
    MLP,
    Setting,
    array_spec,
    human_settings,
    lasting,
    own_form,
    synthetic_settings,
)
from labelproof.bench.tables import Table, closing, grid
from labelproof.errors import BadInput
from labelproof.judging.tune import FEWEST
from labelproof.runs.spec import RunSpec

FIXED = ("0", "25", "50", "150")
AUTO = "auto"
TINY_EPOCHS = 4
LABELS = ("clean", "rand1", "worst")
HARD = ("cifar10-symmetric-0.8", "cifar10-asymmetric-0.4")  # on vectors
IMAGES = ("cifar10-symmetric-0.5", "cifar10-asymmetric-0.4")
MANY, MANY_EPOCHS = FEWEST["images"], 12  # images from which on `auto` makes trials


def cells(scale: Scale, sources: Sources, seeds: int) -> list[Cell]:
    """A cell for every weight; images and vectors, where their data is named."""
    if scale == "paper" and has_vectors(sources.data):
        scale = "small"  # which says everything about vectors

    def one(setting: Setting, value: str) -> list[Cell]:
        return seeded(value, setting.column, _spec(setting, value, scale, sources), seeds)

    return crossed(_settings(scale, sources), (*FIXED, AUTO), one)


def _spec(setting: Setting, value: str, scale: Scale, sources: Sources) -> RunSpec:
    weight = {"lambda_u": value if value == AUTO else float(value)}
    if setting.column.startswith(f"{MANY} "):
        sources = replace(sources, epochs=sources.epochs or MANY_EPOCHS)
    if setting.net != MLP:
        return own_form(setting, "dpc", scale, sources, weight)
    epochs = sources.epochs or (TINY_EPOCHS if scale == "tiny" else None)
    settings = {**weight, **lasting(epochs)}
    return replace(setting.data, method="dpc", settings=settings, calibrate="off")


def _settings(scale: Scale, sources: Sources) -> list[Setting]:
    """Columns for the data that is named."""
    own = has_vectors(sources.data) and not has_label_sets(sources.data)
    if scale == "small" and sources.labels and (own or sources.data is None):
        raise BadInput(
            f"--labels {','.join(sources.labels)} needs --data with arrays of these names; "
            f"{f'{sources.data} has none' if own else 'made vectors have none'}, so leave it out."
        )
    if scale == "small" and sources.data is None:
        return [
            _column(made.column, replace(array_spec(made_file(sources, made)), noise=made.noise))
            for made in SETS
        ]
    if scale == "small" and own:
        return [_column("given labels", array_spec(measurable(sources)))]
    return _images(scale, sources) + _vectors(scale, sources)


def _column(name: str, data: RunSpec) -> Setting:
    return Setting(column=name, recipe="", data=data, net=MLP, rate=0.0)


def _images(scale: Scale, sources: Sources) -> list[Setting]:
    if scale == "tiny":
        return synthetic_settings(scale, sources, IMAGES[:1])
    if has_vectors(sources.data) or (scale == "small" and sources.data is None):
        return []
    if sources.labels:
        raise BadInput(
            "lambda_u takes --labels on vectors; on images it has `worst`, with --human-labels."
        )
    found = synthetic_settings(scale, sources, IMAGES)
    if scale == "small":
        found.append(_many(found[0], sources))
    return found + (human_settings(scale, sources, ("worst",)) if sources.has_people else [])


def _many(setting: Setting, sources: Sources) -> Setting:
    """The same noise on so many images that `auto` has to choose."""
    path = small_images(replace(sources, human_labels=None), MANY)
    _, noise = setting.column.split(" ", 1)
    data = replace(setting.data, data=str(path))
    return replace(setting, column=f"{MANY} images {noise}", data=data)


def _vectors(scale: Scale, sources: Sources) -> list[Setting]:
    labels = chosen("label set", sources.labels, LABEL_SETS, LABELS)
    if scale == "tiny":
        path, labels = tiny_vectors(sources), labels[-1:]
    elif has_vectors(sources.data):
        path = small_vectors(sources, labels)
    else:
        return []
    drawn = [] if scale == "tiny" else synthetic_settings(scale, sources, HARD)
    return drawn + [_column(f"vectors {key}", array_spec(path, key, "clean")) for key in labels]


def finish(results: Results, folder: Path) -> list[Path]:
    """Accuracy and time of every weight, and how far `auto` is behind the best fixed one."""
    files = grid(results, LAST, title="λ_u fixed and found").write(folder)
    files += grid(results, SECONDS, title="λ_u fixed and found").write(folder, "table-seconds")
    rows = [row for row in (_behind(results, column) for column in results.columns) if row]
    table = Table(
        title="How far auto is behind the best fixed λ_u",
        header=("setting", "best fixed λ_u", "its accuracy (%)", "auto (%)", "difference"),
        rows=tuple(rows),
        notes=tuple(closing(results)),
    )
    return files + table.write(folder, "table-behind")


def _behind(results: Results, column: str) -> tuple[str, ...] | None:
    means = {row: mean_spread(results.values(LAST.read, row, column)) for row in (*FIXED, AUTO)}
    known = {row: pair[0] for row, pair in means.items() if pair is not None}
    if AUTO not in known or len(known) < 2:
        return None
    best = max((row for row in known if row != AUTO), key=lambda row: known[row])
    gap = known[AUTO] - known[best]
    return (column, best, f"{known[best]:.2f}", f"{known[AUTO]:.2f}", f"{gap:+.2f}")


EXPERIMENT = Experiment(
    name="lambda_u",
    title="the weight of DPC's unsupervised loss: fixed values compared with auto",
    seeds={"paper": 1, "small": 1, "tiny": 1},
    cells=cells,
    finish=finish,
    takes=("labels",),
)


TEST = 5_000
SEED = 0


@dataclass(frozen=True, kw_only=True)
class Made:
    """How a set is made: `make_classification` with two clusters a class, and its label noise."""

    size: int
    classes: int
    features: int
    informative: int
    apart: float  # class_sep
    noise: str  # as --noise takes it

    @property
    def column(self) -> str:
        """Its column in a table."""
        kind, rate = self.noise.split(":")
        short = {"symmetric": "sym."}.get(kind, kind)
        return f"{self.size} made, {self.classes} classes {short} {float(rate):.0%}"


SETS = (
    Made(size=2_500, classes=2, features=20, informative=8, apart=1.0, noise="symmetric:0.4"),
    Made(size=3_000, classes=5, features=40, informative=15, apart=1.0, noise="symmetric:0.4"),
    Made(size=8_000, classes=5, features=40, informative=15, apart=1.0, noise="symmetric:0.4"),
    Made(size=12_000, classes=2, features=30, informative=10, apart=0.8, noise="pair:0.25"),
    Made(size=12_000, classes=20, features=60, informative=20, apart=1.2, noise="symmetric:0.5"),
    Made(size=10_000, classes=10, features=60, informative=20, apart=1.2, noise="pair:0.3"),
    Made(size=10_000, classes=10, features=60, informative=20, apart=1.5, noise="symmetric:0.8"),
)


def made_file(sources: Sources, made: Made) -> Path:
    """The set as an .npz of x and y, x_test and y_test; the labels are right."""
    x, y = make_classification(
        made.size + TEST,
        n_features=made.features,
        n_informative=made.informative,
        n_redundant=made.informative // 3,
        n_classes=made.classes,
        n_clusters_per_class=2,
        class_sep=made.apart,
        flip_y=0,
        random_state=SEED,
    )
    x, y = x.astype(np.float32), y.astype(np.int64)
    train, test = slice(made.size), slice(made.size, None)
    arrays = {"x": x[train], "y": y[train], "x_test": x[test], "y_test": y[test]}
    return store(sources.out, f"made-{made.classes}-classes-{made.size}", arrays)
