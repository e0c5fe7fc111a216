"""Encoders of pictures by name: built in, or made of what the user names."""

from __future__ import annotations

import difflib
from pathlib import Path

from labelproof.data.encoders.efficientnet_lite import LITE0, LITE2
from labelproof.data.encoders.encoder_protocol import PictureEncoder
from labelproof.data.encoders.hf_model import HF, hf_pictures
from labelproof.data.encoders.onnx_file import onnx_file
from labelproof.data.encoders.timm_model import TIMM, timm_pictures
from labelproof.errors import BadInput

BUILT_IN = {encoder.name: encoder for encoder in (LITE0, LITE2)}
AUTO, NONE = "auto", "none"
DEFAULT = LITE2.name


def picture_encoder(name: str) -> PictureEncoder:
    """The encoder that a name stands for.

    Args:
        name: A built-in name, `timm:NAME`, `hf:NAME` or the path of an ONNX file.

    Raises:
        BadInput: If there is none of that name, or what it needs is not there.
    """
    if name in BUILT_IN:
        return BUILT_IN[name]
    if name.startswith(TIMM):
        return timm_pictures(name.removeprefix(TIMM))
    if name.startswith(HF):
        return hf_pictures(name.removeprefix(HF))
    if name.lower().endswith(".onnx"):
        return onnx_file(Path(name))
    near = difflib.get_close_matches(name, BUILT_IN, n=1)
    hint = f"did you mean {near[0]}? " if near else ""
    raise BadInput(
        f"expected an encoder of pictures, but there is none called {name!r}; {hint}choose "
        f"{AUTO}, {NONE}, {', '.join(BUILT_IN)}, timm:NAME, hf:NAME or the path of an ONNX file"
    )
