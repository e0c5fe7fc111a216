"""Inception-ResNet-v2 (Szegedy, Ioffe, Vanhoucke and Alemi, AAAI 2017), as in the WebVision tables.

A stem, then three kinds of residual blocks whose branches are scaled before they are added, with
two reductions between them. Made for 299x299 images; anything from 75x75 up will do.

A path is written as a tuple of convolutions (channels, kernel, stride). With stride 1 a convolution
keeps the image's size; with stride 2 it is not padded.
Shapes: B batch, H and W the sides of a feature map.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
import torch.nn.functional as F
from torch import Tensor, nn

Kernel = int | tuple[int, int]
Path = tuple[tuple[int, Kernel, int], ...]

SMALLEST = 75  # pixels; below that the last reduction has nothing left to reduce

MIXED_5B: tuple[Path, ...] = (
    ((96, 1, 1),),
    ((48, 1, 1), (64, 5, 1)),
    ((64, 1, 1), (96, 3, 1), (96, 3, 1)),
)
BLOCK_35: tuple[Path, ...] = (
    ((32, 1, 1),),
    ((32, 1, 1), (32, 3, 1)),
    ((32, 1, 1), (48, 3, 1), (64, 3, 1)),
)
MIXED_6A: tuple[Path, ...] = (
    ((384, 3, 2),),
    ((256, 1, 1), (256, 3, 1), (384, 3, 2)),
)
BLOCK_17: tuple[Path, ...] = (
    ((192, 1, 1),),
    ((128, 1, 1), (160, (1, 7), 1), (192, (7, 1), 1)),
)
MIXED_7A: tuple[Path, ...] = (
    ((256, 1, 1), (384, 3, 2)),
    ((256, 1, 1), (288, 3, 2)),
    ((256, 1, 1), (288, 3, 1), (320, 3, 2)),
)
BLOCK_8: tuple[Path, ...] = (
    ((192, 1, 1),),
    ((192, 1, 1), (224, (1, 3), 1), (256, (3, 1), 1)),
)


def conv(inputs: int, outputs: int, kernel: Kernel, stride: int = 1, *, pad: bool) -> nn.Sequential:
    """Convolution without bias, BN and ReLU."""
    high, wide = (kernel, kernel) if isinstance(kernel, int) else kernel
    padding = (high // 2, wide // 2) if pad else (0, 0)
    return nn.Sequential(
        nn.Conv2d(inputs, outputs, (high, wide), stride, padding, bias=False),
        nn.BatchNorm2d(outputs, eps=1e-3),
        nn.ReLU(),
    )


def path(inputs: int, layers: Path) -> nn.Sequential:
    """The convolutions of one path, one after the other."""
    modules = []
    for outputs, kernel, stride in layers:
        modules.append(conv(inputs, outputs, kernel, stride, pad=stride == 1))
        inputs = outputs
    return nn.Sequential(*modules)


class Branches(nn.Module):
    """Several paths over one input, their channels put side by side.

    Attributes:
        outputs: The number of channels that come out.
    """

    def __init__(self, inputs: int, paths: Sequence[Path], pooled: nn.Module | None = None) -> None:
        super().__init__()
        modules: list[nn.Module] = [path(inputs, layers) for layers in paths]
        self.outputs = sum(layers[-1][0] for layers in paths)
        self.paths = nn.ModuleList(modules if pooled is None else [*modules, pooled])

    def forward(self, x: Tensor) -> Tensor:
        """(B, inputs, H, W) to (B, outputs and pooled channels, ...)."""
        return torch.cat([branch(x) for branch in self.paths], dim=1)


class Residual(nn.Module):
    """x + scale * (a 1x1 convolution of the branches), then ReLU unless it is the last block."""

    def __init__(
        self, inputs: int, paths: Sequence[Path], *, scale: float, relu: bool = True
    ) -> None:
        super().__init__()
        self.branches = Branches(inputs, paths)
        self.project = nn.Conv2d(self.branches.outputs, inputs, 1)
        self.scale = scale
        self.relu = relu

    def forward(self, x: Tensor) -> Tensor:
        """(B, inputs, H, W) to the same shape."""
        out: Tensor = x + self.scale * self.project(self.branches(x))
        return F.relu(out) if self.relu else out


def _stem(channels: int) -> nn.Sequential:
    return nn.Sequential(
        conv(channels, 32, 3, 2, pad=False),
        conv(32, 32, 3, pad=False),
        conv(32, 64, 3, pad=True),
        nn.MaxPool2d(3, 2),
        conv(64, 80, 1, pad=False),
        conv(80, 192, 3, pad=False),
        nn.MaxPool2d(3, 2),
    )


def _mixed_5b() -> Branches:
    pool = nn.AvgPool2d(3, 1, padding=1, count_include_pad=False)
    return Branches(192, MIXED_5B, nn.Sequential(pool, conv(192, 64, 1, pad=False)))


class InceptionResNetV2(nn.Module):
    """The trunk of Inception-ResNet-v2.

    Attributes:
        features: 1536, the width of what `forward` returns.
    """

    def __init__(self, *, channels: int = 3) -> None:
        super().__init__()
        self.features = 1536
        self.stem = _stem(channels)
        self.body = nn.Sequential(
            _mixed_5b(),
            *(Residual(320, BLOCK_35, scale=0.17) for _ in range(10)),
            Branches(320, MIXED_6A, nn.MaxPool2d(3, 2)),
            *(Residual(1088, BLOCK_17, scale=0.10) for _ in range(20)),
            Branches(1088, MIXED_7A, nn.MaxPool2d(3, 2)),
            *(Residual(2080, BLOCK_8, scale=0.20) for _ in range(9)),
            Residual(2080, BLOCK_8, scale=1.0, relu=False),
            conv(2080, self.features, 1, pad=False),
        )

    def forward(self, x: Tensor) -> Tensor:
        """(B, channels, H, W) to (B, 1536)."""
        maps: Tensor = self.body(self.stem(x))
        return maps.mean((2, 3))
