"""Plain, weak and strong views of images against slow references."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from PIL import Image, ImageOps

from labelproof.views import ImageViews, RandAugment
from labelproof.views.image_views import cut_out, draw_boxes, padded_crop, resized_crop, shown
from labelproof.views.policies import apply_policy

MEAN, STD = (0.4, 0.5, 0.6), (0.2, 0.25, 0.3)


def rng(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def images(count: int, height: int = 32, width: int = 32) -> torch.Tensor:
    return torch.randint(256, (count, height, width, 3), generator=rng(9), dtype=torch.uint8)


def normalised(picture: np.ndarray) -> torch.Tensor:
    x = torch.from_numpy(np.array(picture)).double() / 255
    x = (x - torch.tensor(MEAN).double()) / torch.tensor(STD).double()
    return x.permute(2, 0, 1).float()


def levels(view: torch.Tensor) -> torch.Tensor:
    """Views back to grey levels, (B, h, w, 3)."""
    pixels = view.permute(0, 2, 3, 1) * torch.tensor(STD) + torch.tensor(MEAN)
    return pixels * 255


def test_plain_normalises_and_takes_the_centre():
    x = images(3, 36, 40)
    view = ImageViews(mean=MEAN, std=STD, size=32).plain(x)
    assert view.shape == (3, 3, 32, 32)
    assert view.dtype == torch.float32
    for row in range(3):
        torch.testing.assert_close(view[row], normalised(x[row, 2:34, 4:36].numpy()))


def test_plain_without_size_keeps_the_shape():
    x = images(2, 20, 30)
    assert ImageViews(mean=MEAN, std=STD).plain(x).shape == (2, 3, 20, 30)


@pytest.mark.parametrize("mirror", [False, True])
def test_padded_crop_is_pillows(mirror):
    x, count = images(81), 81
    top = torch.arange(81) // 9
    left = torch.arange(81) % 9
    ours = padded_crop(x, top, left, torch.full((count,), mirror), 4, (32, 32))
    for row in range(count):
        bordered = ImageOps.expand(Image.fromarray(x[row].numpy()), 4)
        i, j = int(top[row]), int(left[row])
        crop = bordered.crop((j, i, j + 32, i + 32))
        crop = ImageOps.mirror(crop) if mirror else crop
        assert np.array_equal(ours[row].numpy(), np.asarray(crop))


def test_weak_is_one_of_the_162_crops_of_its_own_image_and_all_occur():
    image = images(1)[0]
    bordered = np.pad(image.numpy(), ((4, 4), (4, 4), (0, 0)))
    crops = {}
    for i in range(9):
        for j in range(9):
            crop = bordered[i : i + 32, j : j + 32]
            crops[crop.tobytes()] = (i, j, False)
            crops[crop[:, ::-1].tobytes()] = (i, j, True)
    view = ImageViews(mean=MEAN, std=STD).weak(image.expand(4000, -1, -1, -1), rng())
    pixels = levels(view).round().to(torch.uint8).numpy()
    seen = [crops[picture.tobytes()] for picture in pixels]
    assert set(seen) == set(crops.values())
    counts = np.unique(np.array(seen), axis=0, return_counts=True)[1]
    assert counts.max() < 25 + 6 * 5  # 4000 / 162 each, deviation 5


def test_border_is_black_before_normalisation():
    white = torch.full((1, 8, 8, 3), 255, dtype=torch.uint8)
    views = ImageViews(mean=MEAN, std=STD, padding=4)
    corner = torch.cat([views.weak(white, rng(seed)) for seed in range(40)])
    black = normalised(np.zeros((1, 1, 3), np.uint8)).view(1, 3, 1, 1)
    outside = ~torch.isclose(levels(corner), torch.tensor(255.0)).all(3)
    assert outside.any()
    pixels = corner.permute(0, 2, 3, 1)[outside]
    torch.testing.assert_close(pixels, black.view(1, 3).expand_as(pixels))


def test_no_flip_no_padding_is_plain():
    x = images(5)
    views = ImageViews(mean=MEAN, std=STD, padding=0, flip=False)
    torch.testing.assert_close(views.weak(x, rng()), views.plain(x))


def slow_area(height: int, width: int, draws: np.ndarray) -> float:
    """Area of the first of ten boxes that fits, as a share of the image; 1 where none does."""
    for first, second in draws:
        area = (0.08 + 0.92 * first) * height * width
        ratio = (3 / 4) ** (1 - 2 * second)
        if (area * ratio) ** 0.5 <= width and (area / ratio) ** 0.5 <= height:
            return area / (height * width)
    return 1.0


def test_boxes_lie_inside_and_have_the_stated_area_and_ratio():
    centre, size = draw_boxes(torch.tensor([[40, 30]]).expand(20_000, 2), rng())
    assert (centre - size / 2 >= -1e-6).all()
    assert (centre + size / 2 <= 1 + 1e-6).all()
    area = size.prod(1)
    ratio = size[:, 0] * 40 / (size[:, 1] * 30)
    whole = (size == 1).all(1)
    assert whole.float().mean() < 0.01
    assert area.min() >= 0.0799
    assert ratio[~whole].min() >= 0.7499
    assert ratio[~whole].max() <= 1.3334
    draws = np.random.default_rng(0).random((4000, 10, 2))
    slow = np.array([slow_area(30, 40, pairs) for pairs in draws])
    assert abs(area.mean().item() - slow.mean()) < 4 * slow.std() / len(slow) ** 0.5


def test_resized_crop_is_pillows_bilinear():
    smooth = torch.rand(6, 3, 8, 8, generator=rng(2))
    smooth = torch.nn.functional.interpolate(smooth, (40, 40), mode="bilinear")
    x = (smooth.permute(0, 2, 3, 1) * 255).to(torch.uint8)
    centre, size = draw_boxes(shown(x), rng(4))
    size = size * 0.6
    mirror = torch.tensor([True, False] * 3)
    ours = resized_crop(x, centre, size, mirror, (32, 32))
    for row in range(6):
        low, high = (centre - size / 2)[row] * 40, (centre + size / 2)[row] * 40
        box = (*low.tolist(), *high.tolist())
        picture = Image.fromarray(x[row].numpy()).resize((32, 32), Image.Resampling.BILINEAR, box)
        picture = ImageOps.mirror(picture) if mirror[row] else picture
        assert abs(ours[row].numpy() - np.asarray(picture, dtype=float)).max() <= 1.0


def test_a_box_that_never_fits_is_the_largest_one_in_the_middle():
    sides = torch.tensor([[400, 2], [2, 400], [30, 30]])
    centre, size = draw_boxes(sides, rng(), tries=1)
    for wide, row in ((0, 0), (1, 1)):
        assert size[row, 1 - wide] == 1
        assert (size[row] * sides[row])[wide] == pytest.approx(2 * 4 / 3)
        assert centre[row].tolist() == [0.5, 0.5]


def on_canvas(picture: torch.Tensor, edge: int) -> torch.Tensor:
    """A picture in the middle of a canvas of bright pixels that no view may show."""
    height, width = picture.shape[:2]
    canvas = torch.full((2 * edge, 2 * edge, 4), 255, dtype=torch.uint8)
    canvas[..., 3] = 0
    top, left = (2 * edge - height + 1) // 2, (2 * edge - width + 1) // 2
    canvas[top : top + height, left : left + width, :3] = picture
    canvas[top : top + height, left : left + width, 3] = 255
    return canvas


def ramps() -> list[torch.Tensor]:
    """A wide and a high picture whose red says the column, and whose green the row."""
    pictures = []
    for height, width in ((20, 33), (37, 20)):
        columns = torch.arange(width).expand(height, width)
        rows = torch.arange(height)[:, None].expand(height, width)
        pictures.append(torch.stack([columns, rows, 0 * rows], 2).byte())
    return pictures


def test_plain_view_of_a_picture_with_margins_is_its_centre():
    x = torch.stack([on_canvas(picture, 20) for picture in ramps()])
    pixels = levels(ImageViews(mean=MEAN, std=STD, size=16).plain(x)).round()
    assert pixels[0, 0, 0].tolist() == [8, 2, 0]
    assert pixels[1, 0, 0].tolist() == [2, 10, 0]


@pytest.mark.parametrize("view", ["weak", "strong"])
def test_crops_reach_every_margin_of_a_picture_and_nothing_beyond(view):
    views = ImageViews(mean=MEAN, std=STD, size=16, padding=0, policy="imagenet", cutout=0)
    for picture in ramps():
        x = on_canvas(picture, 20).expand(3000, -1, -1, -1)
        if view == "weak":
            crops = levels(views.weak(x, rng())).round()
        else:
            crops = views._padded_crop(x, rng()).float()
        assert crops[..., 2].max() == 0
        height, width = picture.shape[:2]
        corners = crops[:, 0, :, :2].amin(1)
        steps = (torch.diff(crops[..., 0], dim=2).abs(), torch.diff(crops[..., 1], dim=1))
        assert all((step == 1).all() for step in steps)
        for side, length in ((0, width), (1, height)):
            counts = torch.bincount(corners[:, side].long())
            assert len(counts) == length - 16 + 1
            assert counts.min() > 0.6 * 3000 / len(counts)


def test_zoomed_crops_of_pictures_with_margins_are_those_of_the_pictures_alone():
    views = ImageViews(mean=MEAN, std=STD, size=12, crop="resized", padding=0)
    pictures = ramps()
    # as the reader does, the nearest pixels are repeated around a picture
    x = []
    for picture in pictures:
        canvas = on_canvas(picture, 20)
        height, width = picture.shape[:2]
        across = (torch.arange(40) - (41 - width) // 2).clamp(0, width - 1)
        down = (torch.arange(40) - (41 - height) // 2).clamp(0, height - 1)
        canvas[..., :3] = picture[down][:, across]
        x.append(canvas)
    ours = levels(views.weak(torch.stack(x), rng(3)))
    draws = rng(3)
    sides = torch.tensor([[33, 20], [20, 37]])
    centre, box = draw_boxes(sides, draws)
    mirror = torch.rand(2, generator=draws) < 0.5
    for row, picture in enumerate(pictures):
        one = slice(row, row + 1)
        alone = resized_crop(picture[None], centre[one], box[one], mirror[one], (12, 12))
        torch.testing.assert_close(ours[one], alone, atol=1e-3, rtol=0)


def test_a_policy_before_the_crop_comes_after_it_where_there_are_margins():
    x = torch.stack([on_canvas(picture, 20) for picture in ramps()])
    views = ImageViews(mean=MEAN, std=STD, size=16, crop="resized", padding=0, cutout=0)
    assert views.strong(x, rng()).shape == (2, 3, 16, 16)


@pytest.mark.parametrize(
    ("options", "shape"),
    [
        ({}, (32, 32)),
        ({"size": 24}, (24, 24)),
        ({"size": 48}, (48, 48)),
        ({"crop": "resized"}, (32, 32)),
        ({"crop": "resized", "size": 24}, (24, 24)),
        (
            {"policy": "imagenet", "crop": "resized", "size": 28, "padding": 0, "cutout": 0},
            (28, 28),
        ),
        ({"policy": "randaugment"}, (32, 32)),
        ({"policy": RandAugment(n=1, m=5)}, (32, 32)),
    ],
)
def test_all_views_have_one_shape_and_are_drawn_per_image_by_the_generator(options, shape):
    views = ImageViews(mean=MEAN, std=STD, **options)
    x = images(1).expand(48, -1, -1, -1)
    assert views.plain(x).shape == (48, 3, *shape)
    for view in (views.weak, views.strong):
        first, again, other = view(x, rng(1)), view(x, rng(1)), view(x, rng(2))
        assert first.shape == (48, 3, *shape)
        assert first.dtype == torch.float32
        assert torch.isfinite(first).all()
        assert torch.equal(first, again)
        assert not torch.equal(first, other)
        assert len(torch.unique(first.flatten(1), dim=0)) > 20


def test_views_do_not_touch_global_state_or_the_batch():
    x = images(8)
    before, state = x.clone(), torch.get_rng_state()
    views = ImageViews(mean=MEAN, std=STD)
    views.weak(x, rng())
    views.strong(x, rng())
    assert torch.equal(x, before)
    assert torch.equal(torch.get_rng_state(), state)


@pytest.mark.parametrize("crop", ["pad", "resized"])
def test_an_image_does_not_feel_its_neighbours(crop):
    views = ImageViews(mean=MEAN, std=STD, crop=crop)
    x = images(20)
    y = x.clone()
    y[3] = 255 - y[3]
    for view in (views.weak, views.strong):
        same = (view(x, rng(1)) == view(y, rng(1))).flatten(1).all(1)
        assert same.tolist() == [row != 3 for row in range(20)]


def test_cutout_blanks_one_clipped_square_with_a_uniform_centre():
    count, side = 5_000, 16
    hidden = cut_out(torch.ones(count, 3, 32, 32), side, rng()) == 0
    assert (hidden[:, 0] == hidden[:, 1]).all()
    plane = hidden[:, 0]
    rows, columns = plane.any(2), plane.any(1)
    assert torch.equal(plane, rows[:, :, None] & columns[:, None, :])
    # A centre c hides c - 8 to c + 7, so that the pixel 0 is hidden by 9 centres of 32.
    chance = torch.tensor([sum(p - 8 < c <= p + 8 for c in range(32)) / 32 for p in range(32)])
    sigma = (chance * (1 - chance) / count).sqrt() + 1e-9
    for share in (rows.float().mean(0), columns.float().mean(0)):
        assert ((share - chance).abs() <= 4 * sigma).all()
    assert int(rows.sum(1).max()) == 16
    assert int(rows.sum(1).min()) == 8


def test_strong_view_has_cutout_zeros_after_normalisation():
    x = images(16)
    blank = (ImageViews(mean=MEAN, std=STD).strong(x, rng()) == 0).all(1).flatten(1).sum(1)
    assert (blank >= 64).all()
    none = (ImageViews(mean=MEAN, std=STD, cutout=0).strong(x, rng()) == 0).all(1).sum()
    assert none == 0


def test_a_policy_can_come_after_a_crop_that_zooms():
    views = ImageViews(mean=MEAN, std=STD, size=24, crop="resized", cutout=0)
    x, ours, other = images(16), rng(), rng()
    crops = levels(views.weak(x, other)).round().byte()
    expected = apply_policy(crops, "imagenet", other)
    zoomed = replace(views, policy="imagenet_zoomed").strong(x, ours)
    assert torch.equal(levels(zoomed).round().byte(), expected)
    assert not torch.equal(expected, crops)


def test_operations_come_before_the_crop_except_for_imagenet():
    """A black border put on by the crop stays black unless operations follow it."""
    white = torch.full((200, 16, 16, 3), 255, dtype=torch.uint8)
    options = {"mean": MEAN, "std": STD, "padding": 8, "cutout": 0}
    before = levels(ImageViews(policy="cifar10", **options).strong(white, rng())).round()
    after = levels(ImageViews(policy="imagenet", **options).strong(white, rng())).round()
    corners = torch.stack([before[:, i, j] for i in (0, -1) for j in (0, -1)])
    assert (corners.amin(0) == 0).all(1).float().mean() > 0.9
    darkest = after.flatten(1).amin(1)
    assert (darkest > 0).any()
