"""A network of PyTorch with its input rule as one ONNX model, by PyTorch's exporter."""

from __future__ import annotations

import io
import logging
import warnings
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn

from labelproof.data.encoders.encoder_protocol import InputRule
from labelproof.data.encoders.onnx_graphs import OPSET
from labelproof.data.encoders.torch_run import Pixels
from labelproof.data.optional_packages import need


def module_graph(network: nn.Module, rule: InputRule, shape: Sequence[int]) -> Any:
    """An ONNX model from uint8 pictures `x` (B, *shape) to float32 `vectors` (B, D)."""
    onnx = need("onnx", "export", "the export to ONNX")
    need("onnxscript", "export", "the export to ONNX")
    whole = nn.Sequential(Pixels(rule), network).cpu().eval()
    example = torch.zeros((2, *shape), dtype=torch.uint8)
    return onnx.load_from_string(graph_bytes(whole, example, "vectors"))


def graph_bytes(whole: nn.Module, example: Tensor, output: str) -> bytes:
    """The module from `x` to `output` as an ONNX model with a batch of any size."""
    logging.getLogger("torch.onnx").setLevel(logging.ERROR)
    buffer = io.BytesIO()
    with warnings.catch_warnings(), torch.no_grad():
        warnings.simplefilter("ignore")
        program: Any = torch.onnx.export(
            whole,
            (example,),
            input_names=["x"],
            output_names=[output],
            dynamic_shapes=({0: torch.export.Dim("batch")},),
            opset_version=OPSET,
            dynamo=True,
            verbose=False,
        )
        program.save(buffer)
    return buffer.getvalue()
