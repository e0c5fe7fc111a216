"""Faults of pictures, and properties that go with a class, against other libraries."""

from __future__ import annotations

import io

import numpy as np
import pytest
import torch
from PIL import Image
from scipy.ndimage import laplace
from sklearn.metrics import roc_auc_score

from labelproof.judging.picture_faults import (
    PictureNumbers,
    going_with_class,
    odd_sizes,
    picture_faults,
    picture_numbers,
    properties,
)


def test_pictures_of_nothing() -> None:
    rng = torch.Generator().manual_seed(0)
    pictures = torch.randint(0, 256, (40, 16, 16, 3), generator=rng, dtype=torch.uint8)
    pictures[3] = pictures[3] // 8  # dark
    pictures[5] = 128  # blank
    smooth = torch.linspace(40, 220, 16).round().to(torch.uint8)
    pictures[8] = smooth[:, None, None].expand(16, 16, 3)  # no edges at all
    pictures[9] = 250 + pictures[9] // 60  # bright
    pictures[9, 0, 0] = 100
    faults = picture_faults(picture_numbers(pictures))
    assert [row for row, _ in faults["dark"]] == [3]
    assert [row for row, _ in faults["blank"]] in ([5], [5, 9])
    assert next(row for row, _ in faults["blurred"]) == 8


def test_numbers_of_pictures_by_other_libraries() -> None:
    rng = torch.Generator().manual_seed(0)
    pictures = torch.randint(0, 256, (5, 9, 12, 3), generator=rng, dtype=torch.uint8)
    found = picture_numbers(pictures)
    for row, picture in enumerate(pictures.numpy()):
        grey = picture.astype(np.float64) @ [0.299, 0.587, 0.114] / 255
        expected = {
            "brightness": np.quantile(grey, 0.99),
            "darkness": np.quantile(grey, 0.05),
            "contrast": grey.std(ddof=1),
            "sharpness": laplace(grey)[1:-1, 1:-1].std(ddof=1),
            "tones": Image.fromarray(np.rint(255 * grey).astype(np.uint8)).entropy(),
            "colour": np.ptp(picture.astype(int), axis=2).mean() / 255,
        }
        for name, value in expected.items():
            assert getattr(found, name)[row].item() == pytest.approx(value, rel=1e-4)


def test_faults_of_pictures_are_listed_from_the_worst() -> None:
    usual = torch.linspace(0.9, 1.1, 21)
    sharp = torch.cat([usual, torch.tensor([1e-4, 1e-5, 1e-6])])
    bright, dark = torch.full((24,), 0.8), torch.full((24,), 0.1)
    contrast = torch.full((24,), 0.3)
    bright[[2, 5, 7]] = torch.tensor([0.3, 0.1, 0.33])
    dark[[3, 4, 6]] = torch.tensor([0.92, 0.97, 0.89])
    tones, colour = torch.full((24,), 6.0), torch.full((24,), 0.2)
    tones[[8, 9, 23]] = torch.tensor([1.4, 0.5, 0.1])  # the last one is blank
    colour[[10, 11, 12]] = torch.tensor([0.004, 0.0, 0.006])
    contrast[[23, 1]] = torch.tensor([0.001, 0.01])
    dark[1] = 0.95  # blank, so not bright
    found = picture_faults(
        PictureNumbers(
            brightness=bright,
            darkness=dark,
            contrast=contrast,
            sharpness=sharp,
            tones=tones,
            colour=colour,
        )
    )
    assert found["dark"] == [(5, pytest.approx(0.1)), (2, pytest.approx(0.3))]
    assert found["bright"] == [(4, pytest.approx(0.97)), (3, pytest.approx(0.92))]
    assert [row for row, _ in found["blank"]] == [23, 1]
    assert [row for row, _ in found["blurred"]] == [22, 21]
    assert found["plain"] == [(9, pytest.approx(0.5)), (8, pytest.approx(1.4))]
    assert found["grey"] == [(11, 0.0), (10, pytest.approx(0.004))]


def test_what_most_pictures_are_is_no_fault() -> None:
    drawn = torch.zeros(10, 8, 8, 3, dtype=torch.uint8)
    drawn[:, 2:5, 3] = 255  # a stroke on black
    found = picture_faults(picture_numbers(drawn))
    assert not found["plain"]
    assert not found["grey"]


def _sizes() -> torch.Tensor:
    rng = np.random.default_rng(0)
    sizes = rng.integers(180, 260, (60, 2))
    sizes[3], sizes[10], sizes[20] = (20, 24), (3000, 2900), (700, 90)
    return torch.from_numpy(sizes)


def test_odd_sizes_and_shapes_are_listed() -> None:
    odd, narrow = odd_sizes(_sizes())
    assert [row for row, _ in odd] == [10, 3]
    assert odd[0][1] == pytest.approx((3000 * 2900) ** 0.5)
    assert narrow == [(20, pytest.approx(90 / 700))]
    same = torch.full((9, 2), 64)
    assert odd_sizes(same) == ([], [])
    same[4] = 65
    assert [row for row, _ in odd_sizes(same)[0]] == [4]


def test_faults_are_those_of_cleanvision() -> None:
    """Its rules on the same pictures; it judges blur without comparing, so that is left out."""
    vision = pytest.importorskip("cleanvision", reason="cleanvision is not installed")
    datasets = pytest.importorskip("datasets")
    rng = np.random.default_rng(0)
    pictures = [Image.fromarray(rng.integers(0, 256, (*size, 3), np.uint8)) for size in _sizes()]
    pictures[5] = pictures[5].point(lambda value: value // 8)
    pictures[6] = pictures[6].point(lambda value: 246 + value // 28)
    pictures[6].paste(0, (0, 0, 30, 30))  # or nothing would be there
    pictures[7] = pictures[7].convert("L")
    pictures[8] = pictures[8].convert("L").point(lambda value: 255 * (value > 60))

    def saved(picture: Image.Image) -> dict[str, object]:
        file = io.BytesIO()
        picture.save(file, "png")
        return {"bytes": file.getvalue(), "path": None}

    columns = {"image": [saved(one) for one in pictures]}
    data = datasets.Dataset.from_dict(columns).cast_column("image", datasets.Image())
    lab = vision.Imagelab(hf_dataset=data, image_key="image")
    kinds = ("dark", "light", "grayscale", "odd_size", "odd_aspect_ratio")
    lab.find_issues({**{kind: {} for kind in kinds}, "low_information": {"threshold": 0.15}}, 1)
    numbers = [
        picture_numbers(torch.from_numpy(np.array(one.convert("RGB")))[None]) for one in pictures
    ]
    joined = {name: torch.cat([vars(one)[name] for one in numbers]) for name in vars(numbers[0])}
    found = picture_faults(PictureNumbers(**joined))
    odd, narrow = odd_sizes(_sizes())
    ours = {
        "dark": found["dark"],
        "light": found["bright"],
        "grayscale": found["grey"],
        "low_information": found["plain"],
        "odd_size": odd,
        "odd_aspect_ratio": narrow,
    }
    for kind, mine in ours.items():
        theirs = np.flatnonzero(lab.issues[f"is_{kind}_issue"]).tolist()
        assert sorted(row for row, _ in mine) == theirs, kind
        assert theirs


def test_a_property_that_goes_with_a_class() -> None:
    rng = np.random.default_rng(0)
    labels = torch.from_numpy(np.arange(300) % 3)
    values = torch.from_numpy(rng.normal(size=300))
    values[labels == 1] += 3.5
    found = going_with_class({"brightness": values, "contrast": torch.zeros(300)}, labels, 3)
    assert [(one.code, one.way) for one in found] == [(1, "brighter")]
    auroc = roc_auc_score(labels == 1, values)
    assert found[0].value == pytest.approx(auroc)
    assert found[0].interval[0] < auroc < found[0].interval[1]
    assert values[found[0].rows[0]] == values[labels == 1].max()
    assert [one.way for one in going_with_class({"brightness": -values}, labels, 3)] == ["darker"]


def test_a_class_at_one_value_is_told_by_it() -> None:
    """Half of the others are above it and half below, so that no threshold tells the class."""
    rng = np.random.default_rng(1)
    labels = torch.from_numpy(np.arange(400) % 2)
    values = torch.from_numpy(rng.normal(size=400))
    values[labels == 1] = 0.05 * values[labels == 1]
    values[labels == 1] = values[labels == 1].round(decimals=2)  # with equal values
    found = going_with_class({"brightness": values}, labels, 2)
    assert [(one.code, one.way) for one in found] == [(1, "all about equally bright")]
    near = -(values - values[labels == 1].median()).abs()
    assert found[0].value == pytest.approx(roc_auc_score(labels == 1, near), abs=1e-3)
    edge = going_with_class(properties(_numbers(400), torch.full((400, 2), 32)), labels, 2)
    assert edge == []


def _numbers(size: int) -> PictureNumbers:
    names = ("brightness", "darkness", "contrast", "sharpness", "tones", "colour")
    return PictureNumbers(**{name: torch.full((size,), 0.5) for name in names})


def test_small_classes_are_not_compared() -> None:
    labels = torch.tensor([0] * 100 + [1] * 20)
    values = labels.double()
    assert len(going_with_class({"brightness": values}, labels, 2)) == 2
    assert not going_with_class({"brightness": values[1:-1]}, labels[1:-1], 2)
