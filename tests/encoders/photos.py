"""Small photo-like pictures in class folders, and an ONNX encoder that costs nothing."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper
from PIL import Image

COLOURS = {"red": (200, 40, 40), "green": (40, 200, 40), "blue": (40, 40, 200)}


def folder(root: Path, each: int = 8, edge: int = 40) -> Path:
    """`each` noisy pictures of a colour in a folder of its name."""
    rng = np.random.default_rng(0)
    for name, colour in COLOURS.items():
        (root / name).mkdir(parents=True, exist_ok=True)
        for number in range(each):
            noise = rng.integers(-40, 40, (edge, edge, 3))
            pixels = np.clip(np.array(colour) + noise, 0, 255).astype(np.uint8)
            Image.fromarray(pixels).save(root / name / f"{number}.png")
    return root


def encoder_file(
    path: Path, *, inputs: int = 1, sides: tuple[object, object] = (8, 8), rank: int = 2
) -> Path:
    """An ONNX file that takes the mean of each colour."""
    value = helper.make_tensor_value_info
    names = [f"pixels{k}" for k in range(inputs)]
    nodes = [helper.make_node("GlobalAveragePool", [names[0]], ["pooled"])]
    out = "pooled"
    if rank == 2:
        nodes.append(helper.make_node("Flatten", ["pooled"], ["flat"]))
        out = "flat"
    shape = {2: ["batch", 3], 4: ["batch", 3, 1, 1]}[rank]
    graph = helper.make_graph(
        nodes,
        "means",
        [value(name, TensorProto.FLOAT, ["batch", 3, *sides]) for name in names],
        [value(out, TensorProto.FLOAT, shape)],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
    onnx.save(model, path)
    return path
