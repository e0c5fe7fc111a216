"""Views of images: random crop and flip (weak), a drawn policy of operations before them (strong).

Shapes: B batch, H and W stored size, h and w size of the view. Pictures with margins come as
(B, H, W, 4), in the middle of a canvas; the fourth channel says where the picture is. Random crops
are then taken from the whole picture, and the plain view from its centre.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Literal

import torch
from torch import Tensor
from torch.nn import functional as F

from labelproof.data.task import Policy, Strong
from labelproof.views.colour_jitter import jitter
from labelproof.views.policies import AFTER_CROP, AFTER_ZOOM, RandAugment, apply_policy


@dataclass(frozen=True, kw_only=True)
class ImageViews:
    """Normalised images, and random changes of them drawn per image.

    Attributes:
        mean: Mean of each channel, of pixels in [0, 1].
        std: Standard deviation of each channel.
        size: Side of the square view; the stored size where None.
        crop: "pad" crops from the image inside a black border; "resized" zooms into a random box.
        padding: Width of that border.
        flip: Whether half of the views are mirrored left to right.
        policy: The operations of the strong view: a name, or `RandAugment(n=..., m=...)`.
        cutout: Side of the square the strong view blanks; 0 blanks none.

    The strong view's operations come before crop and flip, as in DPC*. The policies "imagenet" and
    "cifar10_ninths" come after a flip and a random crop that does not zoom, as DPC* has it for
    WebVision and UniCon for all data. "imagenet_zoomed" and "colour_jitter" come after a crop that
    zooms, as in SSR and MOIT.
    """

    mean: tuple[float, ...]
    std: tuple[float, ...]
    size: int | None = None
    crop: Literal["pad", "resized"] = "pad"
    padding: int = 4
    flip: bool = True
    policy: Policy | RandAugment = "cifar10"
    cutout: int = 16

    def plain(self, x: Tensor) -> Tensor:
        """The centre of the image, normalised: (B, 3, h, w)."""
        x = self._enlarged(x)[..., :3]
        height, width = self._shape(x)
        top, left = (x.shape[1] - height) // 2, (x.shape[2] - width) // 2
        return self._normalised(x[:, top : top + height, left : left + width].contiguous())

    def weak(self, x: Tensor, rng: torch.Generator) -> Tensor:
        """A random crop, mirrored half of the time, normalised: (B, 3, h, w)."""
        return self._normalised(self._cropped(self._enlarged(x), rng))

    def strong(self, x: Tensor, rng: torch.Generator, own: Strong | None = None) -> Tensor:
        """The policy's operations with a random crop and flip, normalised, then Cutout."""
        if own is not None:
            return self.like(own).strong(x, rng)
        x = self._enlarged(x)
        if self.policy == "colour_jitter":
            x = jitter(self._zoomed(x, rng), rng)
        elif self.policy in AFTER_ZOOM:
            crops = self._zoomed(x, rng).round().byte().contiguous()
            x = apply_policy(crops, self.policy, rng)
        elif self.policy in AFTER_CROP:
            x = apply_policy(self._padded_crop(x, rng), self.policy, rng)
        elif x.shape[3] == 4:  # there is nothing to turn or shift beyond the margins
            crops = self._cropped(x, rng).round().byte().contiguous()
            x = apply_policy(crops, self.policy, rng)
        else:
            x = self._cropped(apply_policy(x, self.policy, rng), rng)
        return cut_out(self._normalised(x), self.cutout, rng)

    def like(self, own: Strong) -> ImageViews:
        """These views with a method's strong one."""
        large = self.crop == "resized" or self.policy == "imagenet"  # a recipe may set the crop
        policy = own.large if large else own.small
        return replace(self, policy=policy, cutout=self.cutout if own.cutout else 0)

    def _shape(self, x: Tensor) -> tuple[int, int]:
        return (self.size, self.size) if self.size else (x.shape[1], x.shape[2])

    def _enlarged(self, x: Tensor) -> Tensor:
        """Images stored smaller than the view, enlarged to cover it."""
        height, width = self._shape(x)
        factor = max(height / x.shape[1], width / x.shape[2])
        if factor <= 1 or x.shape[3] == 4:
            return x
        size = (round(x.shape[1] * factor), round(x.shape[2] * factor))
        large = F.interpolate(x.permute(0, 3, 1, 2).float(), size, mode="bilinear")
        return large.round().byte().permute(0, 2, 3, 1).contiguous()

    def _cropped(self, x: Tensor, rng: torch.Generator) -> Tensor:
        return self._padded_crop(x, rng) if self.crop == "pad" else self._zoomed(x, rng)

    def _zoomed(self, x: Tensor, rng: torch.Generator) -> Tensor:
        sides = shown(x, rng.device)
        centre, box = draw_boxes(sides, rng)
        if x.shape[3] == 4:  # from fractions of the picture to those of its canvas
            canvas = torch.tensor([x.shape[2], x.shape[1]], device=rng.device)
            centre = ((canvas - sides + 1) // 2 + centre * sides) / canvas
            box = box * sides / canvas
        return resized_crop(x[..., :3], centre, box, self._mirror(x, rng), self._shape(x))

    def _padded_crop(self, x: Tensor, rng: torch.Generator) -> Tensor:
        height, width = self._shape(x)
        if x.shape[3] == 4:
            sides = shown(x, rng.device)
            canvas = torch.tensor([x.shape[2], x.shape[1]], device=rng.device)
            places = sides - torch.tensor([width, height], device=rng.device) + 1
            drawn = torch.rand(sides.shape, generator=rng, device=rng.device)
            drawn = (drawn * places).long()
            left, top = ((canvas - sides + 1) // 2 + drawn).unbind(1)
            return padded_crop(x[..., :3], top, left, self._mirror(x, rng), 0, (height, width))
        room = (x.shape[1] + 2 * self.padding - height, x.shape[2] + 2 * self.padding - width)
        top = torch.randint(room[0] + 1, (len(x),), generator=rng, device=rng.device)
        left = torch.randint(room[1] + 1, (len(x),), generator=rng, device=rng.device)
        return padded_crop(x, top, left, self._mirror(x, rng), self.padding, (height, width))

    def _mirror(self, x: Tensor, rng: torch.Generator) -> Tensor:
        drawn = torch.rand(len(x), generator=rng, device=rng.device)
        return drawn < (0.5 if self.flip else 0.0)

    def _normalised(self, x: Tensor) -> Tensor:
        """(B, h, w, 3) grey levels to (B, 3, h, w) in units of the channels' spread."""
        # Whole rows at a time: an inner loop over 3 channels would be several times slower.
        rows = x.reshape(-1, x.shape[2] * x.shape[3]).float()
        factor, offset = _scaling(self.mean, self.std, x.shape[2], x.device)
        return rows.mul_(factor).sub_(offset).view(x.shape).permute(0, 3, 1, 2)


@lru_cache(maxsize=64)
def _scaling(
    mean: tuple[float, ...], std: tuple[float, ...], width: int, device: torch.device
) -> tuple[Tensor, Tensor]:
    """What a row of grey levels is multiplied by and what is taken off, made once for a device."""
    centre, spread = torch.tensor(mean, device=device), torch.tensor(std, device=device)
    return (1 / (255 * spread)).repeat(width), (centre / spread).repeat(width)


def padded_crop(
    x: Tensor, top: Tensor, left: Tensor, mirror: Tensor, padding: int, size: tuple[int, int]
) -> Tensor:
    """Crops of uint8 images inside a black border, some mirrored.

    A crop is a block of the bordered images' memory with a start of its own, so that one look-up
    among all possible starts copies whole rows of pixels at a time.

    Args:
        x: Images, (B, H, W, 3).
        top: First row of each crop in the bordered image, (B,).
        left: First column of each crop in the bordered image, (B,).
        mirror: Which crops are mirrored left to right, (B,) bool.
        padding: Width of the border.
        size: Height and width of a crop.

    Returns:
        The crops, (B, h, w, 3).
    """
    (height, width), channels = size, x.shape[3]
    bordered = F.pad(x, (0, 0, padding, padding, padding, padding))
    row, pixel = bordered.stride(1), bordered.stride(2)
    image = torch.arange(len(x), device=top.device) * bordered.stride(0)
    start = image + top * row + left * pixel
    block = (height - 1) * row + width * pixel
    starts = (bordered.numel() - block + 1, height, width * channels)
    crops = bordered.as_strided(starts, (1, row, 1)).index_select(0, start.to(x.device))
    crops = crops.view(len(x), height, width, channels)
    return torch.where(mirror.to(x.device).view(-1, 1, 1, 1), crops.flip(2), crops)


def shown(x: Tensor, device: torch.device | str = "cpu") -> Tensor:
    """Width and height of each image (B, 2); of those on a canvas, without what is around them."""
    if x.shape[3] == 4:
        across, down = x[:, x.shape[1] // 2, :, 3], x[:, :, x.shape[2] // 2, 3]
        return torch.stack([(across > 0).sum(1), (down > 0).sum(1)], 1).to(device)
    return torch.stack([torch.full((len(x),), x.shape[side], device=device) for side in (2, 1)], 1)


def draw_boxes(sides: Tensor, rng: torch.Generator, tries: int = 10) -> tuple[Tensor, Tensor]:
    """Boxes of 8 to 100 % of the area and sides 3:4 to 4:3, uniformly placed.

    A box that does not fit is drawn again, at most `tries` times; then it is the largest one in
    the middle.

    Args:
        sides: Width and height of each image, (B, 2).
        rng: Where the draws come from.
        tries: How many boxes are drawn.

    Returns:
        Centre and size of each box as fractions of the image, (B, 2) each, x before y.
    """
    (width, height), shape = sides.float().unbind(1), (len(sides), tries)
    blank = torch.empty(shape, device=rng.device)
    area = (width * height)[:, None] * blank.uniform_(0.08, 1.0, generator=rng)
    log_ratio = math.log(4 / 3) * blank.uniform_(-1.0, 1.0, generator=rng)
    ratio = log_ratio.exp()
    boxes = torch.stack([(area * ratio).sqrt(), (area / ratio).sqrt()], dim=2)
    boxes = boxes / sides[:, None]
    fits = (boxes <= 1).all(2)
    first = fits.float().argmax(1)
    chosen = boxes[torch.arange(len(sides), device=rng.device), first]
    most = torch.stack([height / width, width / height], 1).mul(4 / 3).clamp_max(1.0)
    found = fits.any(1)[:, None]
    size = torch.where(found, chosen, most)
    corner = torch.rand(size.shape, generator=rng, device=rng.device) * (1 - size)
    return torch.where(found, corner + size / 2, 0.5), size


def resized_crop(
    x: Tensor, centre: Tensor, box: Tensor, mirror: Tensor, size: tuple[int, int]
) -> Tensor:
    """Boxes of uint8 images, some mirrored, scaled to one size by bilinear interpolation.

    Args:
        x: Images, (B, H, W, 3).
        centre: Centre of each box as fractions of width and height, (B, 2).
        box: Width and height of each box as fractions, (B, 2).
        mirror: Which boxes are mirrored left to right, (B,) bool.
        size: Height and width of the result.

    Returns:
        The boxes as float grey levels, (B, h, w, 3).
    """
    theta = torch.zeros(len(x), 2, 3, device=box.device)
    theta[:, 0, 0] = torch.where(mirror, -box[:, 0], box[:, 0])
    theta[:, 1, 1] = box[:, 1]
    theta[:, :, 2] = 2 * centre - 1
    grid = F.affine_grid(theta.to(x.device), [len(x), x.shape[3], *size], align_corners=False)
    images = x.permute(0, 3, 1, 2).float()
    boxes = F.grid_sample(images, grid, padding_mode="border", align_corners=False)
    return boxes.permute(0, 2, 3, 1)


def cut_out(x: Tensor, side: int, rng: torch.Generator) -> Tensor:
    """One square of each image (B, 3, h, w) set to 0, its centre uniform, clipped at the border."""
    if side == 0:
        return x
    hidden = []
    for length in x.shape[2:]:
        centre = torch.randint(length, (len(x), 1), generator=rng, device=rng.device)
        along = torch.arange(length, device=rng.device)
        hidden.append((along >= centre - side // 2) & (along < centre + side // 2))
    square = hidden[0][:, None, :, None] & hidden[1][:, None, None, :]
    return x.masked_fill(square.to(x.device), 0.0)
