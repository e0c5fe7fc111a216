"""Examples of pictures as examples of vectors: which encoder, applied once, recorded for later."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any

import torch
from msgspec import Meta

from labelproof.data.encoders.choose import picture_encoder
from labelproof.data.encoders.encode import encode, encoding_key
from labelproof.data.encoders.encoder_protocol import PictureEncoder, Progress
from labelproof.data.examples import Examples, Inputs, Resident
from labelproof.errors import BadInput

Edge = Annotated[int, Meta(ge=1, le=2**24)]


@dataclass(frozen=True, kw_only=True)
class PictureEncoding:
    """Which encoder made vectors of the pictures, for reading other data in the same way."""

    name: str
    digest: str
    rule: str  # the input rule, in words
    shape: Annotated[tuple[Edge, ...], Meta(min_length=1, max_length=4)]  # of one picture, before
    features: Edge

    def describe(self) -> dict[str, Any]:
        """What was done to the pictures, for run.json."""
        return {
            "encoder": self.name,
            "digest": self.digest,
            "rule": self.rule,
            "pictures": list(self.shape),
            "features": self.features,
        }

    def encoder(self) -> PictureEncoder:
        """The encoder itself, if it is still the one that was used."""
        found = picture_encoder(self.name)
        if found.digest != self.digest:
            raise BadInput(
                f"expected the encoder {self.name} with the weights of the training run, but its "
                "weights have changed; restore them, or train again"
            )
        return found


def encode_pictures(
    examples: Examples,
    encoder: PictureEncoder,
    cache: Path | None = None,
    progress: Progress | None = None,
) -> Examples:
    """The examples, and their test part, as vectors; the pictures stay with them as `raw`."""
    if examples.kind != "images":
        raise BadInput(
            f"expected pictures for the encoder {encoder.name}, but the data holds vectors; leave "
            "out --encoder"
        )
    x = encode(examples.x, encoder, cache=cache, progress=progress)
    test = examples.test
    if test is not None:
        test = encode_pictures(test, encoder, cache, progress)
    return with_vectors(replace(examples, test=test), encoder, x)


def encode_like(
    pictures: Examples,
    like: Examples,
    cache: Path | None = None,
    progress: Progress | None = None,
) -> Examples:
    """New pictures encoded as those of the training data were."""
    assert isinstance(like.encoder, PictureEncoding)
    if tuple(pictures.x.shape) != like.encoder.shape:
        raise BadInput(
            f"expected pictures of shape {like.encoder.shape} as in the training data, but these "
            f"have shape {tuple(pictures.x.shape)}; resize them to the same size"
        )
    return encode_pictures(pictures, like.encoder.encoder(), cache, progress)


def without_vectors(like: Examples) -> Examples:
    """Encoded training data as it was before, for reading other pictures like it."""
    assert isinstance(like.encoder, PictureEncoding)
    raw = like.raw or Resident(torch.empty((0, *like.encoder.shape), dtype=torch.uint8))
    return replace(like, x=raw, raw=None, encoder=None, test=None)


def standing_for(pictures: Examples, encoding: Mapping[str, Any]) -> Examples:
    """Pictures with the digest of their vectors, found by what `describe` said of the encoder."""
    key = encoding_key(pictures.x, str(encoding["digest"]), str(encoding["rule"]))
    vectors = torch.empty((len(pictures), 0), dtype=torch.float16)
    return replace(pictures, x=Resident(vectors, key), raw=pictures.x)


def with_vectors(examples: Examples, encoder: PictureEncoder, x: Inputs) -> Examples:
    """Examples of pictures with their vectors in the pictures' place."""
    encoding = PictureEncoding(
        name=encoder.name,
        digest=encoder.digest,
        rule=str(encoder.rule),
        shape=tuple(examples.x.shape),
        features=x.shape[0],
    )
    about = {**examples.about, "encoding": encoding.describe()}
    return replace(examples, x=x, raw=examples.x, encoder=encoding, normalise=None, about=about)
