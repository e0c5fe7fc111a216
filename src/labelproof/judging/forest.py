"""A random forest as a view of the labels of a table.

Networks, regressions and neighbours draw smooth borders between classes and err on the same rows. A
forest cuts columns at thresholds (Breiman, Machine Learning 2001), so it errs on others. On tables
it is often the best single view. Where it is not, it still shows how often the others are wrong
together: without it, hard rows look like wrong labels.

Shapes: C classes, D columns, N examples.
"""

from __future__ import annotations

import math

import numpy as np
import torch
from torch import Tensor

TREES = 200  # where each leaves a third of the examples out; fewer where they leave more out
DRAWN = 4000  # examples that a tree is grown from, about, at the most
LEAF = 3  # examples of a leaf, at the least: a wrong label alone makes none
MOST_COLUMNS = 100  # beyond them the numbers are features of a network, which a regression suits
MOST_CELLS = 5e6  # N D, beyond which a forest takes too long
MOST_SHARES = 1e6  # N C, beyond which the leaves of a tree take long


def forest_in_time(size: int, width: int, classes: int) -> bool:
    """Whether the data is a table, and a forest of it is grown in time."""
    few = width <= MOST_COLUMNS
    return few and size * width <= MOST_CELLS and size * classes <= MOST_SHARES


def forest(x: Tensor, labels: Tensor, classes: int, group: Tensor) -> Tensor:
    """Log-probabilities (N, C), each by the trees that were grown without the example.

    Every tree leaves about a third of the examples out, more where there are many, and copies of an
    input together. One more tree that knows nothing keeps the logarithm finite.

    Args:
        x: (N, D) columns, on any scale.
        labels: (N,) given labels.
        classes: C.
        group: (N,) the first example that is the same.
    """
    from sklearn.tree import DecisionTreeClassifier

    columns, given, same = x.numpy(), labels.numpy(), group.numpy()
    rng, rate = np.random.default_rng(0), min(1.0, DRAWN / max(1, len(labels)))
    shares, asked = np.full((len(given), classes), 1 / classes), np.ones((len(given), 1))
    for number in range(round(TREES * math.exp(rate - 1))):
        drawn = rng.poisson(rate, len(given))[same]  # how often each example is drawn
        out = drawn == 0
        if out.all() or not out.any():
            continue
        tree = DecisionTreeClassifier(
            max_features="sqrt", min_samples_leaf=LEAF, random_state=number
        )
        tree.fit(columns, given, sample_weight=drawn)
        shares[np.ix_(out, tree.classes_)] += tree.predict_proba(columns[out])
        asked[out] += 1
    return torch.from_numpy(np.log(shares / asked))
