"""Pretrained networks of timm, trained further from end to end: `--net timm:NAME`.

The trunk brings its own input size; its normalisation goes into the views of the data. Early layers
learn more slowly than late ones: the rate falls geometrically from the head, which has the method's
rate, to a tenth of it at the first layer.

Shapes: B batch, F features, S the edge that the network was trained with.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from torch import Tensor, nn
from torch.nn.functional import interpolate

from labelproof.data.encoders.timm_model import TIMM, timm_network, timm_rule
from labelproof.errors import BadInput

LOWEST = 0.1  # learning rate of the first layer, as a share of the head's
STEPS = 8  # groups of layers with a rate of their own, at the most
Colours = tuple[Sequence[float], Sequence[float]]  # mean and deviation of pixels in [0, 1]


class Pretrained(nn.Module):
    """A network of timm without its classifier, behind its own input size."""

    def __init__(self, network: nn.Module, size: int) -> None:
        super().__init__()
        self.network = network
        self.size = size

    def forward(self, x: Tensor) -> Tensor:
        """Normalised pictures (B, 3, h, w) of any size to features (B, F)."""
        if x.shape[-2:] != (self.size, self.size):
            x = interpolate(x, (self.size, self.size), mode="bilinear")
        features: Tensor = self.network(x)
        return features.flatten(1)


def is_timm(net: object) -> bool:
    """Whether a network is asked for by the name of one of timm's."""
    return isinstance(net, str) and net.startswith(TIMM)


def pretrained(net: str, shape: Sequence[int], weights: bool = True) -> Pretrained:
    """The trunk `timm:NAME`; without `weights` where a saved model brings its own.

    Raises:
        BadInput: If timm, the network or its weights are not there, or the data are no pictures.
    """
    if len(shape) != 3:
        raise BadInput(
            f"The net '{net}' takes pictures, but the data holds vectors of {shape[0]} numbers; "
            "leave out --net, or give pictures."
        )
    network = timm_network(net.removeprefix(TIMM), pretrained=weights)
    return Pretrained(network.train(), timm_rule(network).size)


def colours(net: str) -> Colours:
    """Mean and deviation of pixels in [0, 1] that a network of timm was trained with."""
    rule = timm_rule(timm_network(net.removeprefix(TIMM), pretrained=False))
    return [value / 255 for value in rule.mean], [value / 255 for value in rule.std]


def layer_groups(trunk: Pretrained, others: Sequence[nn.Parameter]) -> list[dict[str, Any]]:
    """Groups for an optimiser, each with the `scale` of its rate; `others` come first, at 1."""
    layers = [list(layer.parameters(recurse=False)) for layer in trunk.modules()]
    layers = [weights for weights in layers if weights]
    groups: dict[float, list[nn.Parameter]] = {}
    for place, weights in enumerate(layers):
        step = place * STEPS // len(layers)  # 0 at the first layer
        groups.setdefault(LOWEST ** (1 - step / STEPS), []).extend(weights)
    late_first = sorted(groups.items(), reverse=True)
    return [
        {"params": list(others), "scale": 1.0},
        *({"params": weights, "scale": scale} for scale, weights in late_first),
    ]
