"""`labelproof embed`: vectors of pictures, in shards that several machines can make."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import typer
from rich.console import Console

from labelproof.cli.read_data import read
from labelproof.cli.specs import spec_from
from labelproof.data.encoders.choose import AUTO, DEFAULT
from labelproof.data.encoders.picture_encoding import PictureEncoding
from labelproof.data.readers.shards import parse_shard, write_shard
from labelproof.errors import BadInput


def embed_as_asked(ctx: typer.Context, shard: str, out: Path) -> None:
    """Encode the pictures, and write their vectors."""
    part = parse_shard(shard)
    spec = spec_from(ctx)
    name = DEFAULT if spec.encoder == AUTO else spec.encoder
    reading = replace(spec.reading, shard=(part.index, part.count) if part.count > 1 else None)
    given = read(replace(spec, encoder=name, reading=reading))
    examples = given.data
    if examples is None or not isinstance(examples.encoder, PictureEncoding):
        raise BadInput("expected pictures to embed, but the data holds none; give pictures")
    path = write_shard(out, part, examples)
    text = f"{len(examples)} vectors of {examples.x.shape[0]} numbers: {path}"
    Console(soft_wrap=True, highlight=False).print(text)
