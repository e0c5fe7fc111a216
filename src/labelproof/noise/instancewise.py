"""Noise that depends on the example: part-dependent (Xia et al. 2020) and PMD (Zhang et al. 2021).

Both take the true labels y (N,), the number C of classes, the expected share `rate` of wrong labels
and the generator that their draws come from.

Shapes: N examples, C classes, D numbers an example.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Literal

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor
from torch.nn import functional

from labelproof.data.examples import Inputs
from labelproof.errors import BadInput
from labelproof.noise.noise_spec import Floats, Ints, Labels, Noise, checked, record
from labelproof.views import image_statistics, vector_statistics

Scaling = Literal["raw", "standard"]
CHUNK = 2**23  # numbers read at a time
FLOOR = 1e-15  # a tie keeps its label when nothing else flips


def instance(
    y: Labels,
    num_classes: int,
    rate: float,
    rng: np.random.Generator,
    *,
    inputs: Inputs,
    scaling: Scaling = "raw",
    shared: bool = False,
) -> Noise:
    """Wrong labels by a random linear function of the input (Xia et al., NeurIPS 2020).

    Each example is mislabelled with its own probability, normal about `rate` with deviation 0.1 and
    cut to [0, 1]; the wrong class follows a softmax of x W, with a random matrix W for each class.

    Args:
        scaling: "raw" takes the numbers as stored (pixels 0 to 255), as published, which makes the
            softmax nearly one-hot; "standard" standardises them, which spreads the wrong labels.
        shared: One matrix for all classes (CORES).
    """
    before = checked(y, num_classes, rate)
    share = _flip_probability(len(before), rate, rng)
    wrong = rng.random(len(before)) < share
    after = before.copy()
    draws = rng.random(len(before))
    width, scaler = math.prod(inputs.shape), _scaler(inputs, scaling)
    weights = _weights(rng, width, num_classes)
    for label in range(num_classes):
        weights = weights if shared or label == 0 else _weights(rng, width, num_classes)
        for part in _parts(np.flatnonzero(wrong & (before == label)), width):
            scores = _flat(inputs, part, *scaler) @ weights
            scores[:, label] = -np.inf
            after[part] = _sample(scores, draws[part])
    options = {"scaling": scaling, "shared": shared}
    return record(before, after, num_classes, "instance", rate, options)


def pmd(
    y: Labels,
    num_classes: int,
    rate: float,
    rng: np.random.Generator,
    *,
    eta: npt.ArrayLike,
    kind: Literal[1, 2, 3] = 1,
    factor: float | None = None,
) -> Noise:
    """Polynomial-margin-diminishing noise (Zhang et al., ICLR 2021): labels flip near boundaries.

    With d the distance between the probabilities of the true class and its strongest rival, a label
    is kept with probability k(d) / factor and given to the rival otherwise. As published, the first
    class is the one eta favours; it is the true one wherever eta is right, and taking the true one
    keeps the rate under control where it is not.

    Args:
        eta: Class probabilities from a model trained on true labels, (N, C).
        kind: Type I, k = (1 + d^2) / 2; type II, k = d^3; type III, k = (d + d^2 + d^3) / 3.
        factor: The published way to set the level; found from `rate` where None.
    """
    before = checked(y, num_classes, rate)
    rival, margin = _margins(np.asarray(eta, dtype=np.float64), before, num_classes)
    keep = {
        1: (1 + margin**2) / 2,
        2: margin**3,
        3: (margin + margin**2 + margin**3) / 3,
    }[kind]
    keep = np.maximum(keep, FLOOR)
    factor = _factor(keep, rate) if factor is None else factor
    flipped = rng.random(len(before)) >= np.minimum(keep / factor, 1.0)
    after = np.where(flipped, rival, before)
    return record(before, after, num_classes, f"pmd-{kind}", rate, {"factor": factor})


def probe_probabilities(inputs: Inputs, y: Labels, num_classes: int, seed: int) -> Floats:
    """Class probabilities (N, C) for `pmd` from a quick model that never saw the example it judges.

    Images are shrunk to 8 x 8; then 64 principal components, logistic regression and three folds.
    """
    from sklearn.decomposition import PCA
    from sklearn.linear_model import LogisticRegression
    from sklearn.model_selection import KFold
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    labels, x = checked(y, num_classes, 0.0), _small(inputs)
    eta = np.zeros((len(labels), num_classes))
    for train, held in KFold(3, shuffle=True, random_state=seed).split(x):
        parts = min(64, x.shape[1], len(train))
        if len(np.unique(labels[train])) < 2:
            eta[held, labels[train[0]]] = 1.0
            continue
        model = make_pipeline(
            StandardScaler(), PCA(parts, random_state=seed), LogisticRegression(max_iter=300)
        )
        model.fit(x[train], labels[train])
        eta[np.ix_(held, model[-1].classes_)] = model.predict_proba(x[held])
    return eta


def _flip_probability(count: int, rate: float, rng: np.random.Generator) -> Floats:
    """Normal about `rate`, deviation 0.1, by rejection of what lies outside [0, 1]."""
    share = rng.normal(rate, 0.1, count) if rate > 0 else np.zeros(count)
    outside = (share < 0) | (share > 1)
    while outside.any():
        share[outside] = rng.normal(rate, 0.1, int(outside.sum()))
        outside = (share < 0) | (share > 1)
    return share


def _weights(rng: np.random.Generator, width: int, num_classes: int) -> npt.NDArray[np.float32]:
    return rng.standard_normal((width, num_classes), dtype=np.float32)


def _parts(index: Ints, width: int) -> Iterator[Ints]:
    step = max(1, CHUNK // width)
    return (index[start : start + step] for start in range(0, len(index), step))


def _scaler(inputs: Inputs, scaling: Scaling) -> tuple[Tensor, Tensor]:
    """What is subtracted from the stored numbers and what they are divided by."""
    if scaling == "raw":
        return torch.zeros(1), torch.ones(1)
    if len(inputs.shape) == 3:
        mean, std = (255 * torch.tensor(values) for values in image_statistics(inputs))
        return mean, std
    centre, spread = vector_statistics(inputs)
    return centre, torch.where(spread == 0, 1.0, spread)


def _flat(inputs: Inputs, index: Ints, mean: Tensor, std: Tensor) -> npt.NDArray[np.float32]:
    x = (inputs.take(torch.from_numpy(index)).float() - mean) / std
    flat: npt.NDArray[np.float32] = x.reshape(len(index), -1).numpy()
    return flat


def _sample(scores: npt.NDArray[np.float32], draws: Floats) -> Ints:
    """A class for each row, by the softmax of its scores."""
    shares = np.exp(scores - scores.max(1, keepdims=True)).astype(np.float64).cumsum(1)
    chosen: Ints = (draws[:, None] >= shares / shares[:, -1:]).sum(1)
    return chosen


def _margins(eta: Floats, labels: Ints, num_classes: int) -> tuple[Ints, Floats]:
    """The strongest rival of each label and the distance of their probabilities, (N,) each."""
    if eta.shape != (len(labels), num_classes):
        raise BadInput(
            f"PMD noise needs class probabilities of shape {(len(labels), num_classes)}, one row "
            f"per example, but got {eta.shape}."
        )
    rows = np.arange(len(labels))
    others = eta.copy()
    others[rows, labels] = -np.inf
    rival: Ints = others.argmax(1)
    return rival, abs(eta[rows, labels] - eta[rows, rival])


def _factor(keep: Floats, rate: float) -> float:
    """Factor at which labels kept with probability min(keep / factor, 1) are wrong at `rate`."""
    low, high = FLOOR, 1 / FLOOR
    for _ in range(100):
        middle = math.sqrt(low * high)
        too_clean = (1 - np.minimum(keep / middle, 1.0)).mean() < rate
        low, high = (middle, high) if too_clean else (low, middle)
    return high


def _small(inputs: Inputs) -> npt.NDArray[np.float32]:
    """Vectors as they are, images shrunk to 8 x 8, as one array (N, D)."""
    parts = []
    for index in _parts(np.arange(len(inputs)), math.prod(inputs.shape)):
        x = inputs.take(torch.from_numpy(index)).float()
        if x.ndim == 4:
            x = functional.adaptive_avg_pool2d(x.permute(0, 3, 1, 2), (8, 8))
        parts.append(x.reshape(len(index), -1).numpy())
    return np.concatenate(parts)
