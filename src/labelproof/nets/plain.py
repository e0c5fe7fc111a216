"""Trunks without shortcuts: a compact modern one, those of Co-teaching(+), small ones for CPUs.

Shapes: B batch, F features, H and W the image's sides.
"""

from __future__ import annotations

from collections.abc import Sequence

from torch import Tensor, nn

Shape = tuple[int, ...]  # of one network input: (channels, H, W)


class Stack(nn.Module):
    """Layers one after the other.

    Attributes:
        features: F, the width of the last layer.
    """

    features: int
    layers: nn.Sequential

    def forward(self, x: Tensor) -> Tensor:
        """(B, channels, H, W) or (B, D) to (B, F)."""
        out: Tensor = self.layers(x)
        return out


class MeanOfMaps(Stack):
    """Convolutions one after the other, and the mean over positions."""

    def forward(self, x: Tensor) -> Tensor:
        """(B, channels, H, W) to (B, F)."""
        return super().forward(x).mean((2, 3))


class Compact(MeanOfMaps):
    """Half a million weights that train 450 images a second on one core.

    A 2x2 convolution, then three blocks of two 3x3 convolutions, each block behind its own
    max-pooling; batch norm and GELU after every convolution; the mean over positions. The form
    follows fast CIFAR networks (K. Jordan, 94% on CIFAR-10 in 3.29 seconds, 2024).

    Attributes:
        features: F, the width of the last block.
    """

    def __init__(self, *, channels: int = 3, widths: Sequence[int] = (32, 128, 128)) -> None:
        super().__init__()
        stem = 24
        layers: list[nn.Module] = [nn.Conv2d(channels, stem, 2), nn.GELU()]
        inputs = stem
        for width in widths:
            layers += _normed(inputs, width)[:1]
            layers += [nn.MaxPool2d(2, ceil_mode=True), nn.BatchNorm2d(width), nn.GELU()]
            layers += _normed(width, width)
            inputs = width
        self.layers = nn.Sequential(*layers)
        self.features = inputs


class NineLayers(MeanOfMaps):
    """Co-teaching's network: three 3x3 convolutions at 128, three at 256, then 512, 256 and 128.

    The last three are not padded, so images need 28 pixels. Max-pooling and dropout of whole
    channels follow the third and the sixth. The released code drops channels when it predicts,
    too; here a network in eval mode drops none.

    Attributes:
        features: F = 128.
    """

    def __init__(self, *, channels: int = 3, dropout: float = 0.25) -> None:
        super().__init__()
        self.features = 128
        layers: list[nn.Module] = []
        inputs = channels
        for number, width in enumerate((128, 128, 128, 256, 256, 256, 512, 256, 128)):
            padding = 1 if number < 6 else 0
            layers += [nn.Conv2d(inputs, width, 3, padding=padding), nn.BatchNorm2d(width)]
            layers += [nn.LeakyReLU(0.01)]
            if number in (2, 5):
                layers += [nn.MaxPool2d(2), nn.Dropout2d(dropout)]
            inputs = width
        self.layers = nn.Sequential(*layers)


class SixLayers(Stack):
    """Co-teaching+'s network for CIFAR-100: 3x3 convolutions at 64, 64, 128, 128, 196 and 16.

    Max-pooling follows every second one; the last maps are the features as they are.

    Attributes:
        features: F = 16 (H // 8) (W // 8), 256 for CIFAR.
    """

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        layers = _pooled_pairs(shape[0], (64, 64, 128, 128, 196, 16))
        self.layers = nn.Sequential(*layers, nn.Flatten())
        self.features = 16 * (shape[1] // 8) * (shape[2] // 8)


class EightLayers(Stack):
    """D2L's network for CIFAR-10: 3x3 convolutions at 64, 64, 128, 128, 196, 196, then 256 units.

    Max-pooling follows every second convolution; BN and ReLU follow all layers.

    Attributes:
        features: F = 256.
    """

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.features = 256
        layers = _pooled_pairs(shape[0], (64, 64, 128, 128, 196, 196))
        flat = 196 * (shape[1] // 8) * (shape[2] // 8)
        last = (nn.Linear(flat, self.features), nn.BatchNorm1d(self.features), nn.ReLU())
        self.layers = nn.Sequential(*layers, nn.Flatten(), *last)


class LeNet(Stack):
    """Co-teaching+'s network for CIFAR-10: two 5x5 convolutions, then 120 and 84 units.

    Attributes:
        features: F = 84.
    """

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.features = 84
        rest = [((side - 4) // 2 - 4) // 2 for side in shape[1:]]
        self.layers = nn.Sequential(
            *(nn.Conv2d(shape[0], 6, 5), nn.ReLU(), nn.MaxPool2d(2)),
            *(nn.Conv2d(6, 16, 5), nn.ReLU(), nn.MaxPool2d(2)),
            *(nn.Flatten(), nn.Linear(16 * rest[0] * rest[1], 120), nn.ReLU()),
            *(nn.Linear(120, self.features), nn.ReLU()),
        )


def _pooled_pairs(inputs: int, widths: Sequence[int]) -> list[nn.Module]:
    """3x3 convolutions with batch norm and ReLU; max-pooling follows every second one."""
    layers: list[nn.Module] = []
    for number, width in enumerate(widths):
        layers += [nn.Conv2d(inputs, width, 3, padding=1), nn.BatchNorm2d(width), nn.ReLU()]
        layers += [nn.MaxPool2d(2)] if number % 2 else []
        inputs = width
    return layers


def _normed(inputs: int, outputs: int, activation: type[nn.Module] = nn.GELU) -> list[nn.Module]:
    """A 3x3 convolution without bias, batch norm and an activation."""
    convolution = nn.Conv2d(inputs, outputs, 3, padding=1, bias=False)
    return [convolution, nn.BatchNorm2d(outputs), activation()]


class SmallCNN(MeanOfMaps):
    """Six 3x3 convolutions at widths w, w, 2w, 2w, 4w, 4w, halving the image twice; then the mean.

    Made for images of 8 to 64 pixels.

    Attributes:
        features: F = 4 * width.
    """

    def __init__(self, *, width: int = 32, channels: int = 3) -> None:
        super().__init__()
        self.features = 4 * width
        # Rounding up lets images of one or two pixels through as well.
        self.layers = nn.Sequential(
            *_normed(channels, width, nn.ReLU),
            *_normed(width, width, nn.ReLU),
            nn.MaxPool2d(2, ceil_mode=True),
            *_normed(width, 2 * width, nn.ReLU),
            *_normed(2 * width, 2 * width, nn.ReLU),
            nn.MaxPool2d(2, ceil_mode=True),
            *_normed(2 * width, 4 * width, nn.ReLU),
            *_normed(4 * width, 4 * width, nn.ReLU),
        )


class MLP(Stack):
    """`depth` layers of Linear and ReLU, with BN between and dropout after them where asked for.

    Attributes:
        features: F = hidden.
    """

    def __init__(
        self,
        in_features: int,
        *,
        hidden: int = 512,
        depth: int = 1,
        dropout: float = 0.0,
        batch_norm: bool = False,
    ) -> None:
        super().__init__()
        self.features = hidden
        modules: list[nn.Module] = []
        for inputs in (in_features, *[hidden] * (depth - 1)):
            modules.append(nn.Linear(inputs, hidden))
            if batch_norm:
                modules.append(nn.BatchNorm1d(hidden))
            modules.append(nn.ReLU())
            if dropout > 0:
                modules.append(nn.Dropout(dropout))
        self.layers = nn.Sequential(*modules)
