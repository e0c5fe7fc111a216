"""What a person is shown of an example: its picture, or its row or text in words.

Pictures of a folder come straight from their files, so nothing else need be read first; all other
data comes from `Examples`.
"""

from __future__ import annotations

import base64
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy.typing as npt
import torch
from PIL import Image

from labelproof.data.examples import Captions, Examples
from labelproof.data.readers.pixels import Unreadable, decode, measure
from labelproof.judging.label_table import LabelRows

PIXEL_ART = 64  # pictures up to this edge are kept without loss and shown with sharp pixels
LONGEST = 5000  # letters of a text
NUMBERS = 6  # of a vector
Cells = list[tuple[str, str]]  # column and value


@dataclass(frozen=True, kw_only=True)
class Picture:
    """An encoded picture."""

    data: bytes
    kind: str  # its media type
    width: int
    height: int

    @property
    def coarse(self) -> bool:
        """Whether so small that enlarging it should keep its pixels sharp."""
        return max(self.width, self.height) <= PIXEL_ART

    def uri(self) -> str:
        """The picture as an address that needs no file."""
        return f"data:{self.kind};base64,{base64.b64encode(self.data).decode()}"


@dataclass(frozen=True, kw_only=True)
class Example:
    """One example as it was given."""

    name: str
    label: str
    picture: Picture | None
    text: str | None


class Shown:
    """Shows examples by their index in training; this one has nothing to show."""

    def picture(self, index: int, edge: int) -> Picture | None:
        """The picture, no edge longer than `edge`; None where there is none to show."""
        return None

    def text(self, index: int) -> str | None:
        """The row or text in words."""
        return None

    def cells(self, index: int) -> Cells | None:
        """The row of a table, column by column; None where it is none."""
        return None


class FromExamples(Shown):
    """Shows what a source read."""

    def __init__(self, examples: Examples) -> None:
        self._examples = examples

    def picture(self, index: int, edge: int) -> Picture | None:
        """The picture as the network saw it, in RGB."""
        pictures = self._examples.raw or self._examples.x
        if len(pictures.shape) != 3:
            return None
        return encode(pictures.take(torch.tensor([index]))[0].numpy(), edge)

    def text(self, index: int) -> str | None:
        """The caption, or the first numbers of a vector."""
        if self._examples.captions is not None:
            return shorten(self._examples.captions[index])
        if self._examples.kind == "images" or self._examples.raw is not None:
            return None
        values = self._examples.x.take(torch.tensor([index]))[0].tolist()
        first = ", ".join(f"{value:.3g}" for value in values[:NUMBERS])
        return f"{first}, … ({len(values)} numbers)" if len(values) > NUMBERS else first

    def cells(self, index: int) -> Cells | None:
        """The row of a table with all its columns."""
        captions = self._examples.captions
        return captions.cells(index) if isinstance(captions, Captions) else None


class FromFiles(Shown):
    """Shows the picture files of a folder, whole and as sharp as they are."""

    def __init__(self, root: Path, names: Sequence[str], below: Sequence[str] = ()) -> None:
        self._root = root
        self._names = names
        places = (Path(os.path.abspath(place)) for place in below or [str(root)])
        self._below = [place for place in places if place != place.parent]  # where all of them lie

    def picture(self, index: int, edge: int) -> Picture | None:
        """The file's picture; None where the file is gone or no longer a picture."""
        path = self.path(index)
        try:
            if path is None or not path.is_file():  # a pipe would block for ever
                return None
            data = path.read_bytes()
            height, width = measure(BytesIO(data))
            scale = min(1.0, edge / max(height, width))
            size = max(1, round(height * scale)), max(1, round(width * scale))
            return encode(decode(data, size), edge)
        except (OSError, ValueError, Unreadable):
            return None

    def path(self, index: int) -> Path | None:
        """Where the file lies."""
        name = self._names[index]
        place = self._root / name
        whole = Path(os.path.abspath(place))
        if not name or not any(whole.is_relative_to(one) for one in self._below):
            return None  # labels.csv was tampered with: nothing outside the folder is shown
        return place


def shown_from(record: Mapping[str, Any], rows: LabelRows, examples: Examples | None) -> Shown:
    """The best way to show examples: their files, else what was read, else nothing."""
    return files_of(record, rows) or (FromExamples(examples) if examples else Shown())


def files_of(record: Mapping[str, Any], rows: LabelRows) -> FromFiles | None:
    """The picture files of a run on a folder, if that folder is still there."""
    data = record.get("data") or {}
    root, columns = Path(str(data.get("path", ""))), data.get("columns") or {}
    if data.get("source") in ("csv", "parquet") and "file" in columns and "id" not in columns:
        root = root.parent  # a table of picture files, named by them
    elif data.get("pictures"):
        root = Path(str(data["pictures"]))  # vectors with a list of their pictures
    elif data.get("source") != "folder" or "id" in columns:
        return None
    if not data.get("path") or not root.is_dir():
        return None
    below = data.get("below") or []
    return FromFiles(root, rows.names(), [below] if isinstance(below, str) else below)


def encode(pixels: npt.NDArray[Any], edge: int) -> Picture:
    """uint8 (H, W, 3) as PNG where small, as JPEG where not."""
    image = Image.fromarray(pixels)
    image.thumbnail((edge, edge))
    out = BytesIO()
    small = max(image.size) <= PIXEL_ART
    if small:
        image.save(out, "PNG", optimize=True)
    else:
        image.save(out, "JPEG", quality=82)
    return Picture(
        data=out.getvalue(),
        kind="image/png" if small else "image/jpeg",
        width=image.width,
        height=image.height,
    )


def shorten(text: str, most: int = LONGEST) -> str:
    """A text cut where it gets too long."""
    return text if len(text) <= most else text[: most - 1].rstrip() + "…"
