"""Encoders that a run folder names by a path: used if this user named the path, now or at the fit.

Somebody else's folder could name any file of this computer, which would then be opened as a model.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from labelproof.data.encoders.picture_encoding import PictureEncoding
from labelproof.data.encoders.registry import BUILT_IN
from labelproof.data.encoders.texts import MINILM, JoinedTexts, TransformerEncoder
from labelproof.data.examples import Encoder, Examples
from labelproof.errors import BadInput
from labelproof.runs.seal import is_own

IN_PACKAGES = re.compile(r"timm:[A-Za-z0-9_.]+")  # names of models; `local-dir:` is a path


def with_named_encoder(like: Examples, record: Mapping[str, Any], named: str | None) -> Examples:
    """What new data must look like, with an encoder that may be opened.

    Args:
        like: what the run folder says.
        record: run.json.
        named: the encoder's place, if the user named it.

    Raises:
        BadInput: If the folder names a file that this user never did.
    """
    encoder = like.encoder
    place = place_of(encoder)
    if encoder is None or place is None:
        if named is not None:
            raise BadInput("expected no --encoder, as this run used none that is a file.")
        return like
    if named is not None:
        return replace(like, encoder=_moved(encoder, named))
    told = (record.get("data") or {}).get("encoding")
    if is_own(record) and told == json.loads(json.dumps(encoder.describe())):
        return like
    raise BadInput(
        f"this run folder was not made by you on this computer, and its encoder is the file "
        f"{place}; if that is the right one, name it yourself: --encoder {place}"
    )


def place_of(encoder: Encoder | None) -> str | None:
    """The file or folder that an encoder is read from; None for those that packages hold."""
    if isinstance(encoder, JoinedTexts):
        encoder = encoder.sentences
    if isinstance(encoder, TransformerEncoder):
        return None if encoder.model == MINILM else encoder.model
    if isinstance(encoder, PictureEncoding):
        held = encoder.name in BUILT_IN or IN_PACKAGES.fullmatch(encoder.name)
        return None if held else encoder.name
    return None


def _moved(encoder: Encoder, named: str) -> Encoder:
    """The encoder at another place; that it has the same weights is checked when it is opened."""
    if isinstance(encoder, JoinedTexts):
        return replace(encoder, sentences=replace(encoder.sentences, model=named))
    if isinstance(encoder, TransformerEncoder):
        return replace(encoder, model=named)
    assert isinstance(encoder, PictureEncoding)
    return replace(encoder, name=named)
