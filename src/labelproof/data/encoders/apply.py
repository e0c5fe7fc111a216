"""The encoder that was asked for, or that suits the data, applied to what was read."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from labelproof.data.encoders.choose import worth_encoding
from labelproof.data.encoders.encode import default_cache
from labelproof.data.encoders.encoder_protocol import Progress
from labelproof.data.encoders.picture_encoding import encode_pictures
from labelproof.data.encoders.registry import AUTO, BUILT_IN, DEFAULT, NONE, picture_encoder
from labelproof.data.encoders.text_choice import TEXT_NAMES, encode_texts
from labelproof.data.encoders.texts import AnyTexts
from labelproof.data.encoders.timm_model import TIMM
from labelproof.data.examples import Examples
from labelproof.errors import BadInput


def encoded(
    examples: Examples,
    name: str = AUTO,
    *,
    cache: Path | None = None,
    progress: Progress | None = None,
) -> Examples:
    """Examples as the network will see them; what a person sees stays with them.

    Args:
        examples: What was read.
        name: An encoder's name, `none`, or `auto`: the default encoder for pictures, unless they
            are tiny drawings that it does not know; for texts what predicts held-out given labels
            best; nothing for tables and vectors.
        cache: Folder for vectors; the user's cache folder where None.
        progress: Called with (done, all).

    Raises:
        BadInput: If the encoder is not there, or is for another kind of data.
    """
    if name == NONE:
        return examples
    if examples.kind == "images":
        if name in TEXT_NAMES:
            raise _misfit(name, "texts", "pictures", f"{DEFAULT}, or another of pictures")
        return _pictures(examples, name, cache or default_cache(), progress)
    if isinstance(examples.encoder, AnyTexts):
        if name in BUILT_IN or name.startswith(TIMM) or name.lower().endswith(".onnx"):
            raise _misfit(name, "pictures", "texts", f"{', '.join(TEXT_NAMES)} or hf:NAME")
        return encode_texts(examples, name, cache or default_cache(), progress)
    if name != AUTO:
        raise BadInput(
            f"expected pictures or texts for the encoder {name}, but the data are "
            "numbers already; leave out --encoder"
        )
    return examples


def _misfit(name: str, meant: str, have: str, fitting: str) -> BadInput:
    return BadInput(
        f"expected an encoder of {have}, but {name} is for {meant}; leave out --encoder, or choose "
        f"{fitting}"
    )


def _pictures(examples: Examples, name: str, cache: Path, progress: Progress | None) -> Examples:
    encoder = picture_encoder(DEFAULT if name == AUTO else name)
    if name == AUTO:
        decision = worth_encoding(examples, encoder)
        examples = _noted(examples, decision.why)
        if not decision.encode:
            return examples
    return encode_pictures(examples, encoder, cache, progress)


def _noted(examples: Examples, note: str) -> Examples:
    notes = [*examples.about.get("notes", ()), note]
    return replace(examples, about={**examples.about, "notes": notes})
