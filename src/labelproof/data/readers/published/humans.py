"""CIFAR-10N and CIFAR-100N (Wei et al., ICLR 2022): labels that people gave the CIFAR images."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from torch import Tensor

from labelproof.data.examples import Examples
from labelproof.data.labels import rare_classes
from labelproof.data.readers.published.cifar import CIFAR10, CIFAR100, Cifar, load_cifar
from labelproof.data.readers.published.locate import (
    Published,
    absent,
    data_dir,
    plain_npy,
    plain_torch,
)
from labelproof.data.readers.reading_options import SourceOptions
from labelproof.errors import BadInput

HOME = "http://www.noisylabels.com"
FOLDERS = ("", "cifar-n", "cifar-10-100n/data", "cifar10n", "cifar100n", "data")


@dataclass(frozen=True, kw_only=True)
class HumanLabels:
    """One set of human labels."""

    cifar: Cifar
    keys: tuple[str, ...]  # the array, by the names it has in the published files
    labels: str  # file in the order of the images
    ordered: str  # file in another order, with `order` saying which image each row belongs to
    order: str


def _ten(*keys: str) -> HumanLabels:
    return HumanLabels(
        cifar=CIFAR10,
        keys=keys,
        labels="CIFAR-10_human.pt",
        ordered="CIFAR-10_human_ordered.npy",
        order="image_order_c10.npy",
    )


SETS = {
    "cifar10n-aggre": _ten("aggre_label"),
    "cifar10n-rand1": _ten("random_label1"),
    "cifar10n-rand2": _ten("random_label2"),
    "cifar10n-rand3": _ten("random_label3"),
    "cifar10n-worst": _ten("worse_label"),
    "cifar100n": HumanLabels(
        cifar=CIFAR100,
        keys=("noisy_label", "noise_label"),
        labels="CIFAR-100_human.pt",
        ordered="CIFAR-100_human_ordered.npy",
        order="image_order_c100.npy",
    ),
}


def load_humans(name: str, options: SourceOptions) -> Examples:
    """CIFAR images with the human labels of one set; the truth is CIFAR's own labels."""
    chosen = SETS[name]
    path, table, order = _read(chosen, data_dir(options))
    clean = load_cifar(chosen.cifar, options)
    assert clean.truth is not None
    assert clean.classes is not None
    given = _column(table, chosen.keys, len(clean), chosen.cifar.classes, path)
    check = _column(table, ("clean_label",), len(clean), chosen.cifar.classes, path)
    if order is not None:
        given, check = _restore(given, order, path), _restore(check, order, path)
    wrong = int((check != clean.truth).sum())
    if wrong:
        raise BadInput(
            f"expected {path.name} in the order of the CIFAR images, but its clean labels differ "
            f"from theirs for {wrong} of {len(clean)} images; use the published files of both"
        )
    about = {**clean.about, "source": name, "labels": str(path)}
    about["warnings"] = list(rare_classes(given, clean.classes))
    return replace(clean, labels=given, about=about)


def _read(
    chosen: HumanLabels, root: Path
) -> tuple[Path, dict[str, Any], npt.NDArray[np.int64] | None]:
    """The label file, its table, and the order of its rows where that is not the images'."""
    for folder in FOLDERS:
        path = root / folder / chosen.labels
        if path.is_file():
            return path, _table(plain_torch(path), path), None
    for folder in FOLDERS:
        path = root / folder / chosen.ordered
        if path.is_file():
            beside = path.with_name(chosen.order)
            order = plain_npy(beside) if beside.is_file() else None
            return path, _table(plain_npy(path), path), order
    form = Published(
        title=f"{chosen.cifar.python.title}N",
        home=HOME,
        archive="its label files",
        folder="",
        files=(chosen.labels,),
    )
    raise absent(root, form)


def _table(found: Any, path: Path) -> dict[str, Any]:
    if not isinstance(found, dict):
        raise BadInput(
            f"expected named label arrays in {path.name}, but found a {type(found).__name__}; "
            "fetch the published file again"
        )
    return {key.decode() if isinstance(key, bytes) else str(key): v for key, v in found.items()}


def _column(
    table: dict[str, Any], keys: tuple[str, ...], count: int, classes: int, path: Path
) -> npt.NDArray[np.int64]:
    found = next((table[key] for key in keys if key in table), None)
    array = np.asarray(found.numpy() if isinstance(found, Tensor) else found)
    if array.dtype.kind not in "iu" or array.shape != (count,):
        raise BadInput(
            f"expected {count} labels under {' or '.join(keys)} in {path.name}, but it holds "
            f"{', '.join(sorted(table)) or 'nothing'}, and there {array.dtype} of shape "
            f"{array.shape}; use the published files of labels and images"
        )
    if len(array) and not (array.min() >= 0 and array.max() < classes):
        raise BadInput(
            f"expected labels 0..{classes - 1} in {path.name}, but {array.min()}..{array.max()} "
            "occur; fetch the published file again"
        )
    return array.astype(np.int64)


def _restore(
    values: npt.NDArray[np.int64], order: npt.NDArray[np.int64], path: Path
) -> npt.NDArray[np.int64]:
    """Labels in the order of the images: row k of the file belongs to image order[k]."""
    if not np.array_equal(np.sort(np.asarray(order).ravel()), np.arange(len(values))):
        raise BadInput(
            f"expected the image numbers 0..{len(values) - 1} once each in the order file beside "
            f"{path.name}, but they are not; fetch it again"
        )
    restored = np.empty_like(values)
    restored[np.asarray(order).ravel()] = values
    return restored
