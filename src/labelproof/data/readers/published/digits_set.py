"""The digits of scikit-learn: 1,797 pictures of 8 x 8 pixels, which need no file."""

from __future__ import annotations

import numpy as np

from labelproof.data.examples import Examples
from labelproof.data.readers.arrays import from_arrays

TEST_SHARE = 0.2
SEED = 0  # the split is part of the data set's definition here and never changes


def load() -> Examples:
    """Digits as images, split 80/20 by class; labels are true, so added noise can be audited."""
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
