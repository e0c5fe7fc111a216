"""Pictures that are not all in memory: decoded when asked for, or read back from a cache of pixels.

Both decode in threads (Pillow lets other threads run while it decodes), hold no more than one
batch, and carry a hash of every encoded picture, which serves the digest and the search for
duplicates.
"""

from __future__ import annotations

import hashlib
import os
import zlib
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from labelproof.data.examples import Inputs, Subset
from labelproof.data.readers.file_names import Blobs
from labelproof.data.readers.pixels import Size, Unreadable, decode, decode_whole, reason
from labelproof.data.readers.reading_options import Progress
from labelproof.errors import RunFailed

Hashes = npt.NDArray[np.uint8]  # (N, 16)
Sums = npt.NDArray[np.uint32]  # (N,)
Make = Callable[[bytes], npt.NDArray[np.uint8]]  # from an encoded picture to pixels
T = TypeVar("T")


class StreamedImages:
    """Pictures decoded each time they are taken.

    With `margins`, what lies outside the centre square is there for random crops: `whole`.
    """

    def __init__(
        self,
        blobs: Blobs,
        rows: npt.NDArray[np.int64],
        size: Size,
        hashes: Hashes,
        margins: bool = False,
    ) -> None:
        self.blobs = blobs
        self.rows = rows  # readable pictures: example i is picture rows[i]
        self.shape = (*size, 3)
        self.resident = False
        self.hashes = hashes
        self.margins = margins
        self._pool = pool()

    def __len__(self) -> int:
        return len(self.rows)

    def take(self, index: Tensor) -> Tensor:
        """Rows `index` as uint8 (B, H, W, 3)."""
        size = (self.shape[0], self.shape[1])
        return self.made(index, self.shape, lambda data: decode(data, size))

    def made(self, index: Tensor, shape: tuple[int, ...], make: Make) -> Tensor:
        """What `make` makes of the encoded pictures of rows `index`, (B, *shape)."""
        pixels = np.empty((len(index), *shape), np.uint8)

        def fill(place: int, example: int) -> None:
            pixels[place] = self._made(int(self.rows[example]), make)

        list(self._pool.map(fill, range(len(index)), index.tolist()))
        return torch.from_numpy(pixels)

    def digest(self) -> str:
        """Hash of the encoded pictures and of the size they are brought to."""
        return images_digest(self.hashes, self.shape)

    def _made(self, row: int, make: Make) -> npt.NDArray[np.uint8]:
        try:
            return make(read(self.blobs, row))
        except Unreadable as error:
            raise RunFailed(
                f"the picture {self.blobs.name(row)} was readable when the run began and no "
                f"longer is ({error}); restore it and resume"
            ) from None


class WholeImages:
    """Streamed pictures with what lies outside their centre squares, (B, 2 H, 2 W, 4)."""

    def __init__(self, squares: StreamedImages) -> None:
        self.squares = squares
        self.shape = (2 * squares.shape[0], 2 * squares.shape[1], 4)
        self.resident = False

    def __len__(self) -> int:
        return len(self.squares)

    def take(self, index: Tensor) -> Tensor:
        """Rows `index` as `decode_whole` has them."""
        edge = self.squares.shape[0]
        return self.squares.made(index, self.shape, lambda data: decode_whole(data, edge))

    def digest(self) -> str:
        """That of the same pictures as squares."""
        return self.squares.digest()


def whole(x: Inputs) -> Inputs:
    """The inputs as random crops may see them: with their margins, where they have any."""
    if isinstance(x, Subset):
        return Subset(whole(x.x), x.rows)
    return WholeImages(x) if isinstance(x, StreamedImages) and x.margins else x


class CachedImages:
    """Pixels read back from one file of decoded, resized pictures, a row each.

    The file is read rather than mapped, so that the memory of the process stays small.
    """

    def __init__(
        self, path: Path, rows: npt.NDArray[np.int64], size: Size, hashes: Hashes, sums: Sums
    ) -> None:
        self.path = path
        self.sums = sums  # of every row of the file
        self.rows = rows
        self.shape = (*size, 3)
        self.resident = False
        self.hashes = hashes

    def __len__(self) -> int:
        return len(self.rows)

    def take(self, index: Tensor) -> Tensor:
        """Rows `index` as uint8 (B, H, W, 3)."""
        pixels = np.empty((len(index), *self.shape), np.uint8)
        length = int(np.prod(self.shape))
        with open(self.path, "rb", buffering=0) as file:
            for place, example in enumerate(index.tolist()):
                file.seek(int(self.rows[example]) * length)
                if file.readinto(pixels[place].reshape(-1)) != length:
                    raise RunFailed(
                        f"the image cache {self.path} is cut short; delete it and resume"
                    )
                if checksum(pixels[place]) != self.sums[self.rows[example]]:
                    raise RunFailed(
                        f"the image cache {self.path} was damaged; delete it and resume"
                    )
        return torch.from_numpy(pixels)

    def digest(self) -> str:
        """Hash of the encoded pictures and of the size they were brought to."""
        return images_digest(self.hashes, self.shape)


def checksum(pixels: npt.NDArray[np.uint8]) -> int:
    """CRC-32 of a row of pixels: quick, and no flipped bit escapes it."""
    return zlib.crc32(np.ascontiguousarray(pixels).data)


def pool() -> ThreadPoolExecutor:
    """Threads enough to keep the processors busy while some wait for the disk."""
    return ThreadPoolExecutor((os.cpu_count() or 1) + 2, thread_name_prefix="images")


def read(blobs: Blobs, row: int) -> bytes:
    """All bytes of an encoded picture."""
    try:
        with blobs.open(row) as file:
            return file.read()
    except OSError as error:
        raise Unreadable(reason(error)) from None


def fingerprint(data: bytes) -> Hashes:
    """Sixteen bytes that stand for an encoded picture."""
    return np.frombuffer(hashlib.blake2b(data, digest_size=16).digest(), np.uint8)


def images_digest(hashes: Hashes, shape: Sequence[int]) -> str:
    """Hash of pictures in their order, and of the size they come in."""
    return hashlib.sha256(f"{tuple(shape)}".encode() + hashes.tobytes()).hexdigest()


def each_picture(
    blobs: Blobs,
    use: Callable[[int, bytes], object],
    progress: Progress | None,
    done: Callable[[list[Any]], None] = lambda results: None,
) -> tuple[Hashes, dict[int, str]]:
    """Read every picture once, in threads; `done` gets what `use` returned, None for bad ones.

    Returns the hashes of all, (N, 16), and why the bad ones cannot be used.
    """
    hashes = np.zeros((len(blobs), 16), np.uint8)
    bad: dict[int, str] = {}

    def work(row: int) -> object:
        try:
            data = read(blobs, row)
            hashes[row] = fingerprint(data)
            return use(row, data)
        except Unreadable as error:
            bad[row] = str(error)
            return None

    def end(start: int, results: Sequence[Any]) -> None:
        done(list(results))
        if progress is not None:
            progress(start + len(results), len(blobs))

    in_chunks(work, len(blobs), end)
    return hashes, dict(sorted(bad.items()))


def in_chunks(
    work: Callable[[int], T], count: int, done: Callable[[int, Sequence[T]], None]
) -> None:
    """Run `work` for 0..count-1 in threads, some at a time, and hand results on in order."""
    step = 256
    with pool() as threads:
        for start in range(0, count, step):
            done(start, list(threads.map(work, range(start, min(start + step, count)))))
