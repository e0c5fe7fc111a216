"""Sets of different kinds and sizes, each an .npz of x, y, clean, x_test, y_test below OUT/data.

`y` are the given labels, `clean` the true ones, for measuring alone. Sets and noise are drawn once:
seeds of a run change its training, not its data.

Shapes: N training examples, M test examples, D features, C classes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from sklearn import datasets
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.model_selection import train_test_split
from sklearn.preprocessing import StandardScaler

from labelproof.bench.cell import Sources
from labelproof.bench.prepared_data import Arrays, one_label_each, store, vectors_file
from labelproof.data.readers.npz import read_arrays

Numbers = npt.NDArray[Any]
SEED = 7
TEST = 2_000  # test examples of made sets
TEST_SHARE = 0.4  # of a set that comes whole
CAP = 0.9  # no label is more likely wrong than this
HUMAN_KEYS = ("clean", "rand1", "worst")


@dataclass(frozen=True, kw_only=True)
class YardSet:
    """A set by name, and what makes its arrays."""

    name: str  # its column in the tables
    about: str
    make: Callable[[Sources], Arrays]

    def file(self, sources: Sources) -> Path:
        """The set below OUT/data."""
        stem = "".join(c if c.isalnum() else "-" for c in self.name.lower())
        return store(sources.out, f"{stem}-vectors", self.make(sources))


def near_other_class(x: Numbers, y: Numbers, rate: float, rng: np.random.Generator) -> Numbers:
    """Given labels (N,) with noise that depends on the example.

    Let d be the squared distance to the nearest mean of another class, on standardised features.
    The label becomes that class with a chance in proportion to exp(-d / median of all d); the
    factor makes the mean chance `rate`.
    """
    x = StandardScaler().fit_transform(x)
    means = np.stack([x[y == c].mean(0) for c in range(y.max() + 1)])
    distance = ((x[:, None] - means[None]) ** 2).sum(2)
    distance[np.arange(len(y)), y] = np.inf
    nearest, d = distance.argmin(1), distance.min(1)
    chance = np.exp(-d / np.median(d))
    chance = np.minimum(chance * rate / chance.mean(), CAP)
    return np.where(rng.random(len(y)) < chance, nearest, y)


def other_class(y: Numbers, rate: float, classes: int, rng: np.random.Generator) -> Numbers:
    """Given labels (N,): each is one of the other classes with chance `rate`, all equally."""
    shift = rng.integers(1, classes, len(y))
    return np.where(rng.random(len(y)) < rate, (y + shift) % classes, y)


def guessed(y: Numbers, rate: float, rng: np.random.Generator) -> Numbers:
    """Given labels (N,): a share `rate` was guessed, each class as often as it occurs."""
    return np.where(rng.random(len(y)) < rate, rng.permutation(y), y)


def missed(y: Numbers, overlooked: float, alarms: float, rng: np.random.Generator) -> Numbers:
    """Given labels (N,) of two classes: 1 is overlooked, and 0 is called 1, with these chances."""
    chance = np.where(y == 1, overlooked, alarms)
    return np.where(rng.random(len(y)) < chance, 1 - y, y)


def _arrays(x: Numbers, y: Numbers, clean: Numbers, x_test: Numbers, y_test: Numbers) -> Arrays:
    return {
        "x": x.astype(np.float32),
        "y": y.astype(np.int64),
        "clean": clean.astype(np.int64),
        "x_test": x_test.astype(np.float32),
        "y_test": y_test.astype(np.int64),
    }


def _shipped(read: Callable[..., Any], rate: float) -> Arrays:
    """A set that comes with scikit-learn, 60% of it to train on."""
    x, y = read(return_X_y=True)
    x, x_test, y, y_test = train_test_split(
        x, y, test_size=TEST_SHARE, random_state=SEED, stratify=y
    )
    given = near_other_class(x, y, rate, np.random.default_rng(SEED))
    return _arrays(x, given, y, x_test, y_test)


def wine(sources: Sources) -> Arrays:
    """Chemical measurements of wines."""
    return _shipped(datasets.load_wine, 0.25)


def cancer(sources: Sources) -> Arrays:
    """Measurements of cell nuclei."""
    return _shipped(datasets.load_breast_cancer, 0.25)


def digits(sources: Sources) -> Arrays:
    """Pictures of 8 x 8 pixels, as 64 numbers."""
    return _shipped(datasets.load_digits, 0.25)


def mixed_scales(sources: Sources) -> Arrays:
    """A table whose columns differ in scale by up to six orders, half of them skewed."""
    rng = np.random.default_rng(SEED)
    x, y = datasets.make_classification(
        400 + TEST,
        n_features=12,
        n_informative=6,
        n_redundant=2,
        n_classes=4,
        n_clusters_per_class=1,
        class_sep=1.5,
        flip_y=0,
        random_state=SEED,
    )
    x[:, ::2] = np.exp(x[:, ::2] / 2)
    x = x * 10.0 ** rng.uniform(-2, 4, x.shape[1])
    given = near_other_class(x[:400], y[:400], 0.2, rng)
    return _arrays(x[:400], given, y[:400], x[400:], y[400:])


def blobs(sources: Sources) -> Arrays:
    """Twenty round clusters that overlap, 40% of the labels replaced by any other."""
    rng = np.random.default_rng(SEED)
    centres = rng.normal(size=(20, 12)) * 1.2
    y = rng.integers(0, 20, 1_500 + TEST)
    x = centres[y] + rng.normal(size=(len(y), 12))
    given = other_class(y[:1_500], 0.4, 20, rng)
    return _arrays(x[:1_500], given, y[:1_500], x[1_500:], y[1_500:])


def uneven(sources: Sources) -> Arrays:
    """Three classes with 80, 15 and 5% of the examples, 30% of the labels guessed."""
    x, y = _weighted([0.8, 0.15, 0.05], 1_000)
    given = guessed(y[:1_000], 0.3, np.random.default_rng(SEED))
    return _arrays(x[:1_000], given, y[:1_000], x[1_000:], y[1_000:])


def rare(sources: Sources) -> Arrays:
    """Two classes with 97 and 3%: 30% of the rare labels missed, 1% of the others false alarms."""
    x, y = _weighted([0.97, 0.03], 2_000)
    given = missed(y[:2_000], 0.3, 0.01, np.random.default_rng(SEED))
    return _arrays(x[:2_000], given, y[:2_000], x[2_000:], y[2_000:])


def _weighted(shares: Sequence[float], size: int) -> tuple[Numbers, Numbers]:
    x, y = datasets.make_classification(
        size + 2 * TEST,
        n_features=20,
        n_informative=8,
        n_redundant=4,
        n_classes=len(shares),
        n_clusters_per_class=1,
        weights=shares,
        class_sep=1.5,
        flip_y=0,
        random_state=SEED,
    )
    return x, y


def texts(sources: Sources) -> Arrays:
    """Short texts of six topics as TF-IDF vectors, 25% of the labels replaced by any other.

    Of 6 to 14 words, about a third are from the topic's own 40, some from the next topic's, the
    others from 200 that all topics share.
    """
    rng = np.random.default_rng(SEED)
    y = rng.integers(0, 6, 900 + TEST)
    written = [_text(topic, rng) for topic in y]
    vectors = TfidfVectorizer().fit(written[:900])
    x, x_test = (vectors.transform(part).toarray() for part in (written[:900], written[900:]))
    given = other_class(y[:900], 0.25, 6, rng)
    return _arrays(x, given, y[:900], x_test, y[900:])


def _text(topic: int, rng: np.random.Generator) -> str:
    lists = (topic, (topic + 1) % 6, "any")
    sizes = {topic: 40, (topic + 1) % 6: 40, "any": 200}
    picks = rng.choice(3, int(rng.integers(6, 15)), p=[0.3, 0.1, 0.6])
    return " ".join(f"word{lists[k]}x{rng.integers(sizes[lists[k]])}" for k in picks)


def _part_of_cifar(labels: str, size: int) -> YardSet:
    def make(sources: Sources) -> Arrays:
        path = vectors_file(sources, HUMAN_KEYS)
        found, _ = read_arrays(path, {"x", "x_test", "y_test", *HUMAN_KEYS})
        one_label_each(found, HUMAN_KEYS, path)
        rows = np.sort(np.random.default_rng(SEED).permutation(len(found["x"]))[:size])
        x, given, clean = (found[key][rows] for key in ("x", labels, "clean"))
        return _arrays(x, given, clean, found["x_test"], found["y_test"])

    about = f"{size:,} pictures of CIFAR-10 as vectors, labels `{labels}` that people gave"
    return YardSet(name=f"CIFAR-10N {labels} {size}", about=about, make=make)


SETS = (
    YardSet(name="wine", about="scikit-learn's table of wines", make=wine),
    YardSet(
        name="mixed scales", about="made table, columns of very different scale", make=mixed_scales
    ),
    YardSet(name="cancer", about="scikit-learn's table of breast cancer", make=cancer),
    YardSet(name="digits", about="scikit-learn's digits as vectors", make=digits),
    YardSet(name="20 blobs", about="made clusters, twenty classes", make=blobs),
    YardSet(name="classes 80/15/5", about="made table, three classes of unequal size", make=uneven),
    YardSet(name="classes 97/3", about="made table, one class is rare", make=rare),
    YardSet(name="short texts", about="made texts as TF-IDF vectors", make=texts),
)
HUMAN_SETS = (
    _part_of_cifar("rand1", 300),
    _part_of_cifar("worst", 1_000),
    _part_of_cifar("rand1", 3_000),
)
LARGE_SETS = (_part_of_cifar("worst", 10_000),)
