"""A trained model for use elsewhere: one ONNX file, or a folder of safetensors and JSON.

The ONNX file takes raw uint8 images (N, H, W, 3) or raw vectors (N, D) as `x` and gives calibrated
`probabilities` (N, C); normalisation, every network and the link are inside. Class names and more
are in its metadata. Where an encoder made vectors of pictures, it is inside too.
"""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.functional import interpolate

import labelproof
from labelproof.data.encoders.module_graph import graph_bytes
from labelproof.data.encoders.onnx_graphs import joined
from labelproof.data.encoders.picture_encoding import PictureEncoding
from labelproof.data.optional_packages import need
from labelproof.errors import BadInput, RunFailed
from labelproof.files import folder_written_whole, write_json, written_whole
from labelproof.functional.waves import Waves, random_waves, with_waves
from labelproof.run_files import RUN
from labelproof.runs.load import Loaded, place_of
from labelproof.runs.manifest import MODEL_PARTS, write_manifest
from labelproof.runs.model import Model
from labelproof.runs.ownership import sealed
from labelproof.views import ImageViews, VectorViews

CLOSE = 1e-4  # how far the exported model may be from the original,
CLOSE_PICTURES = 1e-3  # and with an encoder before it
KEPT = ("format", "labelproof", "method", "settings", "net", "task", "views", "versions")


class PlainImages(nn.Module):
    """`ImageViews.plain` in operations that export: enlarge, cut out the centre, normalise."""

    scale: Tensor
    shift: Tensor

    def __init__(self, views: ImageViews, shape: tuple[int, ...]) -> None:
        super().__init__()
        mean, std = torch.tensor(views.mean), torch.tensor(views.std)
        self.register_buffer("scale", (1 / (255 * std))[:, None, None])
        self.register_buffer("shift", (mean / std)[:, None, None])
        size = (views.size, views.size) if views.size else (shape[0], shape[1])
        factor = max(size[0] / shape[0], size[1] / shape[1])
        self.enlarged = None
        if factor > 1:
            self.enlarged = (round(shape[0] * factor), round(shape[1] * factor))
        stored = self.enlarged or (shape[0], shape[1])
        self.top, self.left = (stored[0] - size[0]) // 2, (stored[1] - size[1]) // 2
        self.size = size

    def forward(self, x: Tensor) -> Tensor:
        """uint8 (B, H, W, 3) to float32 (B, 3, h, w)."""
        pixels = x.permute(0, 3, 1, 2).float()
        if self.enlarged is not None:
            pixels = interpolate(pixels, self.enlarged, mode="bilinear").round()
        height, width = self.size
        centre = pixels[:, :, self.top : self.top + height, self.left : self.left + width]
        return centre * self.scale - self.shift


class PlainVectors(nn.Module):
    """`VectorViews.plain` with its numbers as buffers."""

    mean: Tensor
    std: Tensor
    frequencies: Tensor
    phases: Tensor
    wave_means: Tensor

    def __init__(self, views: VectorViews) -> None:
        super().__init__()
        std = torch.as_tensor(views.std, dtype=torch.float32)
        self.register_buffer("mean", torch.as_tensor(views.mean, dtype=torch.float32))
        self.register_buffer("std", torch.where(std == 0, torch.ones_like(std), std))
        waves = random_waves(len(std), views.waves, views.wavelength)
        self.register_buffer("frequencies", waves.frequencies)
        self.register_buffer("phases", waves.phases)
        self.register_buffer("wave_means", waves.means)

    def forward(self, x: Tensor) -> Tensor:
        """float32 (B, D) to float32 (B, D), or (B, D + R) with waves."""
        z = (x - self.mean) / self.std
        waves = Waves(self.frequencies, self.phases, self.wave_means)
        return with_waves(z, waves) if len(self.phases) else z


class Whole(nn.Module):
    """A model from raw inputs to calibrated probabilities, as one module."""

    def __init__(self, model: Model) -> None:
        super().__init__()
        views = model.task.views
        self.plain: nn.Module
        if isinstance(views, ImageViews):
            self.plain = PlainImages(views, model.task.x.shape)
        elif isinstance(views, VectorViews):
            self.plain = PlainVectors(views)
        else:
            raise BadInput(f"a model with views of type {type(views).__name__} cannot be exported.")
        self.nets = nn.ModuleList(model.networks)
        self._model = model

    def forward(self, x: Tensor) -> Tensor:
        """Raw inputs (B, ...) to probabilities (B, C)."""
        model = self._model
        return model.probabilities(self.plain(x))


def export_onnx(model: Model, out: Path, encoding: PictureEncoding | None = None) -> None:
    """Write one ONNX file that equals the model at any batch size; it is checked before it appears.

    With the `encoding` that made vectors of pictures, the file takes the pictures.

    Raises:
        BadInput: a package of the extra `export` is missing, or the path cannot be written.
        RunFailed: the exported model differs from the original.
    """
    onnx = need("onnx", "export", "the export to ONNX")
    need("onnxscript", "export", "the export to ONNX")
    runtime = need("onnxruntime", "export", "the check of the exported model")
    _check_parent(out)
    whole = Whole(model).cpu().eval()
    made = onnx.load_from_string(graph_bytes(whole, {"x": _example(model, 3)}, "probabilities"))
    about = {
        "labelproof": labelproof.__version__,
        "classes": json.dumps(model.classes, ensure_ascii=False),
        "kind": model.task.kind,
        "method": type(model.method).__name__,
    }
    if encoding is not None:
        made = with_encoder(made, encoding)
        shape = json.dumps(encoding.shape)
        about = {**about, "kind": "images", "encoder": encoding.name, "pictures": shape}
    onnx.helper.set_model_props(made, about)
    data = made.SerializeToString()
    session = runtime.InferenceSession(data, providers=["CPUExecutionProvider"])
    encoder = encoding.encoder().open() if encoding else None
    for size in (1, 5):
        x = _example(model, size) if encoding is None else _pictures(size, encoding)
        (there,) = session.run(["probabilities"], {"x": x.numpy()})
        if encoder:
            x = torch.from_numpy(encoder(x.numpy())).half().float()
        with torch.no_grad():
            check_close(there, whole(x), CLOSE_PICTURES if encoder else CLOSE)
    with written_whole(out) as aside:
        aside.write_bytes(data)


def export_folder(folder: Path, loaded: Loaded, out: Path) -> None:
    """Copy the files a model consists of, without training labels, paths or checkpoints."""
    _check_parent(out)
    if out.exists():
        raise BadInput(f"{out} exists already; name another --out.")
    with folder_written_whole(out) as aside:
        for name in MODEL_PARTS:
            if name != RUN and (folder / name).is_file():
                shutil.copyfile(folder / name, aside / name)
        record = {key: loaded.record.get(key) for key in KEPT}
        if place_of(loaded.like.encoder) is not None:  # which this user named
            encoding = (loaded.record.get("data") or {}).get("encoding")
            record = sealed({**record, "data": {"encoding": encoding}})
        write_json(aside / RUN, record)
        write_manifest(aside)
        aside.chmod(folder.stat().st_mode)


def _check_parent(out: Path) -> None:
    if not out.absolute().parent.is_dir():
        raise BadInput(f"{out} cannot be written: its folder does not exist; name another --out.")


def _example(model: Model, size: int) -> Tensor:
    """Raw inputs of the right kind and shape, drawn at random."""
    shape, rng = (size, *model.task.x.shape), torch.Generator().manual_seed(size)
    if model.task.kind == "images":
        return torch.randint(0, 256, shape, generator=rng, dtype=torch.uint8)
    views = model.task.views
    assert isinstance(views, VectorViews)
    spread = torch.as_tensor(views.std, dtype=torch.float32)
    return torch.randn(shape, generator=rng) * spread + torch.as_tensor(views.mean)


FLOAT, HALF = 1, 10  # ONNX's numbers of the types


def with_encoder(network: Any, encoding: PictureEncoding) -> Any:
    """The encoder's graph before the network's, which goes from vectors `x` to `probabilities`."""
    onnx = need("onnx", "export", "the export to ONNX")
    front = _halved(onnx, encoding.encoder().graph(encoding.shape))
    made = joined(onnx, front, network, "net_", ("halved", "x"))
    node = onnx.helper.make_node("Identity", ["net_probabilities"], ["probabilities"])
    made.graph.node.append(node)
    sides = ["batch", None]
    value = onnx.helper.make_tensor_value_info("probabilities", onnx.TensorProto.FLOAT, sides)
    made.graph.output.append(value)
    return made


def check_close(there: Any, here: Tensor, most: float) -> None:
    """Compare probabilities (B, C) of an exported model with those of the original."""
    apart = float((torch.from_numpy(there) - here).abs().max())
    if not apart <= most:
        raise RunFailed(
            f"the exported model differs from the original by {apart:.2g} in a probability, "
            f"more than {most:g}; use --format folder instead."
        )


def _pictures(size: int, encoding: PictureEncoding) -> Tensor:
    """Pictures drawn at random."""
    drawn = np.random.default_rng(size).integers(0, 256, (size, *encoding.shape), dtype=np.uint8)
    return torch.from_numpy(drawn)


def _halved(onnx: Any, model: Any) -> Any:
    """Vectors rounded to half precision, as they were in training."""
    add, value = onnx.helper.make_node, onnx.helper.make_tensor_value_info
    model.graph.node.append(add("Cast", ["vectors"], ["half"], to=HALF))
    model.graph.node.append(add("Cast", ["half"], ["halved"], to=FLOAT))
    del model.graph.output[:]
    model.graph.output.append(value("halved", onnx.TensorProto.FLOAT, ["batch", None]))
    return model
