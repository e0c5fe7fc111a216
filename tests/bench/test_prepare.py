"""Data of the smaller scales: made the same every time, from what fits alone."""

from __future__ import annotations

import numpy as np
import pytest

from labelproof.bench import prepared_data as prepare
from labelproof.bench.cell import Sources
from labelproof.data.readers import SourceOptions, load
from labelproof.errors import BadInput

SETS = ("clean", "aggre", "rand1", "rand2", "rand3", "worst")


@pytest.fixture
def small(monkeypatch):
    monkeypatch.setattr(prepare, "SMALL", 30)
    monkeypatch.setattr(prepare, "SMALL_TEST", 10)


@pytest.fixture
def human(tmp_path):
    path = tmp_path / "human.npz"
    clean = np.arange(60) % 10
    np.savez(path, **{name: (clean + k) % 10 for k, name in enumerate(SETS)})
    return path


def test_four_pixels_become_their_mean():
    images = np.zeros((1, 2, 4, 3), np.uint8)
    images[0, :, :2, 0] = [[10, 20], [30, 41]]  # mean 25.25
    images[0, :, 2:, 1] = [[255, 255], [255, 254]]  # mean 254.75
    assert prepare.halved(images)[0, 0].tolist() == [[25, 0, 0], [0, 255, 0]]


def test_a_subset_with_its_labels_in_order(small, tmp_path, cifar_npz, human):
    path = prepare.small_images(Sources(out=tmp_path, data=cifar_npz, human_labels=human))
    made, source = np.load(path), np.load(cifar_npz)
    assert made["x"].shape == (30, 16, 16, 3)
    assert made["x_test"].shape == (10, 16, 16, 3)
    whole = prepare.halved(source["train_images"])
    rows = [int(np.flatnonzero((whole == one).all((1, 2, 3)))[0]) for one in made["x"]]
    assert len(set(rows)) == 30
    assert made["y"].tolist() == [row % 10 for row in rows]
    assert made["worst"].tolist() == [(row + 5) % 10 for row in rows]
    data = load(str(path), SourceOptions(label_key="worst", truth_key="clean"))
    assert data.kind == "images"
    assert data.classes[0] == "airplane"


def test_the_same_bytes_every_time(small, tmp_path, cifar_npz):
    paths = [
        prepare.small_images(Sources(out=tmp_path / name, data=cifar_npz)) for name in ("a", "b")
    ]
    assert paths[0].name == paths[1].name
    assert paths[0].read_bytes() == paths[1].read_bytes()
    assert [p.name for p in paths[0].parent.iterdir()] == [paths[0].name]


def test_the_published_files_will_do_as_well(small, tmp_path, cifar_folder):
    path = prepare.small_images(Sources(out=tmp_path, data=cifar_folder))
    assert np.load(path)["x"].shape == (30, 16, 16, 3)


def test_labels_in_another_order_are_refused(small, tmp_path, cifar_npz):
    path = tmp_path / "human.npz"
    np.savez(path, clean=(np.arange(60) + 1) % 10, worst=np.zeros(60, int))
    with pytest.raises(BadInput, match="not in the order"):
        prepare.small_images(Sources(out=tmp_path, data=cifar_npz, human_labels=path))


@pytest.mark.parametrize(
    ("arrays", "said"),
    [
        ({"x": np.zeros(3)}, "train_images, train_labels"),
        (
            {
                "train_images": np.zeros((4, 8, 8, 3), np.uint8),
                "train_labels": np.zeros(4, int),
                "test_images": np.zeros((4, 32, 32, 3), np.uint8),
                "test_labels": np.zeros(4, int),
            },
            r"\(N, 32, 32, 3\)",
        ),
    ],
)
def test_other_arrays_are_refused(tmp_path, arrays, said):
    path = tmp_path / "other.npz"
    np.savez(path, **arrays)
    with pytest.raises(BadInput, match=said):
        prepare.small_images(Sources(out=tmp_path / "out", data=path))
    assert not (tmp_path / "out").exists()


def test_vectors_without_a_label_set_are_refused(tmp_path):
    path = tmp_path / "v.npz"
    np.savez(path, x=np.zeros((4, 2)), x_test=np.zeros((2, 2)), y_test=[0, 1], clean=[0, 1, 0, 1])
    with pytest.raises(BadInput, match="worst in v"):
        prepare.vectors_file(Sources(out=tmp_path, data=path), ("clean", "worst"))


def test_a_part_of_the_vectors_with_its_labels_in_order(monkeypatch, tmp_path, vectors_npz):
    monkeypatch.setattr(prepare, "SMALL_VECTORS", 25)
    path = prepare.small_vectors(Sources(out=tmp_path / "out", data=vectors_npz))
    part, whole = np.load(path), np.load(vectors_npz)
    assert part["x"].shape == (25, 4)
    assert part["x_test"].shape == (20, 4)
    for row, label in zip(part["x"], part["worst"], strict=True):
        assert whole["worst"][(whole["x"] == row).all(1)] == label


def test_too_few_labels_for_the_vectors_are_refused(tmp_path, vectors_npz):
    arrays = {**np.load(vectors_npz), "worst": np.zeros(7, np.int64)}
    np.savez(vectors_npz, **arrays)
    with pytest.raises(BadInput, match=r"each of the 60 vectors in features.npz.*worst has 7"):
        prepare.small_vectors(Sources(out=tmp_path / "out", data=vectors_npz))
