"""Encoders that are a network of PyTorch with its input rule, and one ONNX model of both."""

from __future__ import annotations

import io
import logging
import warnings
from abc import ABC, abstractmethod
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import interpolate

from labelproof.data.encoders.encoder_protocol import Batch, InputRule, OpenEncoder, Vectors
from labelproof.data.encoders.onnx_graphs import OPSET
from labelproof.data.optional_packages import need


class Pixels(nn.Module):
    """From uint8 (B, H, W, 3) to normalised (B, 3, S, S): the centred square, resampled."""

    mean: Tensor
    std: Tensor

    def __init__(self, rule: InputRule) -> None:
        super().__init__()
        self.size = rule.size
        self.register_buffer("mean", torch.tensor(rule.mean)[:, None, None])
        self.register_buffer("std", torch.tensor(rule.std)[:, None, None])

    def forward(self, x: Tensor) -> Tensor:
        """The input of the network."""
        height, width = x.shape[1], x.shape[2]
        edge = min(height, width)
        top, left = (height - edge) // 2, (width - edge) // 2
        pixels = x[:, top : top + edge, left : left + edge].permute(0, 3, 1, 2).float()
        if edge != self.size:
            size = (self.size, self.size)
            pixels = interpolate(pixels, size, mode="bilinear", antialias=self.size < edge)
        return (pixels - self.mean) / self.std


class TorchRun:
    """A network behind its input rule, on the best device there is."""

    def __init__(self, network: nn.Module, rule: InputRule) -> None:
        self._device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
        self._whole = nn.Sequential(Pixels(rule), network).eval().to(self._device)

    def __call__(self, batch: Batch) -> Vectors:
        """uint8 (B, H, W, 3) to float32 (B, D)."""
        with torch.inference_mode():
            vectors: Tensor = self._whole(torch.from_numpy(batch).to(self._device))
        return vectors.float().cpu().numpy()


@dataclass(frozen=True, kw_only=True)
class NetworkEncoder(ABC):
    """An encoder of pictures that is a network of PyTorch; `module` makes it."""

    name: str
    digest: str
    rule: InputRule
    licence: str = "not stated"

    @abstractmethod
    def module(self) -> nn.Module:
        """The network, from normalised pictures to features."""

    def open(self) -> OpenEncoder:
        """The network, ready to run."""
        return TorchRun(self.module(), self.rule)

    def graph(self, shape: Sequence[int]) -> Any:
        """An ONNX model from uint8 pictures (B, *shape) to vectors (B, D)."""
        return module_graph(self.module(), self.rule, shape)


def module_graph(network: nn.Module, rule: InputRule, shape: Sequence[int]) -> Any:
    """An ONNX model from uint8 pictures `x` (B, *shape) to float32 `vectors` (B, D)."""
    onnx = need("onnx", "export", "the export to ONNX")
    need("onnxscript", "export", "the export to ONNX")
    whole = nn.Sequential(Pixels(rule), network).cpu().eval()
    example = torch.zeros((2, *shape), dtype=torch.uint8)
    return onnx.load_from_string(graph_bytes(whole, {"x": example}, "vectors"))


def graph_bytes(
    whole: nn.Module, inputs: Mapping[str, Tensor], output: str, free: Collection[str] = ()
) -> bytes:
    """A module as an ONNX model, from examples of its inputs by name.

    Their first axis can have any size; of `free` inputs the second, the length of texts, too.
    """
    batch, length = torch.export.Dim("batch"), torch.export.Dim("length")
    shapes = tuple({0: batch, 1: length} if name in free else {0: batch} for name in inputs)
    logging.getLogger("torch.onnx").setLevel(logging.ERROR)
    buffer = io.BytesIO()
    with warnings.catch_warnings(), torch.no_grad():
        warnings.simplefilter("ignore")
        program: Any = torch.onnx.export(
            whole,
            tuple(inputs.values()),
            input_names=list(inputs),
            output_names=[output],
            dynamic_shapes=shapes,
            opset_version=OPSET,
            dynamo=True,
            verbose=False,
        )
        program.save(buffer)
    return buffer.getvalue()
