"""Finding published files below the data folder, and reading them as plain data: nothing is run."""

from __future__ import annotations

import io
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from labelproof.data.plain_files import Refused, read_npy, read_plain, read_saved
from labelproof.data.plain_files.numpy_files import read_shape
from labelproof.data.readers.reading_options import SourceOptions
from labelproof.errors import BadInput
from labelproof.files import read_regular
from labelproof.messages import cut_short


@dataclass(frozen=True, kw_only=True)
class Published:
    """One published form of a data set."""

    title: str
    home: str  # the data set's own page
    archive: str  # what to fetch there
    folder: str  # where its files go, below the data folder
    files: tuple[str, ...]
    others: tuple[str, ...] = ()  # further folders that are tried; "" is the data folder itself


def data_dir(options: SourceOptions) -> Path:
    """The folder that holds benchmark sets: `--data-dir`, or `data` in the current folder."""
    return options.data_dir if options.data_dir is not None else Path("data")


def locate(root: Path, forms: Sequence[Published]) -> tuple[Published, dict[str, Path]]:
    """The first form whose files are all there, with their paths.

    Raises:
        BadInput: If no form is complete; says which files are missing, where they are published and
            where to put them.
    """
    for form in forms:
        for folder in (form.folder, *form.others):
            paths = {name: find(root / folder, name) for name in form.files}
            found = {name: path for name, path in paths.items() if path is not None}
            if len(found) == len(form.files):
                return form, found
    raise absent(root, forms[0])


def find(folder: Path, name: str) -> Path | None:
    """A file, or its gzipped form."""
    for candidate in (folder / name, folder / f"{name}.gz"):
        if candidate.is_file():
            return candidate
    return None


def absent(root: Path, form: Published) -> BadInput:
    """The sentence about missing files of a form."""
    missing = [name for name in form.files if find(root / form.folder, name) is None]
    verb = "are" if len(missing) > 1 else "is"
    above = "that holds them" if not form.folder else f"that holds {form.folder}"
    return BadInput(
        f"expected the files of {form.title} in {root / form.folder}, but "
        f"{cut_short(missing[:3], len(missing))} {verb} not there; fetch {form.archive} from "
        f"{form.home} and put the files there, or name the folder {above} with --data-dir"
    )


LARGEST = 2**31  # bytes of a published file


def plain(data: bytes, name: str) -> Any:
    """The dict, list or array that a pickle describes."""
    return _understood(read_plain, data, name)


def plain_file(path: Path) -> Any:
    """Plain data of a pickle file."""
    return plain(read_bytes(path), path.name)


def plain_torch(path: Path) -> Any:
    """Plain data, arrays or tensors of a file written by `torch.save`."""
    return _understood(read_saved, read_bytes(path), path.name)


def plain_npy(path: Path) -> Any:
    """An .npy file: a plain array, or the plain object that was saved in its stead."""
    data = read_bytes(path)
    file = io.BytesIO(data)
    try:
        if read_shape(file).dtype != np.dtype(object):
            return read_npy(data)
    except Refused as error:
        raise BadInput(
            f"expected an .npy file, but {path.name} could not be read ({error}); fetch it again"
        ) from None
    return plain(file.read(), path.name)


def read_bytes(path: Path) -> bytes:
    """All bytes of a published file."""
    return read_regular(path, LARGEST)


def _understood(read: Callable[[bytes], Any], data: bytes, name: str) -> Any:
    try:
        return read(data)
    except Refused as error:
        raise BadInput(
            f"expected plain arrays and lists in {name}, but it is damaged or would run code when "
            f"loaded, so it was refused ({' '.join(str(error).split())[:120]}); "
            "fetch the published file again"
        ) from None
