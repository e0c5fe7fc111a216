"""CIFAR-10 and CIFAR-100 (Krizhevsky 2009) in their python and binary forms."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from labelproof.data.examples import Examples
from labelproof.data.readers.arrays import from_arrays
from labelproof.data.readers.published.locate import (
    Published,
    data_dir,
    locate,
    plain_file,
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
