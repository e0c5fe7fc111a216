"""Lists of pictures as X: of PIL, or as arrays, of one size or several."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from PIL import Image

from labelproof import BadInput, NoisyLabelClassifier, find_label_issues, label_quality
from labelproof.data.readers.frames import are_pictures, stacked


def pictures(count: int = 12) -> list[np.ndarray]:
    rng = np.random.default_rng(0)
    colours = np.array([(200, 40, 40), (40, 40, 200)])
    noise = [rng.integers(-30, 30, (12 + row % 3, 14, 3)) for row in range(count)]
    return [(colours[row % 2] + noise[row]).astype(np.uint8) for row in range(count)]


@pytest.mark.parametrize("kind", [Image.fromarray, torch.from_numpy, np.asarray])
def test_pictures_of_several_sizes_become_squares(kind):
    listed = [kind(picture) for picture in pictures()]
    assert are_pictures(listed)
    assert stacked(listed).shape == (12, 13, 13, 3)
    np.testing.assert_array_equal(stacked(listed), stacked(pictures()))


def test_arrays_of_one_size_stay_as_they_are():
    same = [picture[:12] for picture in pictures()]
    np.testing.assert_array_equal(stacked(same), np.stack(same))
    assert stacked(same, (6, 6)).shape == (12, 6, 6, 3)


def test_what_is_no_list_of_pictures():
    assert not are_pictures(["a text", "another"])
    assert not are_pictures([[1.0, 2.0], [3.0, 4.0]])
    assert not are_pictures([np.zeros(3), np.zeros(3)])
    assert not are_pictures([])


@pytest.mark.parametrize(
    ("odd", "sentence"),
    [
        ("a word", "example 3 is a str"),
        (np.zeros((0, 4, 3), np.uint8), "example 3 has shape .* no pixels"),
        (np.zeros((4, 4, 3)), "example 3 has shape"),
    ],
)
def test_an_odd_one_is_named(odd, sentence):
    listed = pictures()
    listed[3] = odd
    with pytest.raises(BadInput, match=sentence):
        stacked(listed)


def test_the_estimator_brings_new_pictures_to_the_size_of_training():
    given, labels = pictures(), [row % 2 for row in range(12)]
    model = NoisyLabelClassifier("ce", epochs=2, calibrate=False, encoder="none", net="cnn")
    model.fit([Image.fromarray(picture) for picture in given], labels)
    wide = [np.repeat(np.repeat(picture, 2, 0), 2, 1) for picture in given[:2]]
    assert model.predict_proba(wide).shape == (2, 2)


def test_issues_are_found_among_pictures_of_several_sizes(monkeypatch) -> None:
    usual = NoisyLabelClassifier("ce", epochs=1, calibrate=False, encoder="none", net="cnn")
    labels = [row % 2 for row in range(12)]
    monkeypatch.setattr("labelproof.sklearn.issues.NoisyLabelClassifier", lambda: usual)
    assert find_label_issues(pictures(), labels).shape == (12,)
    assert label_quality([Image.fromarray(one) for one in pictures()], labels).shape == (12,)
    with pytest.raises(BadInput, match="lists of labels of different lengths"):
        find_label_issues(np.zeros((12, 3)), [[0], [0, 1]] * 6)


def test_channels_first_or_alone_are_pictures_like_others() -> None:
    last = [np.random.default_rng(i).integers(0, 256, (16, 12, 3), np.uint8) for i in range(3)]
    first = [torch.from_numpy(one.transpose(2, 0, 1).copy()) for one in last]
    for size in (None, (16, 12), (8, 8)):
        np.testing.assert_array_equal(stacked(first, size), stacked(last, size))
    grey = [np.zeros((9, 7, 1), np.uint8), np.zeros((8, 6, 1), np.uint8)]
    assert stacked(grey, (8, 8)).shape == (2, 8, 8, 3)
