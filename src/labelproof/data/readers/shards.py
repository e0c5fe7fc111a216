"""Vectors that `labelproof embed` wrote, in one or more shards, read back as one set.

A shard is an .npz of plain arrays: vectors `x` in half precision, given labels `y` by name, `id`,
the place `row` of each example in the whole set, and `about`, a JSON text that says which encoder
made the vectors of which data.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from labelproof.data.encoders.picture_encoding import PictureEncoding
from labelproof.data.examples import Examples, Resident
from labelproof.data.labels import encode_labels
from labelproof.data.readers.npz import read_arrays
from labelproof.errors import BadInput
from labelproof.files import written_whole

NAME = re.compile(r"shard-(\d{5})-of-(\d{5})\.npz")
ARRAYS = {"x", "y", "id", "row", "about"}


Shard = tuple[int, int]  # number of a part, from 1, and how many there are


def shard_file(shard: Shard) -> str:
    """The name of the file of a part."""
    return "shard-{:05d}-of-{:05d}.npz".format(*shard)


def parse_shard(text: str) -> Shard:
    """`2/8` is the second of eight shards."""
    found = re.fullmatch(r"\s*(\d{1,5})\s*/\s*(\d{1,5})\s*", text)
    index, count = (int(found[1]), int(found[2])) if found else (0, 0)
    if not 1 <= index <= count:
        raise BadInput(
            f"expected a shard such as 1/8 to 8/8 for --shard, but got {text!r}; give its number "
            "and the number of shards"
        )
    return index, count


def is_shards(folder: Path) -> bool:
    """Whether a folder holds shards of vectors."""
    return any(NAME.fullmatch(path.name) for path in folder.glob("shard-*.npz"))


def write_shard(folder: Path, shard: Shard, examples: Examples) -> Path:
    """Write the vectors of a part, which holds every n-th example of the set."""
    (index, count), encoding = shard, examples.encoder
    assert isinstance(encoding, PictureEncoding)
    assert examples.labels is not None
    names = np.array(examples.classes or (), dtype=str)
    about = {
        "encoding": {**asdict(encoding), "shape": list(encoding.shape)},
        "source": examples.about.get("source"),
        "path": str(Path(str(examples.about.get("path", ""))).absolute()),
    }
    folder.mkdir(parents=True, exist_ok=True)
    every = torch.arange(len(examples))
    ids = list(examples.ids or map(str, range(len(examples))))
    with written_whole(folder / shard_file(shard)) as aside, aside.open("wb") as file:
        np.savez(
            file,
            x=examples.x.take(every).half().numpy(),
            y=names[np.asarray(examples.labels)],
            id=np.array(ids, dtype=str),
            row=index - 1 + count * np.arange(len(examples)),
            about=np.array(json.dumps(about)),
        )
    return folder / shard_file(shard)


def load_shards(folder: Path, merge: bool = False) -> Examples:
    """All shards of a folder as one set, in the order of the data they were made of."""
    paths = _complete(folder)
    parts = [read_arrays(path, set(ARRAYS))[0] for path in paths]
    about = _agreed(paths, parts)
    order = np.argsort(_joined(parts, "row"), kind="stable")
    coded = encode_labels(
        _joined(parts, "y")[order],
        size=len(order),
        what=f"the labels of {folder.name}",
        merge=merge,
    )
    encoding = PictureEncoding(**{**about["encoding"], "shape": tuple(about["encoding"]["shape"])})
    return Examples(
        x=Resident(torch.from_numpy(_joined(parts, "x")[order])),
        labels=coded.labels,
        classes=coded.classes,
        ids=[str(name) for name in _joined(parts, "id")[order]],
        encoder=encoding,
        about={
            "source": "folder",  # the report shows the pictures themselves
            "path": about["path"],
            "shards": str(folder),
            "encoding": encoding.describe(),
            "warnings": list(coded.warnings),
        },
    )


def _complete(folder: Path) -> list[Path]:
    found = {path.name: path for path in folder.glob("shard-*.npz") if NAME.fullmatch(path.name)}
    counts = {int(NAME.fullmatch(name)[2]) for name in found}  # type: ignore[index]
    if len(counts) > 1:
        raise BadInput(
            f"expected shards of one set in {folder}, but they belong to sets of {sorted(counts)} "
            "shards; put each set into its own folder"
        )
    (count,) = counts
    wanted = [shard_file((k, count)) for k in range(1, count + 1)]
    missing = [name for name in wanted if name not in found]
    if missing:
        raise BadInput(
            f"expected {count} shards in {folder}, but {len(missing)} are missing "
            f"({', '.join(missing[:3])}); make them with labelproof embed"
        )
    return [found[name] for name in wanted]


def _agreed(paths: list[Path], parts: list[Mapping[str, Any]]) -> dict[str, Any]:
    for path, part in zip(paths, parts, strict=True):
        lacking = sorted(ARRAYS - set(part))
        if lacking:
            raise BadInput(
                f"expected a shard of labelproof embed, but {path.name} lacks "
                f"{', '.join(lacking)}; make it again"
            )
    try:
        told = [json.loads(str(part["about"])) for part in parts]
        first, *_ = same = [{**t, "path": Path(t["path"]).name} for t in told]
        other = next((p for p, t in zip(paths, same, strict=True) if t != first), None)
        places = [str(t["path"]) for t in told]  # machines may have the data at different places
    except (ValueError, TypeError, KeyError) as error:
        raise BadInput(
            f"a shard in {paths[0].parent} is damaged ({error}); make it again"
        ) from None
    if other is not None:
        raise BadInput(
            f"expected shards of the same data and encoder, but {other.name} differs from "
            f"{paths[0].name} in these; make it again"
        )
    return {**told[0], "path": next(filter(os.path.exists, places), places[0])}


def _joined(parts: list[Mapping[str, Any]], name: str) -> npt.NDArray[Any]:
    return np.concatenate([np.asarray(part[name]) for part in parts])
