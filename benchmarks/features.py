"""CIFAR-10 with human labels as vectors: the file that the experiments on vectors read.

    python benchmarks/features.py CIFAR10.npz CIFAR-10_human.pt --out cifar10n_features.npz

CIFAR10.npz has train_images, train_labels, test_images, test_labels (uint8, in the original order).
The second file has the labels of CIFAR-10N: the published .pt, or an .npz with the arrays clean,
aggre, rand1, rand2, rand3, worst. Images are encoded by EfficientNet-Lite0 at 96 pixels. Of the
1,280 features the first 256 principal components of the training images are kept, on one scale.
Takes some minutes on two cores, and continues where it was stopped.
"""

from __future__ import annotations

import argparse
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch

from labelproof.data.encoders.efficientnet_lite import LITE0
from labelproof.data.encoders.encode import encode
from labelproof.data.examples import Resident
from labelproof.data.plain_files import read_saved

EDGE, COMPONENTS = 96, 256
PUBLISHED = {
    "clean": "clean_label",
    "aggre": "aggre_label",
    "rand1": "random_label1",
    "rand2": "random_label2",
    "rand3": "random_label3",
    "worst": "worse_label",
}


def human_labels(path: Path) -> dict[str, np.ndarray]:
    if path.suffix == ".npz":
        arrays = np.load(path)
        return {name: arrays[name].astype(np.uint8) for name in PUBLISHED}
    table = read_saved(path.read_bytes())
    return {name: np.asarray(table[key]).astype(np.uint8) for name, key in PUBLISHED.items()}


def components(train: np.ndarray, test: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The first principal components of the training images, on one scale, for both."""
    mean = train.mean(0)
    squares, directions = np.linalg.eigh(np.cov(train - mean, rowvar=False))
    first = directions[:, np.argsort(-squares)[:COMPONENTS]]
    scale = ((train - mean) @ first).std()
    return (train - mean) @ first / scale, (test - mean) @ first / scale


def main() -> None:
    options = argparse.ArgumentParser()
    options.add_argument("images", type=Path)
    options.add_argument("labels", type=Path)
    options.add_argument("--out", type=Path, default=Path("cifar10n_features.npz"))
    told = options.parse_args()
    data, labels = np.load(told.images), human_labels(told.labels)
    given = data["train_labels"].reshape(-1)
    if not np.array_equal(labels["clean"], given):
        raise SystemExit("The label files are of other images, or of another order.")
    encoder = replace(LITE0, size=EDGE)
    train, test = (
        encode(Resident(torch.from_numpy(data[name])), encoder).data.double().numpy()
        for name in ("train_images", "test_images")
    )
    x, x_test = (part.astype(np.float16) for part in components(train, test))
    y_test = data["test_labels"].reshape(-1).astype(np.uint8)
    np.savez(told.out, x=x, x_test=x_test, y_test=y_test, **labels)
    print(f"Written: {told.out}, {len(x):,} and {len(x_test):,} vectors of {x.shape[1]} numbers.")


if __name__ == "__main__":
    main()
