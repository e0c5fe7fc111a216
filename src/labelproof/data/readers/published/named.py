"""Data sets by name."""

from __future__ import annotations

from dataclasses import replace

from labelproof.data.examples import Examples
from labelproof.data.readers.published import digits_set as digits
from labelproof.data.readers.published.cifar import CIFAR10, CIFAR100, load_cifar
from labelproof.data.readers.published.humans import SETS, load_humans
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


def load_named(name: str, how: Reading) -> Examples:
    """A data set by its name; with `like`, the part of it that is meant for testing.

    Raises:
        BadInput: If its files are not there, or differ in shape or classes from `like`.
    """
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
        return replace(digits.load(), mirrored=False)
    if name in ("cifar10", "cifar100"):
        return load_cifar(CIFAR10 if name == "cifar10" else CIFAR100, options)
    if name in SETS:
        return load_humans(name, options)
    if name in ("mnist", "fashion-mnist"):
        loaded = load_idx(MNIST if name == "mnist" else FASHION, options)
        return replace(loaded, mirrored=name != "mnist")
    return load_webvision(replace(how, like=None))
