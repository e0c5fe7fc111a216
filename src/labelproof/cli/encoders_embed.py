"""`labelproof encoders` and `labelproof embed`: what makes vectors of pictures and texts."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import numpy as np
import typer
from rich.console import Console
from rich.table import Table

from labelproof.cli.read_data import read
from labelproof.cli.specs import spec_from
from labelproof.data.encoders.apply import WORDS
from labelproof.data.encoders.efficientnet_lite import LiteEncoder
from labelproof.data.encoders.encode import BATCH
from labelproof.data.encoders.picture_encoding import AUTO, BUILT_IN, DEFAULT, PictureEncoding
from labelproof.data.encoders.texts import (
    MINILM,
    fit_texts,
    load_transformer,
    minilm_folder,
    use_minilm,
)
from labelproof.data.readers.shards import parse_shard, write_shard
from labelproof.errors import BadInput

SENTENCES = [f"Sentence number {k} of a text, as short as most are." for k in range(BATCH)]
EDGE = 64  # pixels of the pictures that the speed is measured with
REST = (
    'timm:NAME      any pretrained network of timm (pip install "labelproof[timm]")\n'
    "hf:NAME        a vision or text model of transformers, from a folder or the hub's cache\n"
    "FILE.onnx      any ONNX file with one picture input and one output of features"
)


@dataclass(frozen=True, kw_only=True)
class Listed:
    """What is known of an encoder."""

    name: str
    data: str
    megabytes: int
    licence: str
    installed: bool
    milliseconds: float | None  # of one example, measured here


def list_encoders(as_json: bool) -> None:
    """Print all encoders."""
    found = [*map(listed, BUILT_IN.values()), words(), sentences()]
    if as_json:
        typer.echo(json.dumps([asdict(row) for row in found], indent=2))
        return
    table = Table("name", "for", "MB", "licence", "installed", "ms each", box=None, pad_edge=False)
    for row in found:
        speed = f"{row.milliseconds:.1f}" if row.milliseconds is not None else ""
        name = f"{row.name} (default)" if row.name == DEFAULT else row.name
        there = "yes" if row.installed else "no"
        table.add_row(name, row.data, str(row.megabytes), row.licence, there, speed)
    console = Console(highlight=False)
    console.print(table)
    console.print(f"\n{REST}", markup=False, soft_wrap=True)


def listed(encoder: LiteEncoder) -> Listed:
    """An encoder with its speed on this machine."""
    installed = encoder.path is not None
    return Listed(
        name=encoder.name,
        data="photos",
        megabytes=encoder.megabytes,
        licence=encoder.licence,
        installed=installed,
        milliseconds=_picture_speed(encoder) if installed else None,
    )


def words() -> Listed:
    """TF-IDF, which is fitted to the texts and needs no weights."""
    encoder, _ = fit_texts(SENTENCES, "text", "the examples")
    speed = _milliseconds(lambda: encoder.transform(SENTENCES))
    return Listed(
        name=WORDS, data="texts", megabytes=0, licence="", installed=True, milliseconds=speed
    )


def sentences() -> Listed:
    """The sentence encoder that ships in a package."""
    installed = minilm_folder() is not None
    return Listed(
        name=MINILM,
        data="texts",
        megabytes=91,
        licence="Apache-2.0",
        installed=installed,
        milliseconds=_sentence_speed() if installed else None,
    )


def _sentence_speed() -> float:
    encoder = use_minilm("text")
    parts = load_transformer(encoder)
    encoder.embed(*parts, SENTENCES)  # the first pass pays for set-up
    return _milliseconds(lambda: encoder.embed(*parts, SENTENCES))


def _picture_speed(encoder: LiteEncoder) -> float:
    work = encoder.open()
    pictures = np.zeros((BATCH, EDGE, EDGE, 3), np.uint8)
    work(pictures)  # the first pass pays for set-up
    return _milliseconds(lambda: work(pictures))


def _milliseconds(work: Callable[[], object]) -> float:
    start = time.perf_counter()
    work()
    return 1000 * (time.perf_counter() - start) / BATCH


def embed_as_asked(ctx: typer.Context, shard: str, out: Path) -> None:
    """Encode the pictures, and write their vectors."""
    part = parse_shard(shard)
    spec = spec_from(ctx)
    name = DEFAULT if spec.encoder == AUTO else spec.encoder
    reading = replace(spec.reading, shard=part if part[1] > 1 else None)
    given = read(replace(spec, encoder=name, reading=reading))
    examples = given.data
    if examples is None or not isinstance(examples.encoder, PictureEncoding):
        raise BadInput("expected pictures to embed, but the data holds none; give pictures")
    path = write_shard(out, part, examples)
    text = f"{len(examples)} vectors of {examples.x.shape[0]} numbers: {path}"
    Console(soft_wrap=True, highlight=False).print(text)
