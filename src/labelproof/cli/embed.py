"""`labelproof embed`: vectors of pictures, in shards that several machines can make."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from labelproof.cli import options as opt
from labelproof.cli.read_data import read
from labelproof.cli.specs import spec_from
from labelproof.data.encoders.choose import AUTO, DEFAULT
from labelproof.data.encoders.picture_encoding import PictureEncoding
from labelproof.data.readers.shards import parse_shard, write_shard
from labelproof.errors import BadInput


def embed(
    ctx: typer.Context,
    data: opt.Data = None,
    labels: opt.Labels = None,
    label_column: opt.LabelColumn = None,
    file_column: opt.FileColumn = None,
    id_column: opt.IdColumn = None,
    image_size: opt.ImageSize = None,
    max_bad: opt.MaxBad = 0.01,
    cache: opt.Cache = None,
    memory_gb: opt.MemoryGb = 2.0,
    encoder: opt.Encoder = "auto",
    shard: Annotated[
        str,
        typer.Option(
            help="Which part to encode, such as 1/8. Each part can be encoded on another machine."
        ),
    ] = "1/1",
    out: Annotated[Path, typer.Option(help="Folder for the shards.")] = Path("vectors"),
) -> None:
    """Encode the pictures of DATA and write their vectors, for `labelproof fit FOLDER`.

    If pictures differ in size, give --image-size, so that all shards use the same one.

    Example: labelproof embed photos --shard 1/4 --out vectors
    """
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
