"""Examples of pictures as examples of vectors: which encoder, applied once, recorded for later.

An encoder is asked for by name, or held-out labels decide whether one knows these pictures.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import numpy.typing as npt
import torch
from msgspec import Meta
from torch.nn.functional import interpolate

from labelproof.data.encoders.efficientnet_lite import LITE0, LITE2
from labelproof.data.encoders.encode import encode, encoding_key
from labelproof.data.encoders.encoder_protocol import PictureEncoder, Progress
from labelproof.data.encoders.hf_model import HF, hf_pictures
from labelproof.data.encoders.onnx_file import onnx_file
from labelproof.data.encoders.timm_model import TIMM, timm_pictures
from labelproof.data.examples import Examples, Inputs, Resident, Subset
from labelproof.errors import BadInput
from labelproof.messages import closest

TINY = 32  # pixels up to which pictures may be drawings that no encoder knows
SAMPLE = 600  # pictures that decide
GRID = 16  # pixels a side that plain pixels are compared at
FOLDS = 3
SEED = 0
Matrix = npt.NDArray[np.float32]


def worth_encoding(
    examples: Examples, encoder: PictureEncoder, most: int = SAMPLE
) -> tuple[bool, str]:
    """Whether to encode, and why: photos always, tiny pictures where held-out labels prefer it.

    The rival is a support vector machine on the plain pixels, which stands for what a network
    trained from scratch can learn.
    """
    usual = True, f"Pictures are encoded with {encoder.name}."
    if min(examples.x.shape[:2]) > TINY:
        return usual
    rows, labels = sample(examples, most)
    if len(np.unique(labels)) < 2:
        return usual
    part = Subset(examples.x, torch.from_numpy(rows))
    encoded = agreement(_linear(), encode(part, encoder).data.float().numpy(), labels)
    plain = agreement(_kernel(), _plain(part), labels)
    chosen = encoded >= plain
    doing = f"encoded with {encoder.name}" if chosen else "learned from scratch"
    return chosen, (
        f"Pictures are {doing}: on {len(rows)} of them, held-out given labels are predicted "
        f"{encoded:.1%} right from encoded and {plain:.1%} from plain pixels."
    )


def agreement(model: Any, x: Matrix, labels: npt.NDArray[np.int64]) -> float:
    """Share of held-out given labels that a model trained on the others predicts."""
    from sklearn.model_selection import StratifiedKFold, cross_val_score

    folds = StratifiedKFold(FOLDS, shuffle=True, random_state=SEED)
    return float(cross_val_score(model, x, labels, cv=folds).mean())


def sample(examples: Examples, most: int) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Some rows with their labels; classes too rare to be held out are left out."""
    assert examples.labels is not None
    given = np.asarray(examples.labels)
    rows = np.sort(np.random.default_rng(SEED).permutation(len(given))[:most])
    kinds, counts = np.unique(given[rows], return_counts=True)
    rows = rows[np.isin(given[rows], kinds[counts >= FOLDS])]
    return rows, given[rows]


def _plain(part: Subset) -> Matrix:
    pixels = part.take(torch.arange(len(part))).permute(0, 3, 1, 2).float() / 255
    size = (min(GRID, pixels.shape[2]), min(GRID, pixels.shape[3]))
    small = interpolate(pixels, size, mode="bilinear", antialias=True)
    grey = bool((pixels == pixels[:, :1]).all())
    flat: Matrix = (small[:, :1] if grey else small).flatten(1).numpy()
    return flat


def _linear() -> Any:
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    return make_pipeline(StandardScaler(), LogisticRegression(C=0.01, max_iter=300))


def _kernel() -> Any:
    from sklearn.svm import SVC

    return SVC(C=10.0)


BUILT_IN = {encoder.name: encoder for encoder in (LITE0, LITE2)}
AUTO, NONE = "auto", "none"
DEFAULT = LITE2.name


def picture_encoder(name: str) -> PictureEncoder:
    """The encoder of a built-in name, `timm:NAME`, `hf:NAME` or the path of an ONNX file."""
    if name in BUILT_IN:
        return BUILT_IN[name]
    if name.startswith(TIMM):
        return timm_pictures(name.removeprefix(TIMM))
    if name.startswith(HF):
        return hf_pictures(name.removeprefix(HF))
    if name.lower().endswith(".onnx"):
        return onnx_file(Path(name))
    near = closest(name, BUILT_IN)
    hint = f"did you mean {near}? " if near is not None else ""
    raise BadInput(
        f"expected an encoder of pictures, but there is none called {name!r}; {hint}choose "
        f"{AUTO}, {NONE}, {', '.join(BUILT_IN)}, timm:NAME, hf:NAME or the path of an ONNX file"
    )


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
