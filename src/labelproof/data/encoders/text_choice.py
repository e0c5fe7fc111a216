"""Which encoder suits texts: held-out given labels decide, whatever the language."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

from labelproof.data.encoders.choose import AUTO, agreement, sample
from labelproof.data.encoders.encode import Half, encoding_key, in_chunks
from labelproof.data.encoders.encoder_protocol import Progress
from labelproof.data.encoders.hf_model import HF, hf_folder
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
from labelproof.data.examples import Encoder, Examples, Resident
from labelproof.errors import BadInput

WORDS, BOTH = "tf-idf", "tf-idf+minilm"
TEXT_NAMES = (WORDS, MINILM, BOTH)
SAMPLE = 400  # texts that decide


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
    rows, labels = sample(examples, SAMPLE)
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
