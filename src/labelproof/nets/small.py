"""Small trunks: a convolutional network for small images or few of them, a perceptron for vectors.

Shapes: B batch, D width of a vector, F features, H and W the image's sides.
"""

from __future__ import annotations

from torch import Tensor, nn


def _layer(inputs: int, outputs: int) -> list[nn.Module]:
    convolution = nn.Conv2d(inputs, outputs, 3, padding=1, bias=False)
    return [convolution, nn.BatchNorm2d(outputs), nn.ReLU()]


class SmallCNN(nn.Module):
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
            *_layer(channels, width),
            *_layer(width, width),
            nn.MaxPool2d(2, ceil_mode=True),
            *_layer(width, 2 * width),
            *_layer(2 * width, 2 * width),
            nn.MaxPool2d(2, ceil_mode=True),
            *_layer(2 * width, 4 * width),
            *_layer(4 * width, 4 * width),
        )

    def forward(self, x: Tensor) -> Tensor:
        """(B, channels, H, W) to (B, F)."""
        maps: Tensor = self.layers(x)
        return maps.mean((2, 3))


class MLP(nn.Module):
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

    def forward(self, x: Tensor) -> Tensor:
        """(B, D) to (B, F)."""
        out: Tensor = self.layers(x)
        return out
