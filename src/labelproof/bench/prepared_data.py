"""Data of the bench: smaller sets made from the user's files, the same every time, or refused.

A prepared file's name holds a digest of its content, so that another source makes another file.
"""

from __future__ import annotations

import hashlib
import zipfile
from collections.abc import Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from labelproof.bench.cell import Sources
from labelproof.data.examples import Inputs
from labelproof.data.readers import SourceOptions, load
from labelproof.data.readers.npz import read_arrays
from labelproof.data.readers.published.named import load_digits_set
from labelproof.errors import BadInput
from labelproof.files import written_whole

Arrays = Mapping[str, npt.NDArray[Any]]
LABEL_SETS = ("clean", "aggre", "rand1", "rand2", "rand3", "worst")
IMAGE_KEYS = ("train_images", "train_labels", "test_images", "test_labels")
CIFAR10_CLASSES = np.array(
    ["airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck"]
)
TINY_RATES = {"aggre": 0.09, "rand1": 0.17, "worst": 0.4}  # as in CIFAR-10N, but drawn at random
SMALL, SMALL_TEST = 5_000, 4_000  # images
SMALL_VECTORS = 20_000
SEED = 0  # of the subset


def vectors_file(sources: Sources, label_sets: tuple[str, ...]) -> Path:
    """The .npz of vectors that `--data` names, checked for the label sets asked for."""
    if sources.data is None:
        raise BadInput(
            "vectors needs --data FILE.npz with x, x_test, y_test and label arrays such as clean "
            "and worst; to try it without data add --scale tiny."
        )
    path = sources.data.resolve()
    if not path.is_file():
        raise BadInput(f"expected an .npz of vectors at {sources.data}, but no file is there.")
    wanted = ("x", "x_test", "y_test", "clean", *label_sets)
    _found(path, wanted, "add them, or restrict the label sets with --labels.", read=False)
    return path


def _found(path: Path, wanted: Sequence[str], advice: str, read: bool = True) -> Arrays:
    """Arrays of an .npz that must all be there."""
    found, shapes = read_arrays(path, set(wanted if read else ()))
    missing = [key for key in dict.fromkeys(wanted) if key not in shapes]
    if missing:
        raise BadInput(
            f"expected the arrays {', '.join(missing)} in {path.name}, but it holds "
            f"{', '.join(sorted(shapes))}; {advice}"
        )
    return found


def has_vectors(path: Path | None) -> bool:
    """Whether `--data` names an .npz of vectors rather than CIFAR's images."""
    return "x" in _names(path)


def has_label_sets(path: Path | None) -> bool:
    """Whether that .npz has labels under the names of CIFAR-10N's, and not just its own."""
    return has_vectors(path) and not {*LABEL_SETS}.isdisjoint(_names(path))


def has_own_labels(path: Path | None) -> bool:
    """Whether that .npz has labels `y` to train on, and none that people gave to CIFAR-10."""
    return "y" in _names(path) and {*LABEL_SETS[1:]}.isdisjoint(_names(path))


def own_truth(path: Path) -> str | None:
    """The name of the array of true labels beside `y`; None where there is none."""
    return "clean" if "clean" in _names(path) else None


def _names(path: Path | None) -> set[str]:
    """The arrays in an .npz; none where there is no such file."""
    if path is None or not path.is_file() or path.suffix != ".npz":
        return set()
    return set(read_arrays(path, set())[1])


def measurable(sources: Sources) -> Path:
    """The .npz that `--data` names, as it is, if it has what a run is measured by."""
    assert sources.data is not None
    path = sources.data.resolve()
    advice = "add labels to train on, and examples with right labels to measure by."
    _found(path, ("y", "x_test", "y_test"), advice, read=False)
    return path


@lru_cache(maxsize=4)
def small_vectors(sources: Sources, label_sets: tuple[str, ...] = ()) -> Path:
    """20,000 of the user's vectors with all their label sets, and all test vectors."""
    path = vectors_file(sources, label_sets)
    _, shapes = read_arrays(path, set())
    keys = ("x", *(key for key in LABEL_SETS if key in shapes))
    found, _ = read_arrays(path, {*keys, "x_test", "y_test"})
    one_label_each(found, keys, path)
    order = np.random.default_rng(SEED).permutation(len(found["x"]))
    rows = np.sort(order[:SMALL_VECTORS])
    part = {key: found[key][rows] for key in keys}
    test = {key: found[key] for key in ("x_test", "y_test")}
    return store(sources.out, "vectors-small", {**part, **test})


def one_label_each(found: Arrays, keys: Sequence[str], path: Path) -> None:
    """Refuse label arrays that are not as long as the vectors."""
    for key in keys:
        if len(found[key]) != len(found["x"]):
            raise BadInput(
                f"expected a label for each of the {len(found['x'])} vectors in {path.name}, but "
                f"its array {key} has {len(found[key])}; save one label per vector."
            )


def tiny_vectors(sources: Sources) -> Path:
    """The digits as vectors with three sets of wrong labels, for trying things out."""
    images = _digits()
    flat = {key: _rows(images[key]) for key in ("x", "x_test")}
    return store(sources.out, "digits-vectors", {**images, **flat})


def _rows(images: npt.NDArray[np.uint8]) -> npt.NDArray[np.float32]:
    """One channel of every picture as a row of numbers from 0 to 1."""
    flat = images[..., 0].reshape(len(images), -1)
    return (flat / 255).astype(np.float32)


def tiny_images(sources: Sources) -> Path:
    """The digits as images with the same sets of wrong labels."""
    return store(sources.out, "digits-images", _digits())


def _digits() -> dict[str, npt.NDArray[Any]]:
    data = load_digits_set()
    assert data.test is not None
    clean = np.asarray(data.labels, np.int64)
    wrong = {name: _redrawn(clean, share) for name, share in TINY_RATES.items()}
    arrays: dict[str, npt.NDArray[Any]] = {"clean": clean, "y": clean, **wrong}
    arrays |= {"x": _pixels(data.x), "x_test": _pixels(data.test.x)}
    return {**arrays, "y_test": np.asarray(data.test.labels, np.int64)}


def _pixels(x: Inputs) -> npt.NDArray[np.uint8]:
    return np.asarray(x.take(torch.arange(len(x))).numpy(), np.uint8)


def _redrawn(labels: npt.NDArray[np.int64], share: float) -> npt.NDArray[np.int64]:
    rng = np.random.default_rng(0)
    wrong = rng.random(len(labels)) < share
    return np.where(wrong, (labels + rng.integers(1, 10, len(labels))) % 10, labels)


@lru_cache(maxsize=4)
def small_images(sources: Sources, size: int | None = None) -> Path:
    """CIFAR-10 images (5,000 unless told) at 16 x 16 pixels, 4,000 to test with, human labels."""
    images = cifar10_arrays(sources)
    rng = np.random.default_rng(SEED)
    rows = np.sort(rng.permutation(len(images["x"]))[: size or SMALL])
    test = np.sort(rng.permutation(len(images["x_test"]))[:SMALL_TEST])
    kept = {key: value[rows] for key, value in images.items() if key in (*LABEL_SETS, "y")}
    arrays = {
        **kept,
        "x": halved(images["x"][rows]),
        "x_test": halved(images["x_test"][test]),
        "y_test": images["y_test"][test],
        "classes": images["classes"],
    }
    return store(sources.out, "cifar10-small", arrays)


@lru_cache(maxsize=4)
def pictures_file(
    sources: Sources, label_sets: tuple[str, ...] = (), size: int | None = None
) -> Path:
    """So many CIFAR-10 images (all unless told) as they are, all test images, human labels."""
    images = cifar10_arrays(sources)
    missing = [key for key in label_sets if key not in images]
    if missing:
        raise BadInput(
            f"the label set {missing[0]} needs --human-labels FILE.npz with an array of that name "
            "and the array clean, in the order of the CIFAR-10 images."
        )
    order = np.random.default_rng(SEED).permutation(len(images["x"]))
    rows = np.sort(order[:size])
    whole = ("x_test", "y_test", "classes")
    part = {key: value if key in whole else value[rows] for key, value in images.items()}
    return store(sources.out, "cifar10-pictures", part)


@lru_cache(maxsize=4)
def full_images(sources: Sources) -> Path:
    """CIFAR-10 as it is, from an .npz, in the form that `labelproof fit` reads."""
    return store(sources.out, "cifar10", cifar10_arrays(sources))


def halved(images: npt.NDArray[np.uint8]) -> npt.NDArray[np.uint8]:
    """Images (N, H, W, 3) averaged over squares of two by two pixels."""
    n, height, width, channels = images.shape
    squares = images.reshape(n, height // 2, 2, width // 2, 2, channels)
    means: npt.NDArray[np.float64] = squares.mean((2, 4))
    return np.rint(means).astype(np.uint8)


def cifar10_arrays(sources: Sources) -> dict[str, npt.NDArray[Any]]:
    """CIFAR-10 from the user's folder or .npz, with the human labels where they are known."""
    if sources.data is None:
        raise BadInput(
            "this experiment needs CIFAR-10: name with --data a folder that holds "
            "cifar-10-batches-py, or an .npz with train_images, train_labels, test_images and "
            "test_labels; to try it without data add --scale tiny."
        )
    arrays = _from_folder(sources.data) if sources.data.is_dir() else _from_npz(sources.data)
    return {**arrays, "clean": arrays["y"], **human_labels(sources, arrays["y"])}


def _from_folder(folder: Path) -> dict[str, npt.NDArray[Any]]:
    data = load("cifar10", SourceOptions(data_dir=folder))
    assert data.test is not None
    return {
        "x": _pixels(data.x),
        "y": np.asarray(data.labels, np.int64),
        "x_test": _pixels(data.test.x),
        "y_test": np.asarray(data.test.labels, np.int64),
        "classes": np.array(data.classes),
    }


def _from_npz(path: Path) -> dict[str, npt.NDArray[Any]]:
    if not path.is_file():
        raise BadInput(f"expected CIFAR-10 at {path}, but nothing is there; name another --data.")
    found = _found(path, IMAGE_KEYS, "save CIFAR-10 under these names.")
    train, labels, test, test_labels = (found[key] for key in IMAGE_KEYS)
    for name, images in (("train_images", train), ("test_images", test)):
        if images.dtype != np.uint8 or images.shape[1:] != (32, 32, 3):
            raise BadInput(
                f"expected {name} of shape (N, 32, 32, 3) and type uint8 in {path.name}, but it "
                f"has shape {images.shape} and type {images.dtype}; save them in that form."
            )
    return {
        "x": train,
        "y": labels.astype(np.int64),
        "x_test": test,
        "y_test": test_labels.astype(np.int64),
        "classes": CIFAR10_CLASSES,
    }


def human_labels(
    sources: Sources, truth: npt.NDArray[np.int64]
) -> dict[str, npt.NDArray[np.int64]]:
    """The label sets of CIFAR-10N in the order of the images; none where no file is named."""
    path = sources.human_labels
    if path is None:
        return {}
    if not path.is_file():
        raise BadInput(f"expected human labels at {path}, but no file is there.")
    found, shapes = read_arrays(path, set(LABEL_SETS))
    if "clean" not in found:
        raise BadInput(
            f"expected the array clean beside the human labels in {path.name}, to make sure that "
            f"they are in the order of the images, but it holds {', '.join(sorted(shapes))}."
        )
    if not np.array_equal(found["clean"], truth):
        raise BadInput(
            f"the labels in {path.name} are not in the order of the CIFAR-10 images: its array "
            "clean differs from theirs; use files of the same order."
        )
    short = [key for key, value in found.items() if len(value) != len(truth)]
    if short:
        raise BadInput(
            f"expected {len(truth)} labels in the array {short[0]} of {path.name}, one for each "
            f"image, but it has {len(found[short[0]])}; save all of them."
        )
    return {key: value.astype(np.int64) for key, value in found.items() if key != "clean"}


def store(out: Path, stem: str, arrays: Arrays) -> Path:
    """Write arrays below out/data, whole or not at all; nothing where they are there already."""
    known = hashlib.sha256()
    for key in sorted(arrays):
        known.update(f"{key}{arrays[key].dtype}{arrays[key].shape}".encode())
        known.update(np.ascontiguousarray(arrays[key]).tobytes())
    path = (out / "data" / f"{stem}-{known.hexdigest()[:8]}.npz").resolve()
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        with written_whole(path) as aside, zipfile.ZipFile(aside, "w") as archive:
            for key in sorted(arrays):
                # numpy.savez would put the time of day into the file
                with archive.open(zipfile.ZipInfo(f"{key}.npy"), "w", force_zip64=True) as member:
                    np.lib.format.write_array(member, np.ascontiguousarray(arrays[key]))
    return path
