"""Every image operation against Pillow's own, over sizes, textures and magnitudes."""

import numpy as np
import pytest
import torch
from PIL import Image, ImageEnhance, ImageOps
from torch.nn import functional as F

from labelproof.views.ops import OPERATIONS

AFFINE = Image.Transform.AFFINE
BICUBIC = Image.Resampling.BICUBIC

PILLOW = {
    "ShearX": lambda im, m: im.transform(im.size, AFFINE, (1, m, 0, 0, 1, 0)),
    "ShearY": lambda im, m: im.transform(im.size, AFFINE, (1, 0, 0, m, 1, 0)),
    "TranslateX": lambda im, m: im.transform(im.size, AFFINE, (1, 0, m * im.width, 0, 1, 0)),
    "TranslateY": lambda im, m: im.transform(im.size, AFFINE, (1, 0, 0, 0, 1, m * im.height)),
    "Rotate": lambda im, m: im.rotate(m),
    "AutoContrast": lambda im, m: ImageOps.autocontrast(im),
    "Invert": lambda im, m: ImageOps.invert(im),
    "Equalize": lambda im, m: ImageOps.equalize(im),
    "Solarize": lambda im, m: ImageOps.solarize(im, m),
    "Posterize": lambda im, m: ImageOps.posterize(im, int(m)),
    "Contrast": lambda im, m: ImageEnhance.Contrast(im).enhance(m),
    "Color": lambda im, m: ImageEnhance.Color(im).enhance(m),
    "Brightness": lambda im, m: ImageEnhance.Brightness(im).enhance(m),
    "Sharpness": lambda im, m: ImageEnhance.Sharpness(im).enhance(m),
    "SmoothShearX": lambda im, m: im.transform(im.size, AFFINE, (1, m, 0, 0, 1, 0), BICUBIC),
    "SmoothShearY": lambda im, m: im.transform(im.size, AFFINE, (1, 0, 0, m, 1, 0), BICUBIC),
}
RANGES = {
    "ShearX": (-0.3, 0.3),
    "ShearY": (-0.3, 0.3),
    "SmoothShearX": (-0.3, 0.3),
    "SmoothShearY": (-0.3, 0.3),
    "TranslateX": (-0.45, 0.45),
    "TranslateY": (-0.45, 0.45),
    "Rotate": (-30, 30),
    "Solarize": (0, 256),
    "Posterize": (1, 8),
}


def pictures(height: int, width: int) -> torch.Tensor:
    """White noise, smooth colours, few colours, and one flat picture."""
    rng = torch.Generator().manual_seed(height * width)
    noise = torch.randint(256, (12, height, width, 3), generator=rng)
    coarse = torch.rand(12, 3, 4, 4, generator=rng) * 255
    smooth = F.interpolate(coarse, (height, width), mode="bicubic").clamp(0, 255)
    few = torch.randint(3, (4, height, width, 3), generator=rng) * 60 + 40
    flat = torch.full((1, height, width, 3), 77)
    return torch.cat([noise, smooth.permute(0, 2, 3, 1), few, flat]).to(torch.uint8)


def magnitudes(name: str, count: int) -> torch.Tensor:
    low, high = RANGES.get(name, (0.0, 1.9))
    drawn = torch.rand(count, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    drawn = low + (high - low) * drawn
    drawn[0], drawn[-1] = low, high
    return drawn.round() if name == "Posterize" else drawn


@pytest.mark.parametrize("size", [(32, 32), (20, 33), (2, 5)])
@pytest.mark.parametrize("name", OPERATIONS)
def test_operation_is_pillows(name, size):
    x = pictures(*size)
    amount = magnitudes(name, len(x))
    before = x.clone()
    ours = OPERATIONS[name](x, amount, 0).numpy().astype(int)
    theirs = np.stack(
        [
            np.asarray(PILLOW[name](Image.fromarray(im), m))
            for im, m in zip(x.numpy(), amount.tolist(), strict=True)
        ]
    ).astype(int)
    gap = abs(ours - theirs)
    # Pillow loses a level to rounding here and there in these; all else is the same.
    assert gap.max() <= (name in ("AutoContrast", "SmoothShearX", "SmoothShearY"))
    assert (gap > 0).mean() < 0.02
    assert torch.equal(x, before)


@pytest.mark.parametrize("name", [*RANGES, "Contrast", "Color", "Brightness", "Sharpness"])
def test_every_image_has_its_own_magnitude(name):
    x = pictures(32, 32)[12:13].repeat(2, 1, 1, 1)
    amount = torch.tensor([0.75, 0.25]) * RANGES.get(name, (0.0, 1.9))[1]
    both = OPERATIONS[name](x, amount, 0)
    assert not torch.equal(both[0], both[1])
    for row in range(2):
        alone = OPERATIONS[name](x[row : row + 1], amount[row : row + 1], 0)
        assert torch.equal(alone[0], both[row])


def test_uncovered_pixels_take_the_fill():
    white = torch.full((1, 32, 32, 3), 255, dtype=torch.uint8)
    turned = OPERATIONS["Rotate"](white, torch.tensor([30.0]), 128)
    assert set(turned.unique().tolist()) == {128, 255}
    assert (turned[0, 0, 0] == 128).all()


def test_half_a_translation_uncovers_that_share():
    white = torch.full((1, 32, 32, 3), 255, dtype=torch.uint8)
    moved = OPERATIONS["TranslateX"](white, torch.tensor([9 / 32]), 0)
    assert (moved == 0).sum() == 9 * 32 * 3
    assert (moved[:, :, -9:] == 0).all()
