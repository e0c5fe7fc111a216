"""Encoder, network and link in one ONNX file: raw pictures in, calibrated probabilities out."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from labelproof.data.encoders.encoder_protocol import Batch
from labelproof.data.encoders.picture_encoding import PictureEncoding
from labelproof.data.optional_packages import need
from labelproof.errors import RunFailed

CLOSE = 1e-3  # how far the exported file may be from `predict`
FLOAT, HALF = 1, 10  # ONNX's numbers of the types


def with_encoder(network: Any, encoding: PictureEncoding) -> Any:
    """The encoder's graph before the network's, which goes from vectors `x` to `probabilities`."""
    onnx = need("onnx", "export", "the export to ONNX")
    front = _halved(onnx, encoding.encoder().graph(encoding.shape))
    version = max(_opset(front), _opset(network))
    front, network = (_converted(onnx, model, version) for model in (front, network))
    front.ir_version = network.ir_version = max(front.ir_version, network.ir_version)
    network = onnx.compose.add_prefix(network, "net_")
    made = onnx.compose.merge_models(front, network, io_map=[("halved", "net_x")])
    del made.graph.output[:]
    node = onnx.helper.make_node("Identity", ["net_probabilities"], ["probabilities"])
    made.graph.node.append(node)
    sides = ["batch", None]
    value = onnx.helper.make_tensor_value_info("probabilities", onnx.TensorProto.FLOAT, sides)
    made.graph.output.append(value)
    return made


def check_pictures(data: bytes, network: nn.Module, encoding: PictureEncoding) -> None:
    """Compare the file with the encoder and the network it was made of.

    Raises:
        RunFailed: If they differ.
    """
    runtime = need("onnxruntime", "export", "the check of the exported model")
    session = runtime.InferenceSession(data, providers=["CPUExecutionProvider"])
    encoder = encoding.encoder().open()
    for size in (1, 3):
        pictures = example_pictures(size, encoding.shape)
        (there,) = session.run(["probabilities"], {"x": pictures})
        vectors = torch.from_numpy(encoder(pictures)).half().float()
        with torch.no_grad():
            check_close(there, network(vectors), CLOSE)


def check_close(there: Any, here: Tensor, most: float) -> None:
    """Compare probabilities (B, C) of an exported model with those of the original.

    Raises:
        RunFailed: If one differs by more than `most`.
    """
    apart = float((torch.from_numpy(there) - here).abs().max())
    if not apart <= most:
        raise RunFailed(
            f"the exported model differs from the original by {apart:.2g} in a probability, "
            f"more than {most:g}; use --format folder instead."
        )


def example_pictures(size: int, shape: tuple[int, ...]) -> Batch:
    """Pictures drawn at random."""
    drawn = np.random.default_rng(size).integers(0, 256, (size, *shape), dtype=np.uint8)
    return np.asarray(drawn)


def _halved(onnx: Any, model: Any) -> Any:
    """Vectors rounded to half precision, as they were in training."""
    add, value = onnx.helper.make_node, onnx.helper.make_tensor_value_info
    model.graph.node.append(add("Cast", ["vectors"], ["half"], to=HALF))
    model.graph.node.append(add("Cast", ["half"], ["halved"], to=FLOAT))
    del model.graph.output[:]
    model.graph.output.append(value("halved", onnx.TensorProto.FLOAT, ["batch", None]))
    return model


def _opset(model: Any) -> int:
    return max(int(found.version) for found in model.opset_import if found.domain == "")


def _converted(onnx: Any, model: Any, version: int) -> Any:
    if _opset(model) == version:
        return model
    return onnx.version_converter.convert_version(model, version)
