"""Vectors that a source hands out some rows at a time: in memory where they fit, else in a file.

The file lies in the cache (`--cache`), as float16 or float32, and belongs to the source's name,
length and time. It appears whole or not at all, serves later runs, and can be deleted at any time.
"""

from __future__ import annotations

import hashlib
import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import numpy as np
import numpy.typing as npt

from labelproof.data.encoders.encode import default_cache
from labelproof.data.readers.file_names import printable
from labelproof.data.readers.on_disk import KEPT, OnDisk
from labelproof.data.readers.reading_options import SourceOptions
from labelproof.errors import BadInput, RunFailed
from labelproof.files import written_whole

Rows = npt.NDArray[Any]  # (n, D)
ROWS, BYTES = 65_536, 1 << 24  # of a batch, at most


@dataclass(frozen=True, kw_only=True)
class InBatches:
    """Vectors (N, D) as a source has them."""

    what: str  # how sentences call them
    key: str  # changes when the source does
    size: int  # N
    width: int  # D
    dtype: str  # float16 or float32
    batches: Callable[[Path], Iterator[Rows]]  # all rows, in order; may put files into a folder

    def kept(self, options: SourceOptions) -> Rows | OnDisk:
        """All of them: in memory up to `--memory-gb`, else in a file."""
        cache = options.cache or default_cache()
        if self.room > options.memory_gb * 1e9:
            return self.on_disk(cache)
        out, place = np.empty((self.size, self.width), self.dtype), 0
        for rows in self._checked(cache):
            out[place : place + len(rows)] = rows
            place += len(rows)
        return out

    @property
    def room(self) -> int:
        """Bytes that all of them take."""
        return self.size * self.width * np.dtype(self.dtype).itemsize

    def _checked(self, cache: Path) -> Iterator[Rows]:
        place = 0
        for rows in self.batches(cache):
            if rows.shape[1] != self.width or place + len(rows) > self.size:
                raise BadInput(
                    f"expected {self.size} rows of {self.width} numbers in {self.what}, but row "
                    f"{place} (counting from 0) has {rows.shape[1]}; give vectors of one length"
                )
            yield as_kept(rows, self.dtype)
            place += len(rows)
        if place != self.size:
            raise BadInput(
                f"expected {self.size} rows in {self.what}, but got {place}; write it again"
            )

    def on_disk(self, cache: Path) -> OnDisk:
        """All of them in a file of this folder, which is written unless it is there."""
        path = cache / f"rows-{self.key[:32]}.raw"
        found = OnDisk(path=path, start=0, size=self.size, width=self.width, dtype=self.dtype)
        if path.is_file() and path.stat().st_size == self.room:
            return found
        with self.writing(cache), written_whole(path) as aside, aside.open("wb") as file:
            self.write(file, cache)
        return found

    def write(self, file: IO[bytes], cache: Path) -> None:
        """Write all of them, row by row."""
        for rows in self._checked(cache):
            file.write(np.ascontiguousarray(rows).reshape(-1).view(np.uint8).data)

    @contextmanager
    def writing(self, cache: Path) -> Iterator[None]:
        """Make the cache for the block, and say in a sentence that it cannot be written."""
        try:
            cache.mkdir(parents=True, exist_ok=True)
            yield
        except OSError as error:
            raise RunFailed(
                f"the cache {printable(str(cache))} cannot be written ({error.strerror}); it needs "
                f"{self.room / 1e9:.1f} GB for {self.what}, and for many columns as much again "
                "while they are read: free some space or name another folder with --cache"
            ) from None


def beside_each_other(parts: Sequence[InBatches], cache: Path) -> Iterator[Rows]:
    """Rows of all parts side by side; each part is first read alone.

    It goes into a file without a name, of which nothing is left even where the process is killed.
    """
    with ExitStack() as opened:
        files = []
        for part in parts:
            with part.writing(cache):
                files.append(opened.enter_context(tempfile.TemporaryFile(dir=cache)))
                part.write(files[-1], cache)
                files[-1].seek(0)
        step = rows_a_batch(sum(part.width for part in parts))
        for begin in range(0, parts[0].size, step):
            count = min(step, parts[0].size - begin)
            yield np.concatenate(
                [_next_rows(file, part, count) for file, part in zip(files, parts, strict=True)],
                axis=1,
            )


def _next_rows(file: IO[bytes], part: InBatches, count: int) -> Rows:
    """So many rows from where a file stands."""
    room = count * part.room // part.size
    return np.frombuffer(file.read(room), part.dtype).reshape(count, part.width)


def as_kept(rows: Rows, dtype: str) -> Rows:
    """Rows in the type in which they are kept; what that cannot hold becomes infinite."""
    with np.errstate(over="ignore"):
        return rows if rows.dtype.name == dtype else rows.astype(dtype)


def kept_type(dtype: np.dtype[Any]) -> str:
    """float16 and float32 stay as they are; every other number becomes float32."""
    return dtype.name if dtype.name in KEPT else "float32"


def rows_a_batch(width: int) -> int:
    """How many rows of float64 a batch has."""
    return max(1, min(ROWS, BYTES // (8 * max(1, width))))


def file_key(files: Iterable[Path], *more: object) -> str:
    """A hash of names, lengths and times of files, and of what else matters."""
    parts: list[object] = [*more]
    for path in files:
        found = path.stat()
        parts += [str(path.resolve()), found.st_size, found.st_mtime_ns, found.st_ino]
    return hashlib.sha256(repr(parts).encode()).hexdigest()


def column_of_lists(
    read: Callable[[int], Iterator[Any]],
    wanted: npt.NDArray[np.int64],
    *,
    key: str,
    what: str,
    source: str,
) -> InBatches:
    """The wanted rows of a column of lists; `read` gives Arrow's tables of it, some rows each."""

    def batches(step: int) -> Iterator[Rows]:
        place = 0
        for table in read(step):
            for chunk in table.column(0).chunks if table.num_rows else ():
                begin, end = np.searchsorted(wanted, [place, place + len(chunk)])
                rows = list_rows(chunk, place, what)
                yield rows if end - begin == len(rows) else rows[wanted[begin:end] - place]
                place += len(chunk)

    first = next(batches(64), None)
    if first is None:
        raise BadInput(f"expected rows in {what}, but there is none; check {source}")
    width = first.shape[1]
    return InBatches(
        what=what,
        key=key,
        size=len(wanted),
        width=width,
        dtype=kept_type(first.dtype),
        batches=lambda _: batches(rows_a_batch(width)),
    )


def list_rows(column: Any, place: int, what: str) -> Rows:
    """Lists of numbers of Arrow as rows (n, D); `place` is the number of the first."""
    lengths = column.value_lengths().to_numpy(zero_copy_only=False)
    bad = np.flatnonzero(np.isnan(lengths) | (lengths != lengths[0]) | (lengths == 0))
    if len(bad):
        row, first = place + int(bad[0]), lengths[0]
        found = lengths[bad[0]]
        raise BadInput(
            f"expected vectors of one length in {what}, but row {row} (counting from 0) has "
            f"{'none' if np.isnan(found) else f'{found:g} numbers'}"
            f"{'' if row == place else f' and row {place} has {first:g}'}; remove or repair it"
        )
    numbers = column.flatten()
    if numbers.null_count:
        gap = int(np.flatnonzero(numbers.is_null().to_numpy(zero_copy_only=False))[0])
        raise BadInput(
            f"expected numbers in {what}, but {numbers.null_count} are missing, the first in row "
            f"{place + gap // int(lengths[0])} (counting from 0); fill them in or remove these rows"
        )
    values: Rows = numbers.to_numpy(zero_copy_only=False)
    return values.reshape(len(column), -1)
