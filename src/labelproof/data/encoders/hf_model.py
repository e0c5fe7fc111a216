"""Vision models of the library transformers as encoders of pictures: `hf:NAME`.

NAME is a local folder, or a model in the hub's cache. Nothing is downloaded, only safetensors are
read, and no code that comes with a model is run.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from labelproof.data.encoders.encoder_protocol import InputRule, rule_of_shares
from labelproof.data.encoders.module_graph import NetworkEncoder
from labelproof.data.encoders.timm_model import state_digest
from labelproof.data.optional_packages import need
from labelproof.errors import BadInput

HF = "hf:"
USUAL = {"image_mean": (0.485, 0.456, 0.406), "image_std": (0.229, 0.224, 0.225)}


class Features(nn.Module):
    """A vision model's features as one vector: its pooled output, else the mean of its tokens."""

    def __init__(self, model: Any) -> None:
        super().__init__()
        self.model = model

    def forward(self, x: Tensor) -> Tensor:
        """(B, 3, S, S) to (B, D)."""
        out = self.model(pixel_values=x)
        pooled = out.get("pooler_output")
        if pooled is not None:
            vectors: Tensor = pooled.flatten(1)
            return vectors
        last: Tensor = out["last_hidden_state"]
        return last.mean(1) if last.ndim == 3 else last.mean((2, 3))


class HfEncoder(NetworkEncoder):
    """A vision model of transformers."""

    def module(self) -> nn.Module:
        """The network, from normalised pictures to features."""
        return _network(self.name.removeprefix(HF))


def hf_pictures(name: str) -> HfEncoder:
    """The encoder `hf:name`; a folder is remembered by its full path."""
    path = Path(name)
    name = str(path.absolute()) if path.is_dir() else name
    network = _network(name)
    rule = _rule(name, network)
    _try(name, network, rule)
    return HfEncoder(name=f"{HF}{name}", digest=state_digest(network), rule=rule)


def hf_folder(name: str) -> Path:
    """The folder of a model: as named, or in the hub's cache."""
    if Path(name).is_dir():
        return Path(name).absolute()
    try:
        hub = need("huggingface_hub", "text", "hf:NAME")
        return Path(hub.snapshot_download(name, local_files_only=True))
    except Exception as error:  # the hub raises many kinds
        if isinstance(error, BadInput):
            raise
        raise _missing(name, error) from None


def _network(name: str) -> Features:
    transformers = need("transformers", "text", "hf:NAME")
    try:
        model = transformers.AutoModel.from_pretrained(
            name, local_files_only=True, use_safetensors=True, trust_remote_code=False
        )
    except Exception as error:  # the library raises many kinds
        raise _missing(name, error) from None
    model = model.vision_model if type(model).__name__ in ("CLIPModel", "SiglipModel") else model
    if model.main_input_name != "pixel_values":
        raise BadInput(
            f"expected a model of pictures at hf:{name}, but it takes {model.main_input_name}; "
            "choose a vision model, or name it for texts"
        )
    return Features(model).eval()


def _rule(name: str, network: Features) -> InputRule:
    """Size and normalisation of the model's own preprocessor, or ImageNet's."""
    transformers = need("transformers", "text", "hf:NAME")
    about: Mapping[str, Any] = {}
    try:
        about, _ = (
            transformers.image_processing_utils.ImageProcessingMixin.get_image_processor_dict(
                name, local_files_only=True
            )
        )
    except Exception:  # a model without a preprocessor is used with ImageNet's numbers
        about = {}
    size = _edge(about.get("crop_size") or about.get("size") or network.model.config.image_size)
    mean, std = (about.get(key) or USUAL[key] for key in ("image_mean", "image_std"))
    return rule_of_shares(size, mean, std)


def _edge(size: Any) -> int:
    if isinstance(size, Mapping):
        return int(size.get("height") or size.get("shortest_edge") or 224)
    return int(size[0] if isinstance(size, list | tuple) else size)


def _try(name: str, network: Features, rule: InputRule) -> None:
    """One grey picture through the network, so that a misfit is said before the work begins."""
    try:
        with torch.inference_mode():
            out = network(torch.zeros(1, 3, rule.size, rule.size))
    except Exception as error:
        raise _missing(name, error) from None
    if out.ndim != 2:
        raise BadInput(f"expected vectors from hf:{name}, but it gives shape {tuple(out.shape)}")


def _missing(name: str, error: Exception) -> BadInput:
    first = " ".join(str(error).split()).split(". ")[0].rstrip(".")[:200]
    folder = Path(name).is_absolute() or name.startswith(".") or name.count("/") > 1
    if folder and not Path(name).exists():
        return BadInput(
            f"expected the folder of a model at {name}, but there is none; check the path"
        )
    get = "" if Path(name).exists() else f"; to get it, run: hf download {name}"
    return BadInput(
        f"expected a model with safetensors weights at hf:{name}, a local folder or a model in the "
        f"hub's cache, but it could not be loaded ({first}); check the name{get}"
    )
