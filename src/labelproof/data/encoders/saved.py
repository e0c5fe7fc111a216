"""Saving what reading learned: the encoder, and with it all that another data set must agree with.

Records go to JSON, arrays to safetensors; nothing is pickled. `save_like` keeps the training
data's shape, classes and columns, so that `load(data, like=load_like(folder))` reads new data for
a saved model.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec
import numpy as np
import torch
from msgspec import Meta, Struct
from safetensors import SafetensorError
from safetensors.numpy import load_file, save_file

from labelproof.data.encoders.columns import Finite, TableEncoder
from labelproof.data.encoders.picture_encoding import Edge, PictureEncoding
from labelproof.data.encoders.texts import JoinedTexts, TextEncoder, TransformerEncoder
from labelproof.data.examples import Encoder, Examples, Resident
from labelproof.errors import BadInput
from labelproof.files import read_json, write_text, written_whole
from labelproof.run_files import ENCODER, ENCODER_ARRAYS, READING

# by kind; encoder.json holds their fields
PLAIN = {"table": TableEncoder, "transformer": TransformerEncoder, "pictures": PictureEncoding}


class ReadingRecord(Struct):
    """reading.json: what other data must agree with."""

    shape: Annotated[list[Edge], Meta(min_length=1, max_length=4)]
    classes: list[str]
    columns: dict[str, str]
    encoder: bool
    normalise: Annotated[list[list[Finite]], Meta(min_length=2, max_length=2)] | None = None


class KindRecord(Struct):
    """encoder.json: what kind of encoder it is."""

    kind: str


class TextRecord(Struct):
    """encoder.json of texts."""

    column: str
    analyzer: Literal["char_wb", "word", "char"]
    vocabulary: Annotated[tuple[str, ...], Meta(min_length=1)]


def save_encoder(encoder: Encoder, folder: Path) -> None:
    """Write an encoder into a folder; the arrays first, so that a record never lacks them."""
    folder.mkdir(parents=True, exist_ok=True)
    words = encoder.words if isinstance(encoder, JoinedTexts) else encoder
    if isinstance(words, TextEncoder):
        arrays: dict[str, Any] = {
            "idf": words.idf,
            "components": np.ascontiguousarray(words.components),
        }
        with written_whole(folder / ENCODER_ARRAYS) as aside:
            save_file(arrays, aside)
    _write_json(folder / ENCODER, _record(encoder))


def _record(encoder: Encoder) -> dict[str, Any]:
    """All of an encoder but its arrays."""
    if isinstance(encoder, TextEncoder):
        words = {"vocabulary": encoder.vocabulary, "analyzer": encoder.analyzer}
        return {"kind": "text", "column": encoder.column, **words}
    if isinstance(encoder, JoinedTexts):
        parts = {"words": _record(encoder.words), "sentences": _record(encoder.sentences)}
        return {"kind": "joined", **parts}
    if isinstance(encoder, TableEncoder | TransformerEncoder | PictureEncoding):
        kind = next(name for name, plain in PLAIN.items() if isinstance(encoder, plain))
        return {"kind": kind, **asdict(encoder)}
    raise TypeError(f"no way to save a {type(encoder).__name__}")


def load_encoder(folder: Path) -> Encoder:
    """Read back what `save_encoder` wrote."""
    try:
        return _revive(read_json(folder / ENCODER, KindRecord, "train again"), folder)
    except (OSError, ValueError, KeyError, TypeError, AttributeError, SafetensorError) as error:
        raise BadInput(
            f"expected a saved encoder in {folder}, but it could not be read ({error!r}); "
            "train again, or restore the run folder"
        ) from None


def save_like(examples: Examples, folder: Path) -> None:
    """Write what other data must agree with: shape, classes, columns, and the encoder if any."""
    folder.mkdir(parents=True, exist_ok=True)
    if examples.encoder is not None:
        save_encoder(examples.encoder, folder)
    record = {
        "shape": list(examples.x.shape),
        "classes": list(examples.classes or ()),
        "columns": dict(examples.about.get("columns", {})),
        "encoder": examples.encoder is not None,
        "normalise": [list(part) for part in examples.normalise] if examples.normalise else None,
    }
    _write_json(folder / READING, record)


def load_like(folder: Path) -> Examples:
    """Examples without any example, to be given to `load` as `like`."""
    try:
        record = read_json(folder / READING, ReadingRecord, "copy the run folder again")
        shape, classes = tuple(record["shape"]), tuple(record["classes"])
        kind = torch.uint8 if len(shape) == 3 else torch.float32
        normalise = record["normalise"]
        return Examples(
            x=Resident(torch.empty((0, *shape), dtype=kind)),
            labels=None,
            classes=classes,
            encoder=load_encoder(folder) if record["encoder"] else None,
            normalise=(normalise[0], normalise[1]) if normalise else None,
            about={"source": "saved run", "path": str(folder), "columns": record["columns"]},
        )
    except (OSError, ValueError, KeyError, TypeError) as error:
        if isinstance(error, BadInput):
            raise
        raise BadInput(
            f"expected {READING} of a finished run in {folder}, but it could not be read "
            f"({error!r}); name the folder of a run"
        ) from None


def _revive(record: dict[str, Any], folder: Path) -> Encoder:
    kind = record["kind"]
    if kind in PLAIN:
        found: Encoder = msgspec.convert(record, PLAIN[kind])
        return found
    if kind == "joined":
        words, sentences = (_revive(record[part], folder) for part in ("words", "sentences"))
        if not (isinstance(words, TextEncoder) and isinstance(sentences, TransformerEncoder)):
            raise ValueError("parts of another kind")
        return JoinedTexts(words=words, sentences=sentences)
    if kind != "text":
        raise ValueError(f"unknown kind {kind!r}")
    return _words(msgspec.convert(record, TextRecord), load_file(folder / ENCODER_ARRAYS))


def _words(record: TextRecord, arrays: Mapping[str, Any]) -> TextEncoder:
    terms, weights, projection = len(record.vocabulary), arrays["idf"], arrays["components"]
    if len(set(record.vocabulary)) != terms:
        raise ValueError("a term stands there twice")
    if weights.shape != (terms,) or projection.ndim != 2 or projection.shape[1] != terms:
        raise ValueError("its arrays do not fit its words")
    if not (np.isfinite(weights).all() and np.isfinite(projection).all()):
        raise ValueError("its arrays are not finite")
    return TextEncoder(
        column=record.column,
        analyzer=record.analyzer,
        vocabulary=record.vocabulary,
        idf=weights,
        components=projection,
    )


def _write_json(path: Path, record: dict[str, Any]) -> None:
    write_text(path, json.dumps(record, indent=1, ensure_ascii=True))
