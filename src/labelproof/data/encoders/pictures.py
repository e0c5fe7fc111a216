"""Examples of pictures as examples of vectors: which encoder, applied once, recorded for later."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch

from labelproof.data.encoders.encode import Encoded, encode, encoding_key
from labelproof.data.encoders.protocol import PictureEncoder
from labelproof.data.encoders.registry import picture_encoder
from labelproof.data.examples import Examples, Resident
from labelproof.data.readers.reading_options import Progress
from labelproof.errors import BadInput


@dataclass(frozen=True, kw_only=True)
class PictureEncoding:
    """Which encoder made vectors of the pictures, for reading other data in the same way."""

    name: str
    digest: str
    shape: tuple[int, ...]  # of one picture, before it is encoded
    features: int

    def describe(self) -> dict[str, Any]:
        """What was done to the pictures, for run.json."""
        return {
            "encoder": self.name,
            "digest": self.digest,
            "pictures": list(self.shape),
            "features": self.features,
        }

    def encoder(self) -> PictureEncoder:
        """The encoder itself, if it is still the one that was used.

        Raises:
            BadInput: If it is not there any more, or has other weights.
        """
        found = picture_encoder(self.name)
        if found.digest != self.digest:
            raise BadInput(
                f"expected the encoder {self.name} with the weights of the training run, but it "
                "has others now; put the same weights back, or train again"
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
            f"expected pictures for the encoder {encoder.name}, but the data are vectors; "
            "leave out --encoder"
        )
    x = encode(examples.x, encoder, cache=cache, progress=progress)
    test = examples.test
    if test is not None:
        test = encode_pictures(test, encoder, cache, progress)
    return _with_vectors(replace(examples, test=test), encoder, x)


def encode_like(
    pictures: Examples,
    like: Examples,
    cache: Path | None = None,
    progress: Progress | None = None,
) -> Examples:
    """New pictures encoded as those of the training data were."""
    assert isinstance(like.encoder, PictureEncoding)
    return encode_pictures(pictures, like.encoder.encoder(), cache, progress)


def without_vectors(like: Examples) -> Examples:
    """Encoded training data as it was before, for reading other pictures like it."""
    assert isinstance(like.encoder, PictureEncoding)
    raw = like.raw or Resident(torch.empty((0, *like.encoder.shape), dtype=torch.uint8))
    return replace(like, x=raw, raw=None, encoder=None, test=None)


def raw_digest(pictures: Examples, encoder: PictureEncoding) -> str:
    """The digest that the vectors of these pictures have, found without encoding them."""
    return encoding_key(pictures.x, encoder.encoder())


def _with_vectors(examples: Examples, encoder: PictureEncoder, x: Encoded) -> Examples:
    encoding = PictureEncoding(
        name=encoder.name,
        digest=encoder.digest,
        shape=tuple(examples.x.shape),
        features=x.shape[0],
    )
    about = {**examples.about, "encoding": encoding.describe()}
    return replace(examples, x=x, raw=examples.x, encoder=encoding, normalise=None, about=about)
