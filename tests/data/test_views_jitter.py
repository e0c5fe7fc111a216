"""Random changes of colour, against Pillow and the standard library."""

import colorsys

import numpy as np
import pytest
import torch
from PIL import Image, ImageEnhance

from labelproof.data.task import Strong
from labelproof.views import ImageViews
from labelproof.views.colour_jitter import brightness, contrast, grey, hue, jitter, saturation


def rng(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def pictures(count: int = 3) -> torch.Tensor:
    return torch.randint(256, (count, 9, 11, 3), generator=rng(5), dtype=torch.uint8)


@pytest.mark.parametrize(
    ("ours", "theirs"),
    [
        (brightness, ImageEnhance.Brightness),
        (contrast, ImageEnhance.Contrast),
        (saturation, ImageEnhance.Color),
    ],
)
@pytest.mark.parametrize("by", [-0.4, 0.3])
def test_enhancements_are_pillows(ours, theirs, by):
    x = pictures()
    changed = ours(x / 255, torch.tensor(by)).clamp(0, 1) * 255
    for row in range(len(x)):
        picture = theirs(Image.fromarray(x[row].numpy())).enhance(1 + by)
        assert abs(changed[row].numpy() - np.asarray(picture, dtype=float)).max() <= 1.5


@pytest.mark.parametrize("by", [-0.1, 0.07, 0.5])
def test_hues_are_turned_as_the_standard_library_has_them(by):
    x = pictures(1) / 255
    x[0, 0, 0] = torch.tensor([0.5, 0.5, 0.5])  # without a hue
    x[0, 0, 1] = torch.tensor([0.2, 0.8, 0.8])  # two equal largest channels
    turned = hue(x, torch.tensor(by))
    for ours, pixel in zip(turned.view(-1, 3), x.view(-1, 3), strict=True):
        h, s, v = colorsys.rgb_to_hsv(*pixel.tolist())
        assert ours.tolist() == pytest.approx(colorsys.hsv_to_rgb((h + by) % 1, s, v), abs=1e-5)


def test_a_fifth_is_grey_a_fifth_of_the_others_unchanged_and_orders_differ():
    x = pictures(1).expand(4000, -1, -1, -1)
    out = jitter(x, rng())
    assert out.min() >= 0
    assert out.max() <= 255
    colourless = (out - out[..., :1]).abs().amax((1, 2, 3)) < 1e-3
    same = (out - x).abs().amax((1, 2, 3)) < 1e-3
    assert colourless.float().mean().item() == pytest.approx(0.2, abs=0.03)
    assert same.float().mean().item() == pytest.approx(0.2 * 0.8, abs=0.03)
    assert torch.equal(jitter(x[:9], rng(1)), jitter(x[:9], rng(1)))


def test_the_strong_view_zooms_into_small_pictures_and_has_no_cutout():
    views = ImageViews(mean=(0.0,) * 3, std=(1.0,) * 3)
    own = Strong(small="colour_jitter", large="colour_jitter")
    white = torch.full((500, 32, 32, 3), 200, dtype=torch.uint8)
    white[:, :, :16] = 100
    seen = views.strong(white, rng(), own)
    assert seen.shape == (500, 3, 32, 32)
    assert (seen > 0.1).all()  # neither black border nor blanked square
    grown = (seen.amax((1, 2, 3)) - seen.amin((1, 2, 3))) < 1e-3
    assert 0.02 < grown.float().mean() < 0.3  # crops that show one half alone
    assert grey(torch.ones(1, 1, 1, 3)).item() == pytest.approx(1)
