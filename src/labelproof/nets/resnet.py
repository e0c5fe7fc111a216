"""Residual trunks: PreAct ResNet-18, ResNet-34 and ResNet-50, and the small ones for CIFAR.

PreAct ResNet-18 (He et al., ECCV 2016) is the network of the CIFAR tables, in the form that the
released code of mixup, DivideMix, DPC, ELR+, SOP, PES and UniCon has: a stem of convolution, BN and
ReLU; every shortcut starts from relu(bn1(x)), also where it is the identity; neither BN nor ReLU
after the last block. He et al. start an identity shortcut from x itself; that form is kept apart.
ResNet-34 and ResNet-50 are the post-activation networks of He et al., CVPR 2016. Their small
networks have three stages at widths 16, 32 and 64, and shortcuts without weights. All end in a mean
over positions, so any image size will do.

Shapes: B batch, F features, H and W the image's sides.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, Protocol

import torch.nn.functional as F
from torch import Tensor, nn

Stem = Literal["cifar", "imagenet"]


def conv(inputs: int, outputs: int, kernel: int, stride: int = 1) -> nn.Conv2d:
    """A convolution without bias that keeps the image's size when `stride` is 1."""
    return nn.Conv2d(inputs, outputs, kernel, stride, padding=kernel // 2, bias=False)


class Block(Protocol):
    """What builds a residual block of `width` with `inputs` channels coming in."""

    expansion: int

    def __call__(self, inputs: int, width: int, stride: int) -> nn.Module:
        """A block that gives `expansion * width` channels and divides both sides by `stride`."""


class PreActBlock(nn.Module):
    """BN, ReLU and 3x3 convolution, twice; the shortcut starts after the first ReLU.

    Where width and stride stay, the shortcut is relu(bn1(x)) itself, else a bare 1x1 convolution
    of it.
    """

    expansion = 1

    def __init__(self, inputs: int, width: int, stride: int) -> None:
        super().__init__()
        self.bn1 = nn.BatchNorm2d(inputs)
        self.conv1 = conv(inputs, width, 3, stride)
        self.bn2 = nn.BatchNorm2d(width)
        self.conv2 = conv(width, width, 3)
        changes = stride != 1 or inputs != width
        self.shortcut = conv(inputs, width, 1, stride) if changes else None

    def forward(self, x: Tensor) -> Tensor:
        """(B, inputs, H, W) to (B, width, H / stride, W / stride)."""
        active = F.relu(self.bn1(x))
        kept = self.identity(x, active) if self.shortcut is None else self.shortcut(active)
        out: Tensor = self.conv2(F.relu(self.bn2(self.conv1(active))))
        return out + kept

    def identity(self, x: Tensor, active: Tensor) -> Tensor:
        """What a shortcut without weights passes on."""
        return active


class HePreActBlock(PreActBlock):
    """The same block with the identity of He et al., which passes the raw input on."""

    def identity(self, x: Tensor, active: Tensor) -> Tensor:
        """The block's input."""
        return x


class PaddedShortcut(nn.Module):
    """Every `stride`-th pixel, with channels of zeros on both sides: He et al.'s option A."""

    def __init__(self, inputs: int, outputs: int, stride: int) -> None:
        super().__init__()
        before = (outputs - inputs) // 2
        self.channels = (before, outputs - inputs - before)
        self.stride = stride

    def forward(self, x: Tensor) -> Tensor:
        """(B, inputs, H, W) to (B, outputs, H / stride, W / stride)."""
        return F.pad(x[:, :, :: self.stride, :: self.stride], (0, 0, 0, 0, *self.channels))


class PostActBlock(nn.Module):
    """A residual branch that ends in BN, added to the shortcut, then ReLU."""

    def __init__(self, branch: nn.Sequential, inputs: int, outputs: int, stride: int) -> None:
        super().__init__()
        self.branch = branch
        changes = stride != 1 or inputs != outputs
        self.shortcut = self.projection(inputs, outputs, stride) if changes else nn.Identity()

    def projection(self, inputs: int, outputs: int, stride: int) -> nn.Module:
        """The shortcut where width or size change: a 1x1 convolution and BN."""
        return nn.Sequential(conv(inputs, outputs, 1, stride), nn.BatchNorm2d(outputs))

    def forward(self, x: Tensor) -> Tensor:
        """(B, inputs, H, W) to (B, outputs, H / stride, W / stride)."""
        return F.relu(self.branch(x) + self.shortcut(x))


class BasicBlock(PostActBlock):
    """Two 3x3 convolutions."""

    expansion = 1

    def __init__(self, inputs: int, width: int, stride: int) -> None:
        branch = nn.Sequential(
            conv(inputs, width, 3, stride),
            nn.BatchNorm2d(width),
            nn.ReLU(),
            conv(width, width, 3),
            nn.BatchNorm2d(width),
        )
        super().__init__(branch, inputs, width, stride)


class PaddedBlock(BasicBlock):
    """Two 3x3 convolutions, and shortcuts without weights."""

    def projection(self, inputs: int, outputs: int, stride: int) -> nn.Module:
        """Fewer pixels and channels of zeros."""
        return PaddedShortcut(inputs, outputs, stride)


class Bottleneck(PostActBlock):
    """1x1, 3x3 and 1x1 convolutions; the 3x3 one takes the stride."""

    expansion = 4

    def __init__(self, inputs: int, width: int, stride: int) -> None:
        branch = nn.Sequential(
            conv(inputs, width, 1),
            nn.BatchNorm2d(width),
            nn.ReLU(),
            conv(width, width, 3, stride),
            nn.BatchNorm2d(width),
            nn.ReLU(),
            conv(width, 4 * width, 1),
            nn.BatchNorm2d(4 * width),
        )
        super().__init__(branch, inputs, 4 * width, stride)


class ResNet(nn.Module):
    """A stem, stages of blocks at widths w, 2w, 4w, ..., and the mean over positions.

    Attributes:
        features: F, the width of what `forward` returns.
    """

    def __init__(
        self, block: Block, counts: Sequence[int], *, width: int, channels: int, stem: Stem
    ) -> None:
        super().__init__()
        self.stem = _stem(stem, channels, width)
        blocks: list[nn.Module] = []
        inputs = width
        for stage, count in enumerate(counts):
            for position in range(count):
                stride = 2 if stage > 0 and position == 0 else 1
                blocks.append(block(inputs, width * 2**stage, stride))
                inputs = width * 2**stage * block.expansion
        self.blocks = nn.Sequential(*blocks)
        self.features = inputs

    def forward(self, x: Tensor) -> Tensor:
        """(B, channels, H, W) to (B, F)."""
        maps: Tensor = self.blocks(self.stem(x))
        # Unlike adaptive pooling, a mean has a deterministic backward pass on GPUs.
        return maps.mean((2, 3))


class WideResNet(nn.Module):
    """Wide ResNet (Zagoruyko and Komodakis, 2016): three stages of pre-activated blocks.

    A bare convolution first; BN and ReLU last; identity shortcuts pass the raw input on.

    Attributes:
        features: F = 64 * widen.
    """

    def __init__(self, depth: int, widen: int, *, channels: int = 3) -> None:
        super().__init__()
        blocks: list[nn.Module] = []
        inputs = 16
        for stage, width in enumerate((16 * widen, 32 * widen, 64 * widen)):
            for position in range((depth - 4) // 6):
                stride = 2 if stage > 0 and position == 0 else 1
                blocks.append(HePreActBlock(inputs, width, stride))
                inputs = width
        last = (nn.BatchNorm2d(inputs), nn.ReLU())
        self.layers = nn.Sequential(conv(channels, 16, 3), *blocks, *last)
        self.features = inputs

    def forward(self, x: Tensor) -> Tensor:
        """(B, channels, H, W) to (B, F)."""
        maps: Tensor = self.layers(x)
        return maps.mean((2, 3))


def _stem(kind: Stem, channels: int, width: int) -> nn.Sequential:
    if kind == "cifar":
        return nn.Sequential(conv(channels, width, 3), nn.BatchNorm2d(width), nn.ReLU())
    return nn.Sequential(
        conv(channels, width, 7, 2),
        nn.BatchNorm2d(width),
        nn.ReLU(),
        nn.MaxPool2d(3, 2, padding=1),
    )


def preact_resnet18(*, width: int = 64, channels: int = 3, block: Block = PreActBlock) -> ResNet:
    """PreAct ResNet-18 for small images; F = 8 * width. `HePreActBlock` gives He et al.'s form."""
    return ResNet(block, (2, 2, 2, 2), width=width, channels=channels, stem="cifar")


def small_resnet(depth: int, *, channels: int = 3, block: Block = PaddedBlock) -> ResNet:
    """He et al.'s networks for CIFAR: ResNet-14, 32, 44 or 56 by depth; F = 64.

    `PreActBlock` gives their pre-activated form.
    """
    return ResNet(block, ((depth - 2) // 6,) * 3, width=16, channels=channels, stem="cifar")


def resnet18(*, width: int = 64, channels: int = 3, stem: Stem = "cifar") -> ResNet:
    """ResNet-18, by default in its CIFAR form; F = 8 * width."""
    return ResNet(BasicBlock, (2, 2, 2, 2), width=width, channels=channels, stem=stem)


def resnet34(*, width: int = 64, channels: int = 3, stem: Stem = "cifar") -> ResNet:
    """ResNet-34, by default in its CIFAR form; F = 8 * width."""
    return ResNet(BasicBlock, (3, 4, 6, 3), width=width, channels=channels, stem=stem)


def resnet101(*, width: int = 64, channels: int = 3, stem: Stem = "cifar") -> ResNet:
    """ResNet-101, by default with a stem for small images; F = 32 * width."""
    return ResNet(Bottleneck, (3, 4, 23, 3), width=width, channels=channels, stem=stem)


def resnet50(*, width: int = 64, channels: int = 3, stem: Stem = "imagenet") -> ResNet:
    """ResNet-50; F = 32 * width."""
    return ResNet(Bottleneck, (3, 4, 6, 3), width=width, channels=channels, stem=stem)
