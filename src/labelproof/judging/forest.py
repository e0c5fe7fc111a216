"""A random forest of a table: a view of its labels, and a model that may predict too.

Networks, regressions and neighbours draw smooth borders between classes and err on the same rows. A
forest cuts columns at thresholds (Breiman, Machine Learning 2001), so it errs on others. On tables
it is often the best single view. Where it is not, it still shows how often the others are wrong
together: without it, hard rows look like wrong labels.

Each label is judged by the trees that were grown without its example. All of them predict new ones
(`joining` says with which weight). They are kept as arrays, which are saved and exported like any
weights.

Shapes: B batch, C classes, D columns, L leaves, M nodes, N examples, T trees.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import embedding_bag

from labelproof.errors import BadInput

TREES = 200  # where each leaves a third of the examples out; fewer where they leave more out
DRAWN = 4000  # examples that a tree is grown from, about, at the most
LEAF = 3  # examples of a leaf, at the least: a wrong label alone makes none
MOST_COLUMNS = 100  # beyond them the numbers are features of a network, which a regression suits
MOST_CELLS = 5e6  # N D, beyond which a forest takes too long
MOST_SHARES = 1e6  # N C, beyond which the leaves of a tree take long
MOST_KEPT = 1e7  # L C, beyond which a forest judges and does not predict: its file would be large


def forest_in_time(size: int, width: int, classes: int) -> bool:
    """Whether the data is a table, and a forest of it is grown in time."""
    few = width <= MOST_COLUMNS
    return few and size * width <= MOST_CELLS and size * classes <= MOST_SHARES


@dataclass(frozen=True, kw_only=True, eq=False)
class Forest:
    """Trees that predict: at each node, values up to a threshold go one way and others another."""

    column: Tensor  # (M,) what a node looks at
    threshold: Tensor  # (M,)
    onward: Tensor  # (M, 2) the next node, up to the threshold and above; a leaf names itself
    leaf: Tensor  # (M,) which leaf a node is; 0 where it is none
    shares: Tensor  # (L, C) of the classes in a leaf
    roots: Tensor  # (T,)
    tilt: Tensor  # (C,) added to the logarithms, so that rare classes are predicted too

    def __call__(self, x: Tensor) -> Tensor:
        """Scores (B, C) of inputs whose first D numbers are the columns: a logarithm and `tilt`."""
        node = self.roots.to(x.device).expand(x.shape[0], -1)  # (B, T)
        column, threshold = self.column.to(x.device), self.threshold.to(x)
        onward, leaf = self.onward.to(x.device), self.leaf.to(x.device)
        for _ in range(self.depth):
            above = x.gather(1, column[node]) > threshold[node]
            node = torch.where(above, onward[:, 1][node], onward[:, 0][node])
        shares = embedding_bag(leaf[node], self.shares.to(x), mode="sum")
        classes, trees = shares.shape[1], len(self.roots)
        return ((shares + 1 / classes) / (trees + 1)).log() + self.tilt.to(x)

    @cached_property
    def depth(self) -> int:
        """How many questions the deepest tree asks."""
        node = self.roots
        for asked in range(DRAWN):  # a tree of so many examples is not as deep
            inner = node[self.onward[node, 0] != node]
            if not len(inner):
                return asked
            node = torch.unique(self.onward[inner])
        raise BadInput("a tree of the saved forest has no end; copy the run folder again.")

    def tensors(self) -> dict[str, Tensor]:
        """Its arrays, by the name they have in the model's file."""
        return {f"{START}{name}": values for name, values in vars(self).items() if name in ARRAYS}

    @staticmethod
    def revive(tensors: Mapping[str, Tensor]) -> Forest:
        """The forest that `tensors` gave.

        Raises:
            BadInput: If an array points outside of another one.
        """
        found = Forest(**{name: tensors[f"{START}{name}"] for name in ARRAYS})
        nodes, classes = len(found.column), len(found.tilt)
        ends = {"onward": nodes, "leaf": len(found.shares), "roots": nodes}
        outside = [name for name, end in ends.items() if not _below(vars(found)[name], end)]
        if outside or found.shares.shape[1] != classes or not _below(found.column, MOST_COLUMNS):
            raise BadInput("the saved forest does not fit together; copy the run folder again.")
        found.depth  # noqa: B018  refuses trees that lead in circles
        return found


START = "forest:"
ARRAYS = ("column", "threshold", "onward", "leaf", "shares", "roots", "tilt")


def _below(values: Tensor, end: int) -> bool:
    """Whether all values are 0 or more, and below the end."""
    return bool(((values >= 0) & (values < end)).all())


def grown(x: Tensor, labels: Tensor, classes: int, group: Tensor) -> tuple[Tensor, Forest | None]:
    """Log-probabilities (N, C), each by the trees that were grown without the example; the trees.

    Every tree leaves about a third of the examples out, more where there are many, and copies of an
    input together. One more tree that knows nothing keeps the logarithm finite. No forest is
    returned if it would be too large to keep.

    Args:
        x: (N, D) columns, on any scale.
        labels: (N,) given labels.
        classes: C.
        group: (N,) the first example that is the same.
    """
    from sklearn.tree import DecisionTreeClassifier

    # in the form that trees take: to check and copy it for each tree takes longer than growing one
    columns = np.ascontiguousarray(x.numpy(), np.float32)
    given, same = labels.numpy(), group.numpy()
    rng, rate = np.random.default_rng(0), min(1.0, DRAWN / max(1, len(labels)))
    shares, asked = np.full((len(given), classes), 1 / classes), np.ones((len(given), 1))
    trees = []
    for number in range(round(TREES * math.exp(rate - 1))):
        drawn = rng.poisson(rate, len(given))[same]  # how often each example is drawn
        out = drawn == 0
        if out.all() or not out.any():
            continue
        tree = DecisionTreeClassifier(
            max_features="sqrt", min_samples_leaf=LEAF, random_state=number
        )
        tree.fit(columns, given, sample_weight=drawn, check_input=False)
        shares[np.ix_(out, tree.classes_)] += tree.predict_proba(columns[out], check_input=False)
        asked[out] += 1
        trees.append(tree)
    said = torch.from_numpy(np.log(shares / asked))
    leaves = sum(tree.get_n_leaves() for tree in trees)
    few = 0 < leaves * classes <= MOST_KEPT
    return said, packed(trees, tilt_of(labels, classes)) if few else None


def tilt_of(labels: Tensor, classes: int) -> Tensor:
    """½ ln(largest count / count), (C,): the best answer where hits count by count^-1/2."""
    counts = torch.bincount(labels, minlength=classes).double().clamp_min(1)
    return (counts.max() / counts).log().div(2).float()


def packed(trees: Iterable[Any], tilt: Tensor) -> Forest:
    """scikit-learn's trees as arrays; inputs in single precision take the same way as there."""
    parts, nodes, leaves = [], 0, 0
    for one in trees:
        tree, number = one.tree_, np.arange(one.tree_.node_count)
        inner = tree.children_left >= 0
        onward = np.stack([tree.children_left, tree.children_right], 1)
        shares = np.zeros(((~inner).sum(), len(tilt)), np.float32)
        values = tree.value[~inner, 0]
        shares[:, one.classes_] = values / values.sum(1, keepdims=True)
        leaf = np.where(inner, 0, leaves + np.cumsum(~inner) - 1)
        parts.append(
            {
                "column": np.where(inner, tree.feature, 0),
                "threshold": _rounded_down(np.where(inner, tree.threshold, 0.0)),
                "onward": nodes + np.where(inner[:, None], onward, number[:, None]),
                "leaf": leaf,
                "shares": shares,
                "roots": np.array([nodes]),
            }
        )
        nodes, leaves = nodes + len(number), leaves + len(shares)
    whole = {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}
    return Forest(tilt=tilt, **{name: torch.from_numpy(array) for name, array in whole.items()})


def _rounded_down(values: np.ndarray[Any, np.dtype[np.float64]]) -> Any:
    """The largest numbers of single precision that are not above the values."""
    near = values.astype(np.float32)
    return np.where(near > values, np.nextafter(near, np.float32(-np.inf)), near)
