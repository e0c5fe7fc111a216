"""The image operations of AutoAugment and RandAugment, batched, a magnitude per image.

Every operation takes uint8 images (n, H, W, 3), magnitudes (n,) on the CPU and the grey level that
fills uncovered pixels, and returns new images of the same shape. They are defined as in Pillow
(affine maps with nearest-neighbour sampling at 16-bit fixed-point coordinates; the smooth shears
with its bicubic filter) and agree with it to within a grey level.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from torch import Tensor
from torch.nn import functional as F

Operation = Callable[[Tensor, Tensor, int], Tensor]


def shear_x(x: Tensor, magnitude: Tensor, fill: int) -> Tensor:
    """Rows slide sideways by `magnitude` pixels a row, starting from the top."""
    return _affine(x, _matrix(len(x), xy=magnitude), fill)


def shear_y(x: Tensor, magnitude: Tensor, fill: int) -> Tensor:
    """Columns slide up by `magnitude` pixels a column, starting from the left."""
    return _affine(x, _matrix(len(x), yx=magnitude), fill)


def smooth_shear_x(x: Tensor, magnitude: Tensor, fill: int) -> Tensor:
    """`shear_x` by cubic interpolation along the rows, as the released ImageNet policy has it."""
    _, height, width, channels = x.shape
    column = torch.arange(width, dtype=torch.float64) + 0.5
    row = torch.arange(height, dtype=torch.float64) + 0.5
    exact = torch.float32 if x.device.type == "mps" else torch.float64
    at = (column + magnitude.double()[:, None, None] * row[:, None]).to(
        x.device, exact
    )  # (n, H, W)
    first = (at - 0.5).floor()
    taps = _cubic(at - 0.5 - first)
    values = torch.zeros(x.shape, dtype=exact, device=x.device)
    for step, weight in zip(range(-1, 3), taps, strict=True):
        place = (first + step).clamp(0, width - 1).long()[..., None].expand(-1, -1, -1, channels)
        values += weight[..., None] * x.gather(2, place)
    inside = (at >= 0) & (at < width)
    # the sum of four products may miss a whole level by rounding; Pillow truncates
    return (values + 1e-9).clamp(0, 255).to(torch.uint8).masked_fill_(~inside[..., None], fill)


def smooth_shear_y(x: Tensor, magnitude: Tensor, fill: int) -> Tensor:
    """`shear_y` by cubic interpolation along the columns."""
    return smooth_shear_x(x.transpose(1, 2), magnitude, fill).transpose(1, 2).contiguous()


def translate_x(x: Tensor, magnitude: Tensor, fill: int) -> Tensor:
    """The image moves left by `magnitude` of its width."""
    return _affine(x, _matrix(len(x), x0=magnitude.double() * x.shape[2]), fill)


def translate_y(x: Tensor, magnitude: Tensor, fill: int) -> Tensor:
    """The image moves up by `magnitude` of its height."""
    return _affine(x, _matrix(len(x), y0=magnitude.double() * x.shape[1]), fill)


def rotate(x: Tensor, magnitude: Tensor, fill: int) -> Tensor:
    """The image turns counter-clockwise about its centre by `magnitude` degrees."""
    angle = torch.deg2rad(magnitude.double())
    cos, sin = angle.cos(), angle.sin()
    across, down = x.shape[2] / 2, x.shape[1] / 2
    x0 = across - cos * across + sin * down
    y0 = down - sin * across - cos * down
    return _affine(x, torch.stack([cos, -sin, x0, sin, cos, y0], dim=1), fill)


def auto_contrast(x: Tensor, magnitude: Tensor, fill: int) -> Tensor:
    """Each channel is stretched so that its darkest pixel is 0 and its lightest 255."""
    low, high = x.amin((1, 2)).int()[..., None], x.amax((1, 2)).int()[..., None]
    levels = torch.arange(256, device=x.device, dtype=torch.int32)
    stretched = ((levels - low) * 255 // (high - low).clamp(min=1)).clamp(0, 255)
    return _lookup(x, torch.where(high > low, stretched, levels))


def equalize(x: Tensor, magnitude: Tensor, fill: int) -> Tensor:
    """Each channel's histogram is made as flat as whole grey levels allow."""
    counts = _histogram(x)
    below = counts.cumsum(2) - counts
    levels = torch.arange(256, device=x.device)
    lightest = (counts > 0).mul(levels).amax(2, keepdim=True)
    step = below.gather(2, lightest) // 255
    flat = ((step // 2 + below) // step.clamp(min=1)).clamp(max=255)
    return _lookup(x, torch.where(step > 0, flat, levels))


def invert(x: Tensor, magnitude: Tensor, fill: int) -> Tensor:
    """The negative."""
    return 255 - x


def solarize(x: Tensor, magnitude: Tensor, fill: int) -> Tensor:
    """Levels of `magnitude` and above are inverted."""
    # A whole level is at or above m exactly when it is at or above the ceiling of m.
    threshold = magnitude.ceil().clamp(0, 256).to(x.device, torch.int16).view(-1, 1, 1, 1)
    return torch.where(x < threshold, x, 255 - x)


def posterize(x: Tensor, magnitude: Tensor, fill: int) -> Tensor:
    """Only the `magnitude` highest bits of each level are kept."""
    kept = 256 - 2 ** (8 - magnitude.int())
    return x & kept.to(x.device, torch.uint8).view(-1, 1, 1, 1)


def brightness(x: Tensor, magnitude: Tensor, fill: int) -> Tensor:
    """Black at 0, the image at 1, beyond it at more."""
    return _blend(torch.zeros((), device=x.device), x, magnitude)


def contrast(x: Tensor, magnitude: Tensor, fill: int) -> Tensor:
    """The mean grey level at 0, the image at 1, beyond it at more."""
    pixels = x.shape[1] * x.shape[2]
    # round(sum / pixels) in integers, so that every device agrees
    mean = (2 * _grey(x).sum((1, 2), dtype=torch.int64) + pixels) // (2 * pixels)
    return _blend(mean.float().view(-1, 1, 1, 1), x, magnitude)


def color(x: Tensor, magnitude: Tensor, fill: int) -> Tensor:
    """The image in grey at 0, the image at 1, beyond it at more."""
    return _blend(_grey(x).float()[..., None], x, magnitude)


def sharpness(x: Tensor, magnitude: Tensor, fill: int) -> Tensor:
    """The image smoothed at 0, the image at 1, beyond it at more; the outermost pixels stay."""
    smooth = x.float()
    if min(x.shape[1:3]) > 2:
        planes = smooth.permute(0, 3, 1, 2)
        total = F.avg_pool2d(planes, 3, stride=1, divisor_override=1).permute(0, 2, 3, 1)
        inner = (total + 4 * smooth[:, 1:-1, 1:-1]) / 13  # weights 1 around, 5 in the middle
        smooth = smooth.clone()
        smooth[:, 1:-1, 1:-1] = (inner + 0.5).floor()
    return _blend(smooth, x, magnitude)


OPERATIONS: dict[str, Operation] = {
    "ShearX": shear_x,
    "ShearY": shear_y,
    "TranslateX": translate_x,
    "TranslateY": translate_y,
    "Rotate": rotate,
    "AutoContrast": auto_contrast,
    "Invert": invert,
    "Equalize": equalize,
    "Solarize": solarize,
    "Posterize": posterize,
    "Contrast": contrast,
    "Color": color,
    "Brightness": brightness,
    "Sharpness": sharpness,
    "SmoothShearX": smooth_shear_x,
    "SmoothShearY": smooth_shear_y,
}


def _matrix(
    count: int,
    xy: Tensor | float = 0.0,
    x0: Tensor | float = 0.0,
    yx: Tensor | float = 0.0,
    y0: Tensor | float = 0.0,
) -> Tensor:
    """Identity maps from view to image with some coefficients set, (n, 6) in double."""
    matrix = torch.tensor([1.0, 0, 0, 0, 1.0, 0], dtype=torch.float64).repeat(count, 1)
    for column, value in ((1, xy), (2, x0), (3, yx), (5, y0)):
        matrix[:, column] = torch.as_tensor(value, dtype=torch.float64)
    return matrix


def _affine(x: Tensor, matrix: Tensor, fill: int) -> Tensor:
    """Nearest-neighbour samples of x at matrix @ (column, row, 1), `fill` outside the image."""
    count, height, width, channels = x.shape
    steps = matrix.clone()
    steps[:, 2] += 0.5 * (matrix[:, 0] + matrix[:, 1])  # pixel centres
    steps[:, 5] += 0.5 * (matrix[:, 3] + matrix[:, 4])
    fixed = (steps * 65536 + 0.5).floor().long().to(x.device).view(count, 2, 3, 1, 1)
    row = torch.arange(height, device=x.device)[:, None]
    column = torch.arange(width, device=x.device)
    source = (fixed[:, :, 0] * column + fixed[:, :, 1] * row + fixed[:, :, 2]) >> 16
    across, down = source[:, 0], source[:, 1]
    inside = (across >= 0) & (across < width) & (down >= 0) & (down < height)
    image = torch.arange(count, device=x.device).view(-1, 1, 1) * (height * width)
    pixel = torch.where(inside, image + down * width + across, 0)
    moved = x.reshape(-1, channels).index_select(0, pixel.view(-1)).view(x.shape)
    return moved.masked_fill_(~inside[..., None], fill)


def _cubic(d: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Weights of four neighbours at distance d past the second: the cubic kernel with a = -1."""
    return (
        d * (-1 + d * (2 - d)),
        1 + d * d * (d - 2),
        d * (1 + d * (1 - d)),
        d * d * (d - 1),
    )


def _channel(x: Tensor) -> Tensor:
    """Position of each channel's 256 entries in a table of all images' channels."""
    offsets = torch.arange(x.shape[0] * x.shape[3], device=x.device, dtype=torch.int32) * 256
    return offsets.view(-1, 1, 1, x.shape[3])


def _histogram(x: Tensor) -> Tensor:
    """How often each level occurs in each channel, (n, 3, 256)."""
    shape = (x.shape[0], x.shape[3], 256)
    levels = (x.int() + _channel(x)).view(-1)
    return torch.bincount(levels, minlength=math.prod(shape)).view(shape)


def _lookup(x: Tensor, table: Tensor) -> Tensor:
    """Each level replaced through its channel's row of `table`, (n, 3, 256)."""
    levels = (x.int() + _channel(x)).view(-1)
    return table.to(torch.uint8).view(-1).index_select(0, levels).view(x.shape)


def _grey(x: Tensor) -> Tensor:
    """Luma of ITU-R 601-2 in Pillow's fixed point, (n, H, W)."""
    red, green, blue = x.int().unbind(3)
    return (19595 * red + 38470 * green + 7471 * blue + 32768) >> 16


def _blend(start: Tensor, x: Tensor, factor: Tensor) -> Tensor:
    """`start` at factor 0, `x` at factor 1, clipped and truncated to grey levels."""
    weight = factor.to(x.device, torch.float32).view(-1, 1, 1, 1)
    return (start + weight * (x.float() - start)).clamp_(0, 255).to(torch.uint8)
