"""The encoder that was asked for, or that suits the data, applied to what was read.

For `plan`, it is what that would take, with stand-ins for the vectors it would give. Of texts,
held-out given labels decide which encoder suits them, whatever the language.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

from labelproof.data.encoders.encode import BATCH, Half, default_cache, encoding_key, in_chunks
from labelproof.data.encoders.encoder_protocol import Progress
from labelproof.data.encoders.hf_model import HF, hf_folder
from labelproof.data.encoders.picture_encoding import (
    AUTO,
    BUILT_IN,
    DEFAULT,
    NONE,
    agreement,
    encode_pictures,
    picture_encoder,
    sample,
    with_vectors,
    worth_encoding,
)
from labelproof.data.encoders.texts import (
    MINILM,
    AnyTexts,
    JoinedTexts,
    TextEncoder,
    TransformerEncoder,
    minilm_folder,
    use_minilm,
    use_transformer,
)
from labelproof.data.encoders.timm_model import TIMM
from labelproof.data.examples import Encoder, Examples, Repeated, Resident
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
GLANCED = 120  # pictures that decide whether to encode


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
        worth, why = worth_encoding(examples, encoder, GLANCED)
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


WORDS, BOTH = "tf-idf", "tf-idf+minilm"
TEXT_NAMES = (WORDS, MINILM, BOTH)
TEXTS = 400  # texts that decide


def encode_texts(
    examples: Examples, name: str, cache: Path | None, progress: Progress | None
) -> Examples:
    """Texts, which were read as TF-IDF vectors, as the encoder `name` makes them."""
    words, texts = examples.encoder, examples.captions
    if not isinstance(words, TextEncoder) or texts is None:
        return examples  # encoded by a transformer of the user's choice already
    if name == AUTO:
        name, note = choose_texts(examples, words, texts)
        examples = examples.noted([note] if note else [], "notes")
    if name == WORDS:
        return examples
    encoder = _named(name, words)
    return _with_vectors(examples, encoder, texts, cache, progress)


def choose_texts(
    examples: Examples, words: TextEncoder, texts: Sequence[str]
) -> tuple[str, str | None]:
    """The name of the encoder that predicts held-out given labels best, and why in a sentence."""
    rows, labels = sample(examples, TEXTS)
    if minilm_folder() is None or len(np.unique(labels)) < 2:
        return WORDS, None
    some = [texts[row] for row in rows]
    plain, meant = words.transform(some), use_minilm(words.column).transform(some)
    tried = {WORDS: plain, MINILM: meant, BOTH: np.concatenate([plain, meant], 1)}
    right = {name: agreement(_linear(), vectors, labels) for name, vectors in tried.items()}
    best = max(right, key=lambda name: right[name])
    shares = ", ".join(f"{share:.1%} with {name}" for name, share in right.items())
    return best, (
        f"Texts are encoded with {best}: on {len(some)} of them, held-out given labels are "
        f"predicted right {shares}."
    )


def _named(name: str, words: TextEncoder) -> TransformerEncoder | JoinedTexts:
    if name.startswith(HF):
        return use_transformer(hf_folder(name.removeprefix(HF)), words.column)
    if name == MINILM:
        return use_minilm(words.column)
    if name == BOTH:
        return JoinedTexts(words=words, sentences=use_minilm(words.column))
    raise BadInput(
        f"expected an encoder of texts, but {name!r} is not one; choose auto, "
        f"{', '.join(TEXT_NAMES)} or hf:NAME"
    )


def _with_vectors(
    examples: Examples,
    encoder: TransformerEncoder | JoinedTexts,
    texts: Sequence[str],
    cache: Path | None,
    progress: Progress | None,
) -> Examples:
    """The examples with other vectors; their digest follows from the texts and the encoder."""
    key = text_key(examples, encoder)

    def make(rows: range) -> Half:
        return encoder.transform(texts[rows.start : rows.stop]).astype(np.float16)

    x = Resident(in_chunks(make, len(texts), key, cache, progress), key)
    test = examples.test
    if test is not None and test.captions is not None:
        test = _with_vectors(test, encoder, test.captions, cache, None)
    about = {**examples.about, "encoding": encoder.describe()}
    return replace(examples, x=x, encoder=encoder, test=test, about=about)


def text_key(examples: Examples, encoder: AnyTexts) -> str:
    """A hash of texts, by their TF-IDF vectors, and of what encodes them."""
    part = encoder.sentences if isinstance(encoder, JoinedTexts) else encoder
    assert isinstance(part, TransformerEncoder)
    return encoding_key(examples.x, part.fingerprint, f"{type(encoder).__name__} {part.length}")


def _linear() -> Any:
    from sklearn.linear_model import LogisticRegression

    return LogisticRegression(C=10.0, max_iter=300)


def texts_standing_for(examples: Examples, encoder: Encoder) -> Examples:
    """Texts with the digest that their vectors have in a run, found without encoding them."""
    if not isinstance(encoder, TransformerEncoder | JoinedTexts):
        return examples
    vectors = torch.empty((len(examples), 0), dtype=torch.float16)
    return replace(examples, x=Resident(vectors, text_key(examples, encoder)))
