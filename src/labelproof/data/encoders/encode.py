"""Running an encoder once over all pictures: batched, read ahead, in float16, kept in a cache.

The cache holds a folder for each pair of data and encoder, with a file for each thousand pictures
that is whole or absent. A run that was killed goes on after the last whole file.
Shapes: N pictures, B batch, D width of a vector.
"""

from __future__ import annotations

import hashlib
import io
import os
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from labelproof.data.encoders.encoder_protocol import Batch, OpenEncoder, PictureEncoder, Progress
from labelproof.data.examples import Inputs, Resident
from labelproof.data.plain_files import read_npy
from labelproof.errors import BadInput, RunFailed
from labelproof.files import written_whole

CHUNK = 1024  # pictures a cache file
TAKEN = 64  # pictures decoded at a time
SUM = 32  # bytes of the SHA-256 that ends a cache file
BATCH = 16  # pictures a forward pass: more leave the processor's cache
HOME = "LABELPROOF_CACHE"  # environment variable that names the cache folder
Half = npt.NDArray[np.float16]


def encoding_key(x: Inputs, digest: str, rule: str) -> str:
    """A hash that changes with the examples, the encoder's weights or its input rule."""
    return hashlib.sha256(f"{x.digest()}|{digest}|{rule}".encode()).hexdigest()


def default_cache() -> Path:
    """Where vectors are kept: $LABELPROOF_CACHE, or labelproof in the user's cache folder."""
    if place := os.environ.get(HOME):
        return Path(place)
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "labelproof"


def encode(
    x: Inputs,
    encoder: PictureEncoder,
    *,
    cache: Path | None = None,
    progress: Progress | None = None,
) -> Resident:
    """Vectors of all pictures; they are kept in the cache folder, if there is one."""
    key, work = encoding_key(x, encoder.digest, str(encoder.rule)), _Lazy(encoder)

    def make(rows: range) -> Half:
        return np.concatenate(list(_encoded(x, rows, work, progress)))

    return Resident(in_chunks(make, len(x), key, cache, progress), key)


def in_chunks(
    make: Callable[[range], Half],
    count: int,
    key: str,
    cache: Path | None,
    progress: Progress | None,
) -> Tensor:
    """Vectors (N, D) made some rows at a time, or taken from the cache where they are in it."""
    folder = _made(cache / f"vectors-{key[:32]}") if cache is not None else None
    parts: list[Half] = []
    for start in range(0, count, CHUNK):
        rows = range(start, min(start + CHUNK, count))
        path = folder / f"{start:012d}.npy" if folder is not None else None
        vectors = _read(path, len(rows)) if path is not None else None
        if vectors is None:
            if progress is not None and not start:
                progress(0, count)
            vectors = make(rows)
            if path is not None:
                _write(path, vectors)
        parts.append(vectors)
        if progress is not None:
            progress(rows.stop, count)
    return torch.from_numpy(np.concatenate(parts))


class _Lazy:
    """An encoder that is opened when first called, which a full cache never does."""

    def __init__(self, encoder: PictureEncoder) -> None:
        self._encoder = encoder
        self._open: OpenEncoder | None = None

    def __call__(self, batch: Batch) -> Half:
        self._open = self._open or self._encoder.open()
        vectors = self._open(batch)
        if not np.isfinite(vectors).all():
            raise BadInput(
                f"expected finite vectors from the encoder {self._encoder.name}, but some are not; "
                "choose another with --encoder"
            )
        return np.clip(vectors, -65504, 65504).astype(np.float16)


def _encoded(x: Inputs, rows: range, work: _Lazy, progress: Progress | None) -> Iterator[Half]:
    """Vectors of rows, some at a time; the next pictures are decoded meanwhile."""
    starts = range(rows.start, rows.stop, TAKEN)

    def take(start: int) -> Batch:
        index = torch.arange(start, min(start + TAKEN, rows.stop))
        pictures: Batch = x.take(index).numpy()
        return pictures

    with ThreadPoolExecutor(1) as ahead:
        coming = ahead.submit(take, starts[0])
        for start in starts:
            pictures = coming.result()
            if start + TAKEN < rows.stop:
                coming = ahead.submit(take, start + TAKEN)
            for place in range(0, len(pictures), BATCH):
                yield work(pictures[place : place + BATCH])
            if progress is not None:
                progress(start + len(pictures), len(x))


def _made(folder: Path) -> Path:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise BadInput(
            f"expected a folder for encoded pictures at {folder}, but it cannot be made "
            f"({error.strerror}); name another with --cache"
        ) from None
    return folder


def _read(path: Path, rows: int) -> Half | None:
    """A file of vectors; None where it is absent or damaged, so that it is made again."""
    try:
        content = path.read_bytes()
        if hashlib.sha256(content[:-SUM]).digest() != content[-SUM:]:
            return None
        vectors = read_npy(content[:-SUM])
    except (OSError, ValueError):
        return None
    fits = vectors.dtype == np.float16 and vectors.ndim == 2 and len(vectors) == rows
    return vectors if fits else None


def _write(path: Path, vectors: Half) -> None:
    try:
        content = io.BytesIO()
        np.save(content, vectors, allow_pickle=False)
        whole = content.getvalue()
        with written_whole(path) as aside:
            aside.write_bytes(whole + hashlib.sha256(whole).digest())
    except OSError as error:
        raise RunFailed(
            f"the cache {path.parent} cannot be written ({error.strerror}); free some space or "
            "name another folder with --cache"
        ) from None
