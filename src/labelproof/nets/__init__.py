"""Networks by name. A trunk is any module that maps network input to features (B, F)."""

from __future__ import annotations

from collections.abc import Callable

from torch import nn

from labelproof.errors import BadInput
from labelproof.messages import did_you_mean
from labelproof.nets import heads
from labelproof.nets.heads import MultiHead, feature_width
from labelproof.nets.inception_resnet_v2 import SMALLEST, InceptionResNetV2
from labelproof.nets.plain import MLP, Compact, EightLayers, LeNet, NineLayers, SixLayers, SmallCNN
from labelproof.nets.resnet import (
    HePreActBlock,
    PreActBlock,
    ResNet,
    Stem,
    WideResNet,
    preact_resnet18,
    resnet18,
    resnet34,
    resnet50,
    resnet101,
    small_resnet,
)

__all__ = [
    "MLP",
    "NETS",
    "Compact",
    "InceptionResNetV2",
    "MultiHead",
    "ResNet",
    "SmallCNN",
    "build_trunk",
    "choose_net",
    "feature_width",
    "heads",
    "preact_resnet18",
    "resnet34",
    "resnet50",
    "small_resnet",
]

Shape = tuple[int, ...]  # of one network input: (channels, H, W) or (D,)

TINY = 16  # pixels up to which half the width of the small network is plenty
SMALL = 64  # pixels up to which an image network starts without reducing its input


def _resnet50(shape: Shape) -> nn.Module:
    stem: Stem = "cifar" if max(shape[1:]) <= SMALL else "imagenet"
    return resnet50(channels=shape[0], stem=stem)


def _from(pixels: int, name: str, make: Callable[[Shape], nn.Module]) -> Callable[..., nn.Module]:
    """`make` for images of so many pixels a side at least."""

    def checked(shape: Shape) -> nn.Module:
        if min(shape[1:]) < pixels:
            raise BadInput(
                f"The net '{name}' needs images of at least {pixels} pixels per side, but these "
                f"are {shape[1]}x{shape[2]}; choose another net, such as 'preact18'."
            )
        return make(shape)

    return checked


NETS: dict[str, Callable[[Shape], nn.Module]] = {
    "preact18": lambda shape: preact_resnet18(channels=shape[0]),
    "preact18_he": lambda shape: preact_resnet18(channels=shape[0], block=HePreActBlock),
    "preact18_narrow": lambda shape: preact_resnet18(channels=shape[0], width=16),
    "preact32": lambda shape: small_resnet(32, channels=shape[0], block=PreActBlock),
    "resnet14": lambda shape: small_resnet(14, channels=shape[0]),
    "resnet32": lambda shape: small_resnet(32, channels=shape[0]),
    "resnet44": lambda shape: small_resnet(44, channels=shape[0]),
    "resnet56": lambda shape: small_resnet(56, channels=shape[0]),
    "resnet18": lambda shape: resnet18(channels=shape[0]),
    "resnet34": lambda shape: resnet34(channels=shape[0]),
    "resnet50": _resnet50,
    "resnet101": lambda shape: resnet101(channels=shape[0]),
    "wrn28_10": lambda shape: WideResNet(28, 10, channels=shape[0]),
    "inception_resnet_v2": _from(
        SMALLEST, "inception_resnet_v2", lambda shape: InceptionResNetV2(channels=shape[0])
    ),
    "compact": lambda shape: Compact(channels=shape[0]),
    "cnn9": _from(28, "cnn9", lambda shape: NineLayers(channels=shape[0])),
    "cnn8": _from(8, "cnn8", EightLayers),
    "cnn6": _from(8, "cnn6", SixLayers),
    "lenet": _from(16, "lenet", LeNet),
    "cnn": lambda shape: SmallCNN(channels=shape[0], width=16 if max(shape[1:]) <= TINY else 32),
    "mlp": lambda shape: MLP(shape[0]),
}
VECTOR_NETS = frozenset({"mlp"})


def build_trunk(name: str, shape: Shape, size: int) -> nn.Module:
    """A new trunk for inputs of `shape`, with PyTorch's default initial weights.

    Args:
        name: A key of `NETS`, or "auto" to choose by the data.
        shape: Shape of one network input: (channels, H, W) for images, (D,) for vectors.
        size: Number of training examples.

    Raises:
        BadInput: There is no such network, or it does not take this kind of data.
    """
    chosen = choose_net(shape, size) if name == "auto" else name
    if chosen not in NETS:
        raise BadInput(_unknown(name))
    if (chosen in VECTOR_NETS) != (len(shape) == 1):
        raise BadInput(_misfit(name, shape))
    return NETS[chosen](shape)


def choose_net(shape: Shape, size: int) -> str:
    """The name that "auto" stands for: small networks for small images or few of them."""
    if len(shape) == 1:
        return "mlp"
    pixels = max(shape[1:])
    if pixels <= 16 or (pixels <= 32 and size < 5000):
        return "cnn"
    return "preact18" if pixels <= SMALL else "resnet50"


def _unknown(name: str) -> str:
    hint = did_you_mean(name, [*NETS, "auto"])
    return f"There is no net '{name}'; {hint}Choose one of: auto, {', '.join(NETS)}."


def _misfit(name: str, shape: Shape) -> str:
    vectors = len(shape) == 1
    data = f"vectors of {shape[0]} numbers" if vectors else f"images of shape {shape}"
    fitting = [net for net in NETS if (net in VECTOR_NETS) == vectors]
    return f"The net '{name}' does not take {data}; choose one of: auto, {', '.join(fitting)}."
