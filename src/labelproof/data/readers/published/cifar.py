"""CIFAR-10 and CIFAR-100 (Krizhevsky 2009) in their python and binary forms, and CIFAR-N.

CIFAR-10N and CIFAR-100N (Wei et al., ICLR 2022) are labels that people gave the same images.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from torch import Tensor

from labelproof.data.examples import Examples
from labelproof.data.labels import rare_classes
from labelproof.data.readers.arrays import from_arrays
from labelproof.data.readers.published.locate import (
    Published,
    absent,
    data_dir,
    locate,
    plain_file,
    plain_npy,
    plain_torch,
    read_bytes,
)
from labelproof.data.readers.reading_options import SourceOptions
from labelproof.errors import BadInput

HOME = "https://www.cs.toronto.edu/~kriz/cifar.html"
PIXELS = 3 * 32 * 32
BATCHES = (*(f"data_batch_{k}" for k in range(1, 6)), "test_batch")


@dataclass(frozen=True, kw_only=True)
class Cifar:
    """What differs between the two sets."""

    name: str
    classes: int
    python: Published
    binary: Published
    key: bytes  # of the labels in the python form
    names: tuple[str, bytes]  # file of the class names and the key in it
    label_bytes: int  # before the pixels in the binary form; the last one counts
    normalise: tuple[tuple[float, ...], tuple[float, ...]]


def _form(title: str, kind: str, folder: str, files: tuple[str, ...], *others: str) -> Published:
    """One published form of a set; its files may also lie in a folder with the set's name."""
    name = title.replace("-", "").lower()
    return Published(
        title=title,
        home=HOME,
        archive=f"{title.lower()}-{kind}.tar.gz",
        folder=folder,
        files=files,
        others=(*others, f"{name}/{folder}", name),
    )


CIFAR10 = Cifar(
    name="cifar10",
    classes=10,
    python=_form("CIFAR-10", "python", "cifar-10-batches-py", BATCHES, ""),
    binary=_form(
        "CIFAR-10", "binary", "cifar-10-batches-bin", tuple(f"{b}.bin" for b in BATCHES), ""
    ),
    key=b"labels",
    names=("batches.meta", b"label_names"),
    label_bytes=1,
    normalise=((0.4914, 0.4822, 0.4465), (0.2023, 0.1994, 0.2010)),
)
CIFAR100 = Cifar(
    name="cifar100",
    classes=100,
    python=_form("CIFAR-100", "python", "cifar-100-python", ("train", "test")),
    binary=_form("CIFAR-100", "binary", "cifar-100-binary", ("train.bin", "test.bin")),
    key=b"fine_labels",
    names=("meta", b"fine_label_names"),
    label_bytes=2,
    normalise=((0.507, 0.487, 0.441), (0.267, 0.256, 0.276)),
)

Part = tuple[npt.NDArray[np.uint8], npt.NDArray[np.int64]]


def load_cifar(cifar: Cifar, options: SourceOptions) -> Examples:
    """Training images with their labels, which are also the truth, and the test images."""
    form, paths = locate(data_dir(options), (cifar.python, cifar.binary))
    read = read_python if form is cifar.python else read_binary
    parts = [read(path, cifar) for path in paths.values()]
    images, labels = (np.concatenate(column) for column in zip(*parts[:-1], strict=True))
    test_images, test_labels = parts[-1]
    examples = from_arrays(
        images,
        labels,
        truth=labels,
        classes=_class_names(next(iter(paths.values())).parent, cifar),
        x_test=test_images,
        y_test=test_labels,
        name=cifar.python.title,
        about={"source": cifar.name, "path": str(next(iter(paths.values())).parent)},
    )
    return replace(examples, normalise=cifar.normalise)


def read_python(path: Path, cifar: Cifar) -> Part:
    """Images and labels of one batch of the python form."""
    batch = _table(path)
    pixels, labels = batch.get(b"data"), batch.get(cifar.key)
    if isinstance(labels, np.ndarray):
        labels = labels.tolist()
    if (
        not isinstance(pixels, np.ndarray)
        or pixels.dtype != np.uint8
        or pixels.ndim != 2
        or pixels.shape[1] != PIXELS
        or not isinstance(labels, list)
    ):
        raise _not_a_batch(path, f"no uint8 rows of {PIXELS} pixels with a list of labels")
    return _images(pixels), _labels(labels, len(pixels), path, cifar)


def read_binary(path: Path, cifar: Cifar) -> Part:
    """Images and labels of one file of the binary form."""
    data = np.frombuffer(read_bytes(path), np.uint8)
    record = cifar.label_bytes + PIXELS
    if not len(data) or len(data) % record:
        raise _not_a_batch(path, f"{len(data)} bytes, no whole number of records of {record}")
    rows = data.reshape(-1, record)
    labels = rows[:, cifar.label_bytes - 1].tolist()
    return _images(rows[:, cifar.label_bytes :]), _labels(labels, len(rows), path, cifar)


def _table(path: Path) -> dict[bytes, Any]:
    """A pickled dict; its keys are bytes from Python 2 and words from Python 3."""
    found = plain_file(path)
    if not isinstance(found, dict):
        return {}
    return {key.encode() if isinstance(key, str) else key: value for key, value in found.items()}


def _images(rows: npt.NDArray[np.uint8]) -> npt.NDArray[np.uint8]:
    return np.ascontiguousarray(rows.reshape(-1, 3, 32, 32).transpose(0, 2, 3, 1))


def _labels(labels: list[Any], count: int, path: Path, cifar: Cifar) -> npt.NDArray[np.int64]:
    whole = all(isinstance(label, int) and 0 <= label < cifar.classes for label in labels)
    if len(labels) != count or not whole:
        raise _not_a_batch(path, f"no label 0..{cifar.classes - 1} for each of {count} images")
    return np.array(labels, dtype=np.int64)


def _class_names(folder: Path, cifar: Cifar) -> list[str]:
    """Names from the file beside the batches; numbers where it is not there."""
    for name in (cifar.names[0], f"{cifar.names[0]}.txt", "fine_label_names.txt"):
        path = folder / name
        if not path.is_file():
            continue
        if path.suffix == ".txt":
            names = read_bytes(path).decode("ascii", "backslashreplace").split()
        else:
            listed = _table(path).get(cifar.names[1], [])
            names = [_word(name) for name in listed] if isinstance(listed, list) else []
        if len(names) == cifar.classes and len(set(names)) == cifar.classes:
            return names
    return [str(code) for code in range(cifar.classes)]


def _word(name: Any) -> str:
    return name.decode("ascii", "backslashreplace") if isinstance(name, bytes) else str(name)


def _not_a_batch(path: Path, found: str) -> BadInput:
    return BadInput(
        f"expected a batch of CIFAR images in {path.name}, but it holds {found}; "
        "fetch the published file again"
    )


HUMANS = "http://www.noisylabels.com"
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
            return path, _arrays(plain_torch(path), path), None
    for folder in FOLDERS:
        path = root / folder / chosen.ordered
        if path.is_file():
            beside = path.with_name(chosen.order)
            order = plain_npy(beside) if beside.is_file() else None
            return path, _arrays(plain_npy(path), path), order
    form = Published(
        title=f"{chosen.cifar.python.title}N",
        home=HUMANS,
        archive="its label files",
        folder="",
        files=(chosen.labels,),
    )
    raise absent(root, form)


def _arrays(found: Any, path: Path) -> dict[str, Any]:
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
