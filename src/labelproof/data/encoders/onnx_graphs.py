"""Building ONNX models by hand, and running them.

A handful of node types is all that is needed. Building them takes a fraction of a second, where
PyTorch's exporter takes ten.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch.nn.functional import interpolate

from labelproof.data.encoders.encoder_protocol import Batch, InputRule, Vectors
from labelproof.data.optional_packages import need
from labelproof.errors import BadInput

OPSET = 18
IR_VERSION = 10  # readable by onnxruntime 1.18 and later
PURPOSE = "running encoders on the CPU"


class Graph:
    """Nodes and constants as they are added; every `add` returns the name of its output."""

    def __init__(self) -> None:
        self._onnx = need("onnx", "export", PURPOSE)
        self._nodes: list[Any] = []
        self._constants: list[Any] = []

    def constant(self, values: npt.ArrayLike) -> str:
        """A constant."""
        name = f"c{len(self._constants)}"
        self._constants.append(self._onnx.numpy_helper.from_array(np.asarray(values), name))
        return name

    def add(self, kind: str, *inputs: str, **attributes: Any) -> str:
        """A node of one output."""
        name = f"n{len(self._nodes)}"
        node = self._onnx.helper.make_node(kind, list(inputs), [name], name=name, **attributes)
        self._nodes.append(node)
        return name

    def model(
        self, shape: Sequence[int], output: str, sides: Sequence[int], name: str = "vectors"
    ) -> Any:
        """A model from uint8 pictures `x` (B, *shape) to float32 `name` (B, *sides)."""
        helper, kinds = self._onnx.helper, self._onnx.TensorProto
        self._nodes.append(helper.make_node("Identity", [output], [name]))
        graph = helper.make_graph(
            self._nodes,
            "encoder",
            [helper.make_tensor_value_info("x", kinds.UINT8, ["batch", *shape])],
            [helper.make_tensor_value_info(name, kinds.FLOAT, ["batch", *sides])],
            self._constants,
        )
        opset = [helper.make_opsetid("", OPSET)]
        return helper.make_model(graph, opset_imports=opset, ir_version=IR_VERSION)


def add_pixels(graph: Graph, rule: InputRule, shape: Sequence[int]) -> str:
    """From uint8 `x` (B, H, W, 3) to normalised (B, 3, S, S): the centred square, resampled."""
    edge = min(shape[0], shape[1])
    pixels = "x"
    if shape[0] != shape[1]:
        starts = np.array([(side - edge) // 2 for side in shape[:2]], np.int64)
        parts = (starts, starts + edge, np.array([1, 2], np.int64))
        pixels = graph.add("Slice", pixels, *map(graph.constant, parts))
    pixels = graph.add("Transpose", pixels, perm=[0, 3, 1, 2])
    pixels = graph.add("Cast", pixels, to=1)  # float32
    if edge != rule.size:
        pixels = _resampled(graph, pixels, edge, rule.size)
    mean = graph.constant(np.array(rule.mean, np.float32)[:, None, None])
    std = graph.constant(np.array(rule.std, np.float32)[:, None, None])
    return graph.add("Div", graph.add("Sub", pixels, mean), std)


def _resampled(graph: Graph, pixels: str, edge: int, size: int) -> str:
    """Bilinear, as PyTorch does it; runtimes average in ways of their own while shrinking."""
    if size > edge:
        sizes = graph.constant(np.array([size, size], np.int64))
        return graph.add(
            "Resize", pixels, "", "", sizes, mode="linear", axes=[2, 3],
            coordinate_transformation_mode="half_pixel",
        )  # fmt: skip
    weights = interpolate(
        torch.eye(edge)[None, None], (size, edge), mode="bilinear", antialias=True
    )[0, 0]
    down, across = graph.constant(weights.numpy()), graph.constant(weights.T.contiguous().numpy())
    return graph.add("MatMul", graph.add("MatMul", down, pixels), across)


def session(model: bytes | str, what: str) -> Any:
    """A session of onnxruntime on the CPU, with as many threads as PyTorch uses."""
    runtime = need("onnxruntime", "export", PURPOSE)
    options = runtime.SessionOptions()
    options.intra_op_num_threads = torch.get_num_threads()
    options.log_severity_level = 4  # what matters is raised
    # threads that wait should sleep: spinning ones slow a busy machine down many times
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    try:
        return runtime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
    except Exception as error:  # onnxruntime has no common class of errors
        first = " ".join(str(error).split())[:200]
        raise BadInput(
            f"expected an ONNX model that onnxruntime can open, but {what} cannot be opened "
            f"({first}); export it again"
        ) from None


class OnnxRun:
    """Runs an encoder's graph; a graph is built for each size of pictures that comes."""

    def __init__(self, build: Any, what: str) -> None:
        self._build = build  # from the shape of one picture to a model
        self._what = what
        self._sessions: dict[tuple[int, ...], Any] = {}

    def __call__(self, batch: Batch) -> Vectors:
        """uint8 (B, H, W, 3) to float32 (B, D)."""
        shape = batch.shape[1:]
        if shape not in self._sessions:
            self._sessions[shape] = session(self._build(shape).SerializeToString(), self._what)
        (vectors,) = self._sessions[shape].run(["vectors"], {"x": np.ascontiguousarray(batch)})
        return np.asarray(vectors, dtype=np.float32)


def joined(onnx: Any, front: Any, body: Any, prefix: str, link: tuple[str, str]) -> Any:
    """Two models as one, without outputs yet; `link` is what of the front the body takes in.

    Names of the body get the prefix.
    """
    version = max(_opset(front), _opset(body))
    front, body = (_converted(onnx, model, version) for model in (front, body))
    front.ir_version = body.ir_version = max(front.ir_version, body.ir_version)
    body = onnx.compose.add_prefix(body, prefix)
    made = onnx.compose.merge_models(front, body, io_map=[(link[0], f"{prefix}{link[1]}")])
    del made.graph.output[:]
    return made


def _opset(model: Any) -> int:
    return max(int(found.version) for found in model.opset_import if found.domain == "")


def _converted(onnx: Any, model: Any, version: int) -> Any:
    if _opset(model) == version:
        return model
    return onnx.version_converter.convert_version(model, version)
