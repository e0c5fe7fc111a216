"""One picture: from the bytes of a file to uint8 RGB of one size.

The picture is turned as its EXIF tag says, made RGB (transparent parts over white, 16-bit grey
scaled to 8), then its shorter edge is brought to the size asked for and the centre is cut out.
Both happen in one resampling of the centred part, so a picture of 1 x 30,000 pixels never becomes
a huge one. Large JPEGs are decoded at a fraction of their size that is still at least twice the
size asked for. `decode_whole` keeps what `decode` cuts off.
"""

from __future__ import annotations

from collections.abc import Callable
from io import BytesIO
from typing import BinaryIO

import numpy as np
import numpy.typing as npt
from PIL import Image, UnidentifiedImageError

Size = tuple[int, int]  # height, width
Pixels = npt.NDArray[np.uint8]

FORMATS = ("JPEG", "PNG", "WEBP", "BMP", "GIF", "TIFF", "PPM")
SUFFIXES = frozenset(
    (".jpg", ".jpeg", ".jpe", ".png", ".webp", ".bmp", ".gif", ".tif", ".tiff", ".ppm", ".pgm")
)
MOST_PIXELS = 89_478_485  # Pillow's own limit: about 256 MB once decoded
EDGE = 224  # the usual size of pictures of different sizes
LARGEST_KEPT = 256  # pictures of one size are kept as they are up to this edge
ORIENTATION = 0x0112
TURNS = {
    2: Image.Transpose.FLIP_LEFT_RIGHT,
    3: Image.Transpose.ROTATE_180,
    4: Image.Transpose.FLIP_TOP_BOTTOM,
    5: Image.Transpose.TRANSPOSE,
    6: Image.Transpose.ROTATE_270,
    7: Image.Transpose.TRANSVERSE,
    8: Image.Transpose.ROTATE_90,
}


class Unreadable(Exception):
    """A picture that cannot be used; the message is the reason, for the list of exclusions."""


def measure(file: BinaryIO) -> Size:
    """Height and width as they will be shown, from the header alone."""
    try:
        with _open(file) as image:
            width, height = image.size
            return (width, height) if _orientation(image) >= 5 else (height, width)
    except Unreadable:
        raise
    except Exception as error:  # a decoder may fail in any way on a damaged file
        raise Unreadable(reason(error)) from None


def decode(data: bytes, size: Size) -> Pixels:
    """The picture in `data` as uint8 (height, width, 3)."""
    return _decoded(data, max(size), lambda image: fit(image, size))


def decode_whole(data: bytes, edge: int) -> Pixels:
    """The whole picture in the middle of a canvas, uint8 (2 edge, 2 edge, 4).

    Its shorter edge is brought to `edge`; of a longer one, twice that is kept. The fourth channel
    is 255 where the picture is. Around it, the nearest of its pixels are repeated.
    """
    return _decoded(data, edge, lambda image: _on_canvas(image, edge))


def _decoded(data: bytes, edge: int, use: Callable[[Image.Image], Pixels]) -> Pixels:
    try:
        with _open(BytesIO(data)) as image:
            image.draft(None, (2 * edge, 2 * edge))
            return use(image)
    except Unreadable:
        raise
    except Exception as error:  # a decoder may fail in any way on a damaged file
        raise Unreadable(reason(error)) from None


def check(data: bytes) -> None:
    """Decode all of the data and throw the picture away; JPEGs at an eighth of their size."""
    decode(data, (1, 1))


def fit(image: Image.Image, size: Size) -> Pixels:
    """An opened picture, upright, in RGB, resized and cut to `size`."""
    turn = TURNS.get(_orientation(image))
    image = to_rgb(image)
    if turn is not None:
        image = image.transpose(turn)
    height, width = size
    if image.size != (width, height):
        bilinear = Image.Resampling.BILINEAR
        image = image.resize((width, height), bilinear, box=_centre(image.size, size))
    return np.array(image, dtype=np.uint8)


def _on_canvas(image: Image.Image, edge: int) -> Pixels:
    width, height = image.size[:: -1 if _orientation(image) >= 5 else 1]
    short = min(width, height)
    size = (min(edge * height // short, 2 * edge), min(edge * width // short, 2 * edge))
    pixels = fit(image, size)
    around = [((2 * edge - side + 1) // 2, (2 * edge - side) // 2) for side in size]
    shown = np.full((*size, 1), 255, np.uint8)
    return np.concatenate(
        [np.pad(pixels, [*around, (0, 0)], mode="edge"), np.pad(shown, [*around, (0, 0)])], axis=2
    )


def to_rgb(image: Image.Image) -> Image.Image:
    """Any mode as RGB; transparent parts over white."""
    if image.mode == "RGB":
        return image
    if image.mode == "F" or image.mode.startswith("I"):
        image = _deep_grey(image)
    if image.mode in ("RGBA", "LA", "PA", "La", "RGBa") or "transparency" in image.info:
        image = image.convert("RGBA")
        white = Image.new("RGBA", image.size, (255, 255, 255, 255))
        image = Image.alpha_composite(white, image)
    return image.convert("RGB")


def choose_size(sizes: npt.NDArray[np.int64]) -> Size:
    """The size to bring pictures of these (N, 2) sizes to.

    One common size is kept, if its edges are at most 256; otherwise a square with the median
    shorter edge, at most 224.
    """
    if (sizes == sizes[0]).all() and sizes[0].max() <= LARGEST_KEPT:
        return int(sizes[0, 0]), int(sizes[0, 1])
    edge = min(EDGE, int(np.median(sizes.min(axis=1))))
    return edge, edge


def reason(error: Exception) -> str:
    """A decoder's complaint as one short line."""
    if isinstance(error, Image.DecompressionBombError):
        return f"more than {MOST_PIXELS:,} pixels"
    if isinstance(error, UnidentifiedImageError):
        return "not a picture in a known format"
    text = " ".join((getattr(error, "strerror", None) or str(error) or repr(error)).split())
    return text[:120]


def _open(file: BinaryIO) -> Image.Image:
    image = Image.open(file, formats=FORMATS)
    if image.size[0] * image.size[1] > MOST_PIXELS:
        raise Unreadable(f"{image.size[0]} x {image.size[1]}: more than {MOST_PIXELS:,} pixels")
    return image


def _orientation(image: Image.Image) -> int:
    try:
        return int(image.getexif().get(ORIENTATION, 1))
    except Exception:  # a damaged tag says nothing, and is no reason to leave the picture out
        return 1


def _centre(have: tuple[int, int], want: Size) -> tuple[float, float, float, float]:
    """The largest centred part of a (width, height) picture with the proportions wanted."""
    width, height = have
    scale = min(width / want[1], height / want[0])
    left, top = (width - want[1] * scale) / 2, (height - want[0] * scale) / 2
    return max(left, 0), max(top, 0), min(width - left, width), min(height - top, height)


def _deep_grey(image: Image.Image) -> Image.Image:
    """16-bit, 32-bit and float grey as 8 bits, by the range that the values need."""
    values = np.asarray(image, dtype=np.float64)
    low, high = float(values.min()), float(values.max())
    if not (low >= 0 and high <= 65535):
        raise Unreadable(f"grey values from {low:g} to {high:g}, expected 0 to 65535")
    deep = high > 255 or image.mode.startswith("I;16")
    scale = 1 / 257 if deep else 255.0 if image.mode == "F" and high <= 1 else 1.0
    return Image.fromarray(np.rint(values * scale).astype(np.uint8))
