"""Data sets by name."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from labelproof.data.examples import Examples
from labelproof.data.readers.arrays import from_arrays
from labelproof.data.readers.published.cifar import CIFAR10, CIFAR100, SETS, load_cifar, load_humans
from labelproof.data.readers.published.idx import FASHION, MNIST, load_idx
from labelproof.data.readers.published.webvision_files import load_ilsvrc12, load_webvision
from labelproof.data.readers.reading_options import Reading
from labelproof.errors import BadInput

NAMES = (
    "digits",
    "cifar10",
    "cifar100",
    *SETS,
    "mnist",
    "fashion-mnist",
    "webvision",
    "ilsvrc12",
)


TEST_SHARE = 0.2  # of the digits
SEED = 0  # the split is part of the data set's definition here and never changes


def load_named(name: str, how: Reading) -> Examples:
    """A data set by its name; with `like`, the part of it that is meant for testing."""
    if name == "ilsvrc12":
        return load_ilsvrc12(how)
    examples, like = _load(name, how), how.like
    if like is None:
        return examples
    test = examples.test if examples.test is not None else examples
    if test.x.shape != like.x.shape or test.classes != like.classes:
        raise BadInput(
            f"expected inputs of shape {like.x.shape} with the classes of the training data, but "
            f"{name} has shape {test.x.shape} and {len(test.classes or ())} classes; "
            "test on data of the same kind"
        )
    return test


def _load(name: str, how: Reading) -> Examples:
    options = how.options
    if name == "digits":
        return replace(load_digits_set(), mirrored=False)
    if name in ("cifar10", "cifar100"):
        return load_cifar(CIFAR10 if name == "cifar10" else CIFAR100, options)
    if name in SETS:
        return load_humans(name, options)
    if name in ("mnist", "fashion-mnist"):
        loaded = load_idx(MNIST if name == "mnist" else FASHION, options)
        return replace(loaded, mirrored=name != "mnist")
    return load_webvision(replace(how, like=None))


def load_digits_set() -> Examples:
    """The 1,797 digits of scikit-learn as images, which need no file, split 80/20 by class.

    Labels are true, so added noise can be audited.
    """
    from sklearn.datasets import load_digits  # slow to import, and no other source needs it
    from sklearn.model_selection import train_test_split

    bunch = load_digits()
    pixels = np.rint(bunch.images * (255 / 16)).astype(np.uint8)
    labels = bunch.target.astype(np.int64)
    train, test = train_test_split(
        np.arange(len(labels)), test_size=TEST_SHARE, random_state=SEED, stratify=labels
    )
    train, test = np.sort(train), np.sort(test)
    return from_arrays(
        pixels[train],
        labels[train],
        truth=labels[train],
        ids=[f"digits/{row}" for row in train],
        classes=[str(digit) for digit in range(10)],
        x_test=pixels[test],
        y_test=labels[test],
        name="digits",
        about={"source": "digits", "split": f"stratified, test share {TEST_SHARE}, seed {SEED}"},
    )
