"""Views of vectors, statistics of the inputs, and the picture of the views."""

import pytest
import torch
from PIL import Image

from labelproof.data.examples import Resident
from labelproof.errors import BadInput
from labelproof.views import (
    ImageViews,
    VectorViews,
    defaults,
    image_statistics,
    vector_statistics,
    views_sheet,
)


def rng(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


class Counting:
    """Inputs that note which rows were read."""

    resident = True

    def __init__(self, data):
        self.data, self.read = data, []

    @property
    def shape(self):
        return tuple(self.data.shape[1:])

    def __len__(self):
        return len(self.data)

    def take(self, index):
        self.read += index.tolist()
        return self.data[index]

    def digest(self):
        return ""


def test_plain_standardises_and_spares_constant_features():
    x = torch.tensor([[1.0, 5.0, 7.0], [3.0, 5.0, 9.0]])
    views = VectorViews(mean=(2.0, 5.0, 8.0), std=(1.0, 0.0, 0.5))
    assert views.plain(x).tolist() == [[-1.0, 0.0, -2.0], [1.0, 0.0, 2.0]]


def test_weak_jitter_is_in_units_of_the_spread():
    x = torch.zeros(40_000, 3)
    views = VectorViews(mean=torch.zeros(3), std=torch.tensor([2.0, 1.0, 0.0]), jitter=0.2)
    view = views.weak(x, rng())
    torch.testing.assert_close(view.std(0), torch.tensor([0.2, 0.2, 0.0]), atol=0.004, rtol=0)
    assert abs(view.mean()) < 0.003
    scaled = VectorViews(mean=(0.0,) * 3, std=(1.0,) * 3, spread=(1.0, 3.0, 0.5), jitter=0.1)
    spread = scaled.weak(x, rng()).std(0)
    torch.testing.assert_close(spread, torch.tensor([0.1, 0.3, 0.05]), atol=0.006, rtol=0)


def test_strong_doubles_the_jitter_and_hides_features_at_their_mean():
    x = torch.full((40_000, 4), 3.0)
    view = VectorViews(mean=(1.0,) * 4, std=(1.0,) * 4, jitter=0.1, mask=0.25).strong(x, rng())
    hidden = view == 0
    assert abs(hidden.float().mean() - 0.25) < 4 * (0.25 * 0.75 / view.numel()) ** 0.5
    assert abs(view[~hidden].mean() - 2) < 0.01
    assert abs(view[~hidden].std() - 0.2) < 0.01


def test_draws_follow_the_generator_alone():
    x = torch.randn(10, 5, generator=rng(7))
    views = VectorViews(mean=(0.0,) * 5, std=(1.0,) * 5)
    state = torch.get_rng_state()
    for view in (views.weak, views.strong):
        assert torch.equal(view(x, rng(1)), view(x, rng(1)))
        assert not torch.equal(view(x, rng(1)), view(x, rng(2)))
    assert torch.equal(torch.get_rng_state(), state)


def test_image_statistics_are_those_of_all_pixels(monkeypatch):
    monkeypatch.setattr(defaults, "CHUNK", 1000)
    x = torch.randint(256, (50, 6, 8, 3), generator=rng(1), dtype=torch.uint8)
    x[..., 2] = 40
    mean, std = image_statistics(Resident(x))
    pixels = x.double().view(-1, 3) / 255
    assert mean == pytest.approx(pixels.mean(0).tolist())
    assert std[:2] == pytest.approx(pixels.std(0, correction=0)[:2].tolist())
    assert std[2] == 1.0


def test_image_statistics_read_an_even_sample():
    inputs = Counting(torch.zeros(1000, 2, 2, 3, dtype=torch.uint8))
    image_statistics(inputs, sample=10)
    assert inputs.read == list(range(0, 1000, 100))


def test_vector_statistics_hold_for_large_means_and_constants(monkeypatch):
    monkeypatch.setattr(defaults, "CHUNK", 300)
    x = torch.randn(2000, 3, generator=rng(2)) * torch.tensor([1.0, 0.01, 0.0])
    x += torch.tensor([1e4, -3.0, 0.1])
    inputs = Counting(x)
    mean, std = vector_statistics(inputs)
    assert inputs.read == list(range(2000))
    torch.testing.assert_close(mean, x.double().mean(0).float())
    torch.testing.assert_close(std[:2], x.double().std(0, correction=0)[:2].float())
    assert std[2] == 0


def test_sheet_shows_images_and_vectors(tmp_path):
    x = torch.randint(256, (30, 12, 12, 3), generator=rng(3), dtype=torch.uint8)
    views = ImageViews(mean=(0.5,) * 3, std=(0.2,) * 3, cutout=4)
    path = views_sheet(Resident(x), views, tmp_path / "deep" / "views.png", rng(), rows=3)
    with Image.open(path) as picture:
        assert picture.format == "PNG"
        assert picture.width > 500
    vectors = VectorViews(mean=(0.0,) * 6, std=(1.0,) * 6)
    flat = Resident(torch.randn(2, 6, generator=rng(4)))
    views_sheet(flat, vectors, tmp_path / "vectors.png", rng())
    with Image.open(tmp_path / "vectors.png") as picture:
        assert picture.format == "PNG"
    assert sorted(p.name for p in tmp_path.iterdir()) == ["deep", "vectors.png"]


def test_sheet_that_cannot_be_written_is_one_sentence(tmp_path):
    (tmp_path / "file").write_text("")
    flat = Resident(torch.zeros(2, 3))
    views = VectorViews(mean=(0.0,) * 3, std=(1.0,) * 3)
    with pytest.raises(BadInput, match="cannot be written"):
        views_sheet(flat, views, tmp_path / "file" / "views.png", rng())
