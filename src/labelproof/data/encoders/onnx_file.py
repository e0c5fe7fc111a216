"""Any ONNX file as an encoder: one picture input and one output of features, found and checked.

An input of bytes gets pixel values as they are. A float input gets pixels normalised with
ImageNet's mean and deviation, unless the file's metadata say otherwise: `mean` and `std`, as three
numbers from 0 to 1 separated by commas, and `size`.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from labelproof.data.encoders.encoder_protocol import (
    Batch,
    InputRule,
    OpenEncoder,
    Vectors,
    rule_of_shares,
)
from labelproof.data.encoders.module_graph import Pixels
from labelproof.data.encoders.onnx_graphs import PURPOSE, Graph, add_pixels, joined, session
from labelproof.data.optional_packages import need
from labelproof.errors import BadInput
from labelproof.files import file_hash

IMAGENET_MEAN, IMAGENET_STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
SIZE = 224  # where the file leaves the sides open
FLOATS, BYTES = "tensor(float)", "tensor(uint8)"
LARGEST = 4096


@dataclass(frozen=True, kw_only=True)
class OnnxFile:
    """An ONNX file whose input and output have been found."""

    name: str  # its path
    digest: str
    rule: InputRule
    input: str
    output: str
    kind: str  # of the input: float or uint8
    last: bool  # whether colours come last in the input
    rank: int  # of the output: (B, D), (B, T, D) or (B, D, h, w)
    licence: str = "not stated"

    def open(self) -> OpenEncoder:
        """The file, ready to run."""
        return _FileRun(self)

    def graph(self, shape: Sequence[int]) -> Any:
        """An ONNX model from uint8 pictures (B, *shape) to vectors (B, D)."""
        onnx = need("onnx", "export", "exporting an ONNX file")
        front = Graph()
        pixels = add_pixels(front, self.rule, shape)
        sides = [3, self.rule.size, self.rule.size]
        if self.last:
            pixels = front.add("Transpose", pixels, perm=[0, 2, 3, 1])
            sides = [self.rule.size, self.rule.size, 3]
        try:
            body = onnx.load(self.name)
            return _joined(onnx, front.model(shape, pixels, sides, "pixels"), body, self)
        except Exception as error:  # the tools of onnx raise whatever their parts do
            first = " ".join(str(error).split())[:160]
            raise BadInput(
                f"expected to put {self.name} into one file with the network, but that failed "
                f"({first}); use --format folder"
            ) from None


class _FileRun:
    """Pixels prepared in PyTorch, then the file as it is."""

    def __init__(self, file: OnnxFile) -> None:
        self._file = file
        self._pixels = Pixels(file.rule)
        self._session = session(file.name, file.name)
        self._single = self._session.get_inputs()[0].shape[0] == 1

    def __call__(self, batch: Batch) -> Vectors:
        """uint8 (B, H, W, 3) to float32 (B, D)."""
        pixels = self._pixels(torch.from_numpy(batch))
        pixels = pixels.permute(0, 2, 3, 1) if self._file.last else pixels
        pixels = pixels.round().to(torch.uint8) if self._file.kind == BYTES else pixels
        ready = pixels.contiguous().numpy()
        parts = np.split(ready, len(ready)) if self._single else [ready]
        return np.concatenate([self._run(part) for part in parts])

    def _run(self, ready: npt.NDArray[Any]) -> Vectors:
        (found,) = self._session.run([self._file.output], {self._file.input: ready})
        axes = {2: (), 3: (1,), 4: (2, 3)}[self._file.rank]
        return np.asarray(found.mean(axes) if axes else found, dtype=np.float32)


def onnx_file(path: Path) -> OnnxFile:
    """Look into an ONNX file."""
    if not path.is_file():
        raise BadInput(f"expected an ONNX file at {path}, but there is none; check the path")
    beside = _files_beside(path)
    opened = session(str(path), str(path))
    input_ = _one_input(opened, path)
    output = _one_output(opened, path)
    last = input_.shape[1] != 3
    sides = input_.shape[1:3] if last else input_.shape[2:4]
    about = opened.get_modelmeta().custom_metadata_map
    return OnnxFile(
        name=str(path.absolute()),
        digest=_digest([path, *beside]),
        rule=_rule(input_.type, sides, about, path),
        input=input_.name,
        output=output.name,
        kind=input_.type,
        last=last,
        rank=len(output.shape),
    )


def _files_beside(path: Path) -> list[Path]:
    """The files beside an ONNX file that hold weights of it."""
    onnx = need("onnx", "export", PURPOSE)
    try:
        model = onnx.load(str(path), load_external_data=False)
    except Exception:  # what is wrong with it, onnxruntime says better
        return []
    tensors = [t for t in model.graph.initializer if t.data_location == onnx.TensorProto.EXTERNAL]
    told = {entry.value for t in tensors for entry in t.external_data if entry.key == "location"}
    files = [path.parent / name for name in sorted(told)]
    missing = [file.name for file in files if not file.is_file()]
    if missing:
        raise BadInput(
            f"expected the weights of {path.name} in {', '.join(missing)} beside it, but "
            f"{'they are' if len(missing) > 1 else 'it is'} not there; copy all files of the "
            "model, or export it into one file"
        )
    return files


def _digest(files: Sequence[Path]) -> str:
    """The digest of a file, or of several together."""
    parts = [file_hash(file) for file in files]
    return parts[0] if len(parts) == 1 else hashlib.sha256("".join(parts).encode()).hexdigest()


def _one_input(opened: Any, path: Path) -> Any:
    inputs = opened.get_inputs()
    if len(inputs) != 1:
        names = ", ".join(found.name for found in inputs)
        raise BadInput(
            f"expected one input in {path.name}, but it has {len(inputs)} ({names}); export a "
            "model that takes only pictures"
        )
    (found,) = inputs
    shape = found.shape
    pictures = len(shape) == 4 and 3 in (shape[1], shape[3]) and not isinstance(shape, str)
    if not pictures or found.type not in (FLOATS, BYTES):
        raise BadInput(
            f"expected pictures as the input of {path.name}, float32 or uint8 of shape "
            f"(batch, 3, height, width), but {found.name!r} is {found.type} of shape {shape}; "
            "export a model of pictures"
        )
    if isinstance(shape[0], int) and shape[0] != 1:
        raise BadInput(
            f"expected a batch of any size as the input of {path.name}, but it is fixed at "
            f"{shape[0]}; export it with a variable batch size"
        )
    return found


def _one_output(opened: Any, path: Path) -> Any:
    outputs = opened.get_outputs()
    fitting = [found for found in outputs if found.type == FLOATS and len(found.shape) == 2]
    if len(fitting) != 1:
        ranks = (3, 4)
        fitting = [o for o in outputs if o.type == FLOATS and len(o.shape) in ranks]
    if len(fitting) == 1 or (fitting and len(outputs) == 1):
        return fitting[0]
    listed = ", ".join(f"{found.name} {found.shape}" for found in outputs)
    raise BadInput(
        f"expected one output of features in {path.name}, of shape (batch, features), but it has "
        f"{listed}; export a model with only that output"
    )


def _rule(kind: str, sides: Sequence[Any], about: dict[str, str], path: Path) -> InputRule:
    fixed = [side for side in sides if isinstance(side, int)]
    try:
        size = fixed[0] if fixed else int(about.get("size", SIZE))
        mean = _colours(about.get("mean"), IMAGENET_MEAN)
        std = _colours(about.get("std"), IMAGENET_STD)
    except ValueError:
        raise BadInput(
            f"expected numbers as size, mean and std in the metadata of {path.name}, but they are "
            "not numbers; correct or remove them"
        ) from None
    if len(set(fixed)) > 1 or not 1 <= size <= LARGEST or min(std) <= 0:
        raise BadInput(
            f"expected square pictures of 1 to {LARGEST} pixels as the input of {path.name}, but "
            f"it wants {tuple(sides)}; export it for square pictures"
        )
    if kind == BYTES:
        return InputRule(size=size, mean=(0.0, 0.0, 0.0), std=(1.0, 1.0, 1.0))
    return rule_of_shares(size, mean, std)


def _colours(text: str | None, usual: tuple[float, ...]) -> tuple[float, ...]:
    numbers = tuple(float(part) for part in text.strip("()[] ").split(",")) if text else usual
    if len(numbers) != 3:
        raise ValueError(text)
    return numbers


def _joined(onnx: Any, front: Any, body: Any, file: OnnxFile) -> Any:
    """The front, the file's own graph, and a mean over places where its output has them."""
    made = joined(onnx, front, body, "file_", ("pixels", file.input))
    kind = {2: "Identity"}.get(file.rank, "ReduceMean")
    inputs = [f"file_{file.output}"]
    if file.rank > 2:
        axes = np.array([1] if file.rank == 3 else [2, 3], np.int64)
        made.graph.initializer.append(onnx.numpy_helper.from_array(axes, "pooled_axes"))
        inputs.append("pooled_axes")
    rest = {"keepdims": 0} if file.rank > 2 else {}
    made.graph.node.append(onnx.helper.make_node(kind, inputs, ["vectors"], **rest))
    value = onnx.helper.make_tensor_value_info("vectors", onnx.TensorProto.FLOAT, ["batch", None])
    made.graph.output.append(value)
    return made
