"""MNIST and Fashion-MNIST as idx files, gzipped or not."""

from __future__ import annotations

import gzip
import zlib
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import numpy.typing as npt

from labelproof.data.examples import Examples
from labelproof.data.readers.arrays import from_arrays
from labelproof.data.readers.published.locate import Published, data_dir, locate
from labelproof.data.readers.reading_options import SourceOptions
from labelproof.errors import BadInput

FILES = (
    "train-images-idx3-ubyte",
    "train-labels-idx1-ubyte",
    "t10k-images-idx3-ubyte",
    "t10k-labels-idx1-ubyte",
)
LARGEST = 2**30  # bytes
BYTES = 8  # idx code of unsigned bytes


@dataclass(frozen=True, kw_only=True)
class Idx:
    """One set of four idx files."""

    name: str
    form: Published
    classes: tuple[str, ...]
    mean: float
    std: float


MNIST = Idx(
    name="mnist",
    form=Published(
        title="MNIST",
        home="http://yann.lecun.com/exdb/mnist",
        archive="the four idx files",
        folder="mnist",
        files=FILES,
        others=("MNIST/raw", "MNIST", ""),
    ),
    classes=tuple("0123456789"),
    mean=0.1307,
    std=0.3081,
)
FASHION = Idx(
    name="fashion-mnist",
    form=Published(
        title="Fashion-MNIST",
        home="https://github.com/zalandoresearch/fashion-mnist",
        archive="the four idx files",
        folder="fashion-mnist",
        files=FILES,
        others=("FashionMNIST/raw", "FashionMNIST", "fashion", ""),
    ),
    classes=("T-shirt/top", "Trouser", "Pullover", "Dress", "Coat", "Sandal", "Shirt", "Sneaker",
             "Bag", "Ankle boot"),
    mean=0.2860,
    std=0.3530,
)  # fmt: skip


def load_idx(kind: Idx, options: SourceOptions) -> Examples:
    """Images as 28 x 28 RGB with their labels, which are also the truth, and the test images."""
    _, paths = locate(data_dir(options), (kind.form,))
    x, y, x_test, y_test = (read_idx(paths[name]) for name in FILES)
    examples = from_arrays(
        x,
        y,
        truth=y,
        classes=kind.classes,
        x_test=x_test,
        y_test=y_test,
        name=kind.form.title,
        about={"source": kind.name, "path": str(next(iter(paths.values())).parent)},
    )
    return replace(examples, normalise=((kind.mean,) * 3, (kind.std,) * 3))


def read_idx(path: Path) -> npt.NDArray[np.uint8]:
    """The array of bytes in an idx file."""
    try:
        with gzip.open(path) if path.suffix == ".gz" else open(path, "rb") as file:
            start = file.read(4)
            if (
                len(start) < 4
                or start[:2] != b"\0\0"
                or start[2] != BYTES
                or not 1 <= start[3] <= 4
            ):
                raise _damaged(path, "its first bytes are not those of an idx file of bytes")
            shape = np.frombuffer(file.read(4 * start[3]), ">u4").astype(object)
            count = int(np.prod(shape)) if len(shape) == start[3] else LARGEST + 1
            if count > LARGEST:
                raise _damaged(path, "its header is cut short or asks for too much")
            data = file.read(count + 1)
    except (OSError, EOFError, zlib.error, ValueError) as error:
        if isinstance(error, BadInput):
            raise
        raise _damaged(path, str(error)) from None
    if len(data) != count:
        raise _damaged(path, f"its header says {count} bytes and {min(len(data), count + 1)} came")
    return np.frombuffer(data, np.uint8).reshape([int(edge) for edge in shape])


def _damaged(path: Path, found: str) -> BadInput:
    return BadInput(
        f"expected an idx file in {path.name}, but it cannot be read ({found}); "
        "fetch the published file again"
    )
