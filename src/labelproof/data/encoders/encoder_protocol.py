"""What an encoder of pictures is: a record that can be opened, and then turns batches into vectors.

Shapes: B batch, H and W the picture's sides, S the side a network wants, D width of a vector.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

Batch = npt.NDArray[np.uint8]  # (B, H, W, 3)
Vectors = npt.NDArray[np.float32]  # (B, D)
Progress = Callable[[int, int], None]  # examples done, examples in all


@dataclass(frozen=True, kw_only=True)
class InputRule:
    """What a network wants: a square picture of `size` pixels, scaled as (x - mean) / std.

    `mean` and `std` are in units of pixel values, 0 to 255, one number a colour.
    """

    size: int
    mean: tuple[float, float, float]
    std: tuple[float, float, float]


def rule_of_shares(size: int, mean: Sequence[float], std: Sequence[float]) -> InputRule:
    """The rule of a network whose mean and deviation are given as shares of 255."""
    means, stds = ([255 * float(value) for value in values] for values in (mean, std))
    return InputRule(
        size=size, mean=(means[0], means[1], means[2]), std=(stds[0], stds[1], stds[2])
    )


class OpenEncoder(Protocol):
    """An encoder with its weights in memory."""

    def __call__(self, batch: Batch) -> Vectors:
        """Vectors of a batch of pictures, all of one size."""


class PictureEncoder(Protocol):
    """A pretrained network for pictures: what is known of it before its weights are in memory."""

    @property
    def name(self) -> str:
        """What `--encoder` calls it."""

    @property
    def licence(self) -> str:
        """Licence of the weights, as far as it is known."""

    @property
    def rule(self) -> InputRule:
        """What the network wants as its input."""

    @property
    def digest(self) -> str:
        """A hash that changes when the weights do."""

    def open(self) -> OpenEncoder:
        """Read the weights.

        Raises:
            BadInput: If they are missing, damaged or not what the name promises.
        """

    def graph(self, shape: Sequence[int]) -> Any:
        """An ONNX model from uint8 pictures `x` (B, *shape) to float32 `vectors` (B, D)."""
