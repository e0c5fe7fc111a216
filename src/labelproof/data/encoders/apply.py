"""The encoder that was asked for, or that suits the data, applied to what was read; or, for
`plan`, what that would take, with stand-ins for the vectors it would give.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from pathlib import Path

import torch

from labelproof.data.encoders.choose import (
    AUTO,
    BUILT_IN,
    DEFAULT,
    NONE,
    picture_encoder,
    worth_encoding,
)
from labelproof.data.encoders.encode import BATCH, default_cache
from labelproof.data.encoders.encoder_protocol import Progress
from labelproof.data.encoders.picture_encoding import encode_pictures, with_vectors
from labelproof.data.encoders.text_choice import TEXT_NAMES, encode_texts
from labelproof.data.encoders.texts import AnyTexts
from labelproof.data.encoders.timm_model import TIMM
from labelproof.data.examples import Examples, Repeated, Resident
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
    """
    if name == NONE:
        return examples
    if examples.kind == "images":
        if name in TEXT_NAMES:
            raise _misfit(name, "texts", "pictures", f"{DEFAULT}, or another encoder of pictures")
        return _pictures(examples, name, cache or default_cache(), progress)
    if isinstance(examples.encoder, AnyTexts):
        if name in BUILT_IN or name.startswith(TIMM) or name.lower().endswith(".onnx"):
            raise _misfit(name, "pictures", "texts", f"{', '.join(TEXT_NAMES)} or hf:NAME")
        return encode_texts(examples, name, cache or default_cache(), progress)
    if name != AUTO:
        raise BadInput(
            f"expected pictures or texts for the encoder {name}, but the data is numeric already; "
            "leave out --encoder"
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
        worth, why = worth_encoding(examples, encoder)
        examples = examples.noted([why], "notes")
        if not worth:
            return examples
    return encode_pictures(examples, encoder, cache, progress)


FEW = 2 * BATCH  # pictures that are encoded
SAMPLE = 120  # pictures that decide whether to encode


@dataclass(frozen=True, kw_only=True)
class Glance:
    """Examples whose vectors repeat those of a few, and the seconds that all would take."""

    examples: Examples
    encoder: str | None = None
    seconds: float = 0.0
    why: str = ""


def glance(examples: Examples, name: str) -> Glance:
    """Look at what an encoder would do, without doing it."""
    if name == NONE or examples.kind != "images":
        return Glance(examples=examples)
    encoder = picture_encoder(DEFAULT if name == AUTO else name)
    if name == AUTO:
        worth, why = worth_encoding(examples, encoder, SAMPLE)
        if not worth:
            return Glance(examples=examples, why=why)
    work = encoder.open()
    rows = torch.linspace(0, len(examples) - 1, min(FEW, len(examples))).long()
    few = examples.x.take(rows).numpy()  # from first to last: neighbours may stand for one picture
    parts = [work(few[:BATCH])]  # the first pass pays for set-up
    start = time.perf_counter()
    parts.append(work(few[-BATCH:]))
    seconds = (time.perf_counter() - start) * len(examples) / len(few[-BATCH:])
    vectors = torch.cat([torch.from_numpy(part) for part in parts]).half()
    repeated = Repeated(Resident(vectors), len(examples))
    stand_in = with_vectors(replace(examples, test=None), encoder, repeated)
    return Glance(examples=stand_in, encoder=encoder.name, seconds=seconds)
