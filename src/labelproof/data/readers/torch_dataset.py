"""Any map-style data set of pairs (x, y), such as those of PyTorch."""

from __future__ import annotations

import hashlib
from typing import Any, Protocol

import numpy as np
import torch
from PIL import Image
from torch import Tensor

from labelproof.data.examples import Examples, Inputs, Resident
from labelproof.data.labels import encode_labels
from labelproof.data.readers.arrays import as_inputs
from labelproof.data.readers.pixels import choose_size, fit
from labelproof.errors import BadInput

Shape = tuple[int, ...]


class Pairs(Protocol):
    """What a map-style data set offers."""

    def __len__(self) -> int: ...

    def __getitem__(self, index: int, /) -> Any: ...


class DatasetInputs:
    """Inputs asked from the data set each time, for sets that do not fit into memory."""

    def __init__(self, dataset: Pairs, shape: Shape, digest: str) -> None:
        self.dataset = dataset
        self.shape = shape
        self.resident = False
        self._digest = digest

    def __len__(self) -> int:
        return len(self.dataset)

    def take(self, index: Tensor) -> Tensor:
        """Rows `index`, in that order."""
        return torch.stack([_one(self.dataset[row][0], self.shape, row) for row in index.tolist()])

    def digest(self) -> str:
        """Hash of all inputs, taken when the data set was first gone through."""
        return self._digest


def from_dataset(
    dataset: Pairs, *, image_size: int | None = None, memory_gb: float = 2.0
) -> Examples:
    """Examples of a map-style data set.

    Its items are pairs of an input and a label. Inputs are PIL images, uint8 arrays or tensors
    (H, W, 3) or (3, H, W), float tensors in [0, 1] of such a shape, or vectors. Every item is read
    once; a transform that draws at random is thereby frozen, so leave augmentation to the method.

    Args:
        dataset: Anything with a length and items; names of classes are taken from `classes`.
        image_size: Edge that PIL images are brought to; None for the size of the first one.
        memory_gb: Inputs that fit into this much are kept; others are read again when needed.

    Raises:
        BadInput: If items are no pairs, or their inputs differ in shape or are normalised images.
    """
    if not len(dataset):
        raise BadInput("expected examples in the data set, but it is empty; give at least one")
    shape = _shape(_pair(dataset, 0)[0], image_size)
    x, labels = _read(dataset, shape, memory_gb)
    names = getattr(dataset, "classes", None)
    what = f"the labels of the data set {type(dataset).__name__}"
    coded = encode_labels(labels, size=len(labels), names=names, what=what)
    about = {"source": "dataset", "path": type(dataset).__name__, "warnings": list(coded.warnings)}
    return Examples(x=x, labels=coded.labels, classes=coded.classes, about=about)


def _read(dataset: Pairs, shape: Shape, memory_gb: float) -> tuple[Inputs, list[Any]]:
    """Go through all items once: labels, a digest, and the inputs themselves if they fit."""
    kind = torch.uint8 if len(shape) == 3 else torch.float32
    room = len(dataset) * int(np.prod(shape)) * kind.itemsize
    fits = room <= memory_gb * 1e9
    kept = torch.empty((len(dataset) if fits else 0, *shape), dtype=kind)
    digest, labels = hashlib.sha256(str(shape).encode()), []
    for row in range(len(dataset)):
        x, label = _pair(dataset, row)
        one = _one(x, shape, row)
        digest.update(one.numpy().tobytes())
        labels.append(label.item() if isinstance(label, Tensor) and label.ndim == 0 else label)
        if fits:
            kept[row] = one
    if fits:
        return Resident(kept), labels
    return DatasetInputs(dataset, shape, digest.hexdigest()), labels


def _pair(dataset: Pairs, row: int) -> tuple[Any, Any]:
    item = dataset[row]
    if not isinstance(item, tuple | list) or len(item) != 2:
        raise BadInput(
            f"expected a pair of an input and a label as item {row} of the data set, but got a "
            f"{type(item).__name__}; wrap the data set so that its items are (x, y)"
        )
    return item[0], item[1]


def _shape(x: Any, image_size: int | None) -> Shape:
    if not isinstance(x, Image.Image):
        return as_inputs(_batch_of_one(x), what="item 0 of the data set").shape
    if image_size is not None:
        return (image_size, image_size, 3)
    return (*choose_size(np.array([[x.height, x.width]])), 3)


def _one(x: Any, shape: Shape, row: int) -> Tensor:
    """One input as uint8 (H, W, 3) or float32 (D,)."""
    what = f"item {row} of the data set"
    if isinstance(x, Image.Image) and len(shape) == 3:
        return torch.from_numpy(fit(x, (shape[0], shape[1])))
    inputs = as_inputs(_batch_of_one(x), what=what)
    if inputs.shape != shape:
        raise BadInput(
            f"expected inputs of one shape, but {what} has {inputs.shape} and item 0 {shape}; "
            "convert all to one shape"
        )
    return inputs.take(torch.tensor([0]))[0]


def _batch_of_one(x: Any) -> Any:
    return x[None] if isinstance(x, Tensor | np.ndarray) else [x]
