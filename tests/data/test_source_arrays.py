"""Arrays, .npz files, digits and PyTorch data sets."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
import torch
from PIL import Image
from sklearn.datasets import load_digits
from torch.utils.data import TensorDataset

from labelproof.data.readers import SourceOptions, from_arrays, from_dataset, load
from labelproof.data.readers.frames import are_texts
from labelproof.errors import BadInput

LABELS = [0, 1, 0, 1]


def images(dtype=np.uint8, shape=(4, 6, 5, 3)):
    return np.random.default_rng(0).integers(0, 256, shape).astype(dtype)


def taken(examples):
    return examples.x.take(torch.arange(len(examples)))


def test_vectors_keep_half_precision_in_memory_and_come_out_as_float32():
    x = np.random.default_rng(0).normal(size=(4, 3)).astype(np.float16)
    examples = from_arrays(x, LABELS)
    assert examples.kind == "vectors"
    assert examples.x.data.dtype == torch.float16
    assert torch.equal(taken(examples), torch.from_numpy(x).float())


EYES = [np.eye(4), np.eye(4, dtype=np.int64), torch.eye(4), np.eye(4).tolist()]


@pytest.mark.parametrize("x", EYES)
def test_other_numbers_become_float32(x):
    assert torch.equal(taken(from_arrays(x, LABELS)), torch.eye(4))


def test_every_layout_of_the_same_images_is_the_same():
    x = images()
    want = torch.from_numpy(x)
    for form in (x, x.transpose(0, 3, 1, 2), torch.from_numpy(x), x.astype(np.int32)):
        examples = from_arrays(form, LABELS)
        assert examples.kind == "images"
        assert torch.equal(taken(examples), want)
    assert torch.equal(taken(from_arrays(x / 255, LABELS)), want)
    assert torch.equal(taken(from_arrays((x / 255).astype(np.float16), LABELS)), want)


def test_grey_images_become_rgb():
    grey = images(shape=(4, 6, 5))
    for form in (grey, grey[..., None], grey[:, None]):
        rows = taken(from_arrays(form, LABELS))
        assert rows.shape == (4, 6, 5, 3)
        assert all(np.array_equal(rows[..., c], grey) for c in range(3))


@pytest.mark.parametrize(
    ("x", "words"),
    [
        (np.full((4, 3), np.nan), ["12 are missing", "row 0"]),
        (np.array([[0.0, 1], [2, 3], [4, np.inf], [5, 6]]), ["1 are missing or infinite", "row 2"]),
        (np.array([[0.0], [1e300], [2], [3]]), ["row 1"]),
        (np.zeros((4, 5, 5, 2)), ["shape (4, 5, 5, 2)"]),
        (np.full((4, 5, 5, 3), -0.5), ["floats in [0, 1]", "-0.5", "before normalising"]),
        (np.full((4, 5, 5, 3), 300), ["bytes 0..255", "300"]),
        (np.zeros(4), ["shape is (4,)"]),
        (np.zeros((4, 0)), ["shape is (4, 0)"]),
        (np.zeros((0, 3)), ["empty"]),
        ([["a", "b"]] * 4, ["numbers", "table"]),
        ([[1.0], [1, 2], [1], [1]], ["one shape per example"]),
    ],
)
def test_bad_inputs_are_named_in_one_sentence(x, words):
    with pytest.raises(BadInput) as caught:
        from_arrays(x, LABELS)
    for word in words:
        assert word in str(caught.value)


def test_another_width_than_in_training_is_refused():
    train = from_arrays(np.eye(4), LABELS)
    with pytest.raises(BadInput, match=r"shape \(4,\).*holds shape \(3,\)"):
        from_arrays(np.zeros((2, 3)), [0, 1], like=train)
    assert from_arrays(np.zeros((2, 4)), None, like=train).labels is None
    with pytest.raises(BadInput, match="give a label for each"):
        from_arrays(np.zeros((2, 4)), None)


def test_frame_with_words_and_gaps_is_encoded_like_a_table():
    frame = pd.DataFrame({"a": [1.0, None, 3, 5], "b": ["u", "v", "u", "v"]})
    train = from_arrays(frame, LABELS, x_test=frame.iloc[:2], y_test=LABELS[:2])
    assert train.x.shape == (2 + 3,)  # number and indicator; u, v and others
    assert torch.equal(taken(train.test), taken(train)[:2])
    plain = from_arrays(frame[["a"]].fillna(0), LABELS)
    assert plain.encoder is None


def save(path, **arrays):
    np.savez(path, **arrays)
    return path


def test_npz_with_other_label_keys_truth_and_test(tmp_path):
    x = np.eye(4, dtype=np.float32)
    path = save(
        tmp_path / "d.npz",
        x=x,
        worst=[1, 1, 0, 2],
        clean=LABELS,
        x_test=x[:2],
        y_test=[0, 1],
        classes=["p", "q", "r"],
    )
    examples = load(path, SourceOptions(label_key="worst", truth_key="clean"))
    assert examples.classes == ("p", "q", "r")
    assert examples.labels.tolist() == [1, 1, 0, 2]
    assert examples.truth.tolist() == LABELS
    assert examples.test.labels.tolist() == [0, 1]
    assert examples.test.classes == examples.classes
    with pytest.raises(BadInput, match="name one of worst, clean with --label-key"):
        load(path)
    one = save(tmp_path / "one.npz", x=x, y=LABELS)
    with pytest.raises(BadInput, match=r"; use --label-key y\.$"):
        load(one, SourceOptions(label_key="labels"))
    with pytest.raises(BadInput, match=r"'none'.*--truth-key"):
        load(path, SourceOptions(label_key="worst", truth_key="none"))


def test_npz_to_predict_on_needs_no_labels(tmp_path):
    train = load(save(tmp_path / "a.npz", x=np.eye(4), y=LABELS))
    assert load(save(tmp_path / "b.npz", x=np.eye(4)), like=train).labels is None
    assert load(save(tmp_path / "c.npz", x=np.eye(4), y=LABELS), like=train).labels is not None


class Evil:
    def __reduce__(self):
        return (open, ("owned.txt", "w"))


def test_npz_that_would_run_code_is_refused(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    bad = np.array([Evil()] * 4, dtype=object)
    np.savez(tmp_path / "e.npz", x=np.eye(4), y=bad)
    with pytest.raises(BadInput, match="pickled objects"):
        load(tmp_path / "e.npz")
    assert not (tmp_path / "owned.txt").exists()


def test_damaged_npz(tmp_path):
    path = save(tmp_path / "d.npz", x=np.eye(50), y=list(range(25)) * 2)
    whole = path.read_bytes()
    for data in (b"", b"PK", whole[: len(whole) // 2], b"not a zip at all", whole[:-30]):
        path.write_bytes(data)
        with pytest.raises(BadInput, match=r"d\.npz"):
            load(path)
    flipped = bytearray(whole)
    flipped[len(whole) // 4] ^= 0xFF
    path.write_bytes(bytes(flipped))
    with pytest.raises(BadInput, match="could not be read"):
        load(path)
    with pytest.raises(BadInput, match=r"array 'x'.*holds inputs, y"):
        load(save(tmp_path / "k.npz", inputs=np.eye(4), y=LABELS))


def test_a_built_in_set_beside_a_folder_of_its_name_says_so(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert not load("digits").about.get("warnings")
    (tmp_path / "digits").mkdir()
    (note,) = load("digits").about["warnings"]
    assert note.startswith("digits is the built-in set, although there is a file or folder")


def test_digits():
    examples = load("digits")
    bunch = load_digits()
    rows = [int(name.split("/")[1]) for name in examples.ids]
    assert examples.x.shape == (8, 8, 3)
    assert (len(examples), len(examples.test)) == (1437, 360)
    assert np.array_equal(examples.labels, bunch.target[rows])
    assert np.array_equal(examples.labels, examples.truth)
    first = taken(examples)[0, ..., 0].numpy() / 255 * 16
    assert np.allclose(first, bunch.images[rows[0]], atol=0.05)
    counts = np.bincount(examples.test.labels)
    assert counts.min() >= 34  # stratified: every class has its fifth


def test_unknown_names_and_kinds(tmp_path):
    with pytest.raises(BadInput, match=r"no file or folder 'cifar11'.*cifar10"):
        load("cifar11")
    (tmp_path / "x.doc").write_text("hello")
    with pytest.raises(BadInput, match=r"x\.doc.*suffix"):
        load(tmp_path / "x.doc")


class Pairs:
    classes = ("cat", "dog")

    def __init__(self, items):
        self.items = items

    def __len__(self):
        return len(self.items)

    def __getitem__(self, index):
        return self.items[index]


def test_dataset_of_tensors():
    x, y = torch.rand(6, 3), torch.tensor([0, 1, 0, 1, 1, 1])
    examples = from_dataset(TensorDataset(x, y))
    assert torch.equal(taken(examples), x)
    assert examples.labels.tolist() == y.tolist()


def test_dataset_of_pictures_in_every_form_and_class_names():
    pixels = images(shape=(2, 6, 5, 3))
    forms = [
        [Image.fromarray(p) for p in pixels],
        list(pixels),
        [torch.from_numpy(p).permute(2, 0, 1) for p in pixels],
        [torch.from_numpy(p).permute(2, 0, 1) / 255 for p in pixels],
    ]
    for form in forms:
        examples = from_dataset(Pairs([(form[0], 0), (form[1], 1)]))
        assert torch.equal(taken(examples), torch.from_numpy(pixels))
        assert examples.classes == ("cat", "dog")


def test_dataset_too_large_for_memory_is_read_again_when_needed():
    pixels = images(shape=(4, 6, 5, 3))
    pairs = Pairs([(p, label) for p, label in zip(pixels, LABELS, strict=True)])
    examples = from_dataset(pairs, memory_gb=1e-9)
    assert not examples.x.resident
    assert torch.equal(examples.x.take(torch.tensor([2, 0])), torch.from_numpy(pixels[[2, 0]]))
    changed = Pairs([(255 - p, 0) for p in pixels[:2]] + pairs.items[2:])
    other = from_dataset(changed, memory_gb=1e-9)
    assert other.x.digest() != examples.x.digest()


def test_dataset_that_is_none():
    with pytest.raises(BadInput, match="pair"):
        from_dataset(Pairs([1, 2]))
    with pytest.raises(BadInput, match="empty"):
        from_dataset(Pairs([]))
    with pytest.raises(BadInput, match="before normalising"):
        from_dataset(Pairs([(torch.full((3, 4, 4), -1.0), 0)] * 2))
    with pytest.raises(BadInput, match="item 1 of the data set has"):
        from_dataset(Pairs([(torch.zeros(3), 0), (torch.zeros(4), 1)]))


def test_two_classes_of_one_name_are_refused(tmp_path):
    np.savez(tmp_path / "a.npz", x=np.eye(6), y=np.arange(6) % 3, classes=["cat", "dog", "cat"])
    with pytest.raises(BadInput, match="'cat' comes twice"):
        load(tmp_path / "a.npz")


def test_an_archive_that_asks_for_more_than_it_holds_is_refused(tmp_path):
    import zipfile

    header = b"\x93NUMPY\x01\x00v\x00" + str(
        {"descr": "|u1", "fortran_order": False, "shape": (2**40,)}
    ).encode().ljust(117) + b"\n"  # fmt: skip
    with zipfile.ZipFile(tmp_path / "a.npz", "w") as archive:
        archive.writestr("x.npy", header + b"1234")
    with pytest.raises(BadInput, match="asks for more than the file holds"):
        load(tmp_path / "a.npz")


def test_one_text_or_a_table_is_no_list_of_texts():
    train = from_arrays(["a red car", "a blue car", "a red bus", "a blue bus"], LABELS)
    for given, kind in (
        ("a red car", "one text"),
        (pd.DataFrame({"text": ["a red car"]}), "a table"),
        (np.eye(3), "a table"),
    ):
        with pytest.raises(BadInput, match=f"a list or a column of texts .* but this is {kind}"):
            from_arrays(given, None, like=train)
    assert len(from_arrays(pd.Series(["a red car", "a bus"]), None, like=train)) == 2


def test_rows_of_numbers_are_not_made_a_list_to_see_whether_they_are_texts():
    class Rows(np.ndarray):
        """An array that may not be turned into a list."""

        def tolist(self):
            raise AssertionError("every number was made a Python object")

    assert not are_texts(np.zeros((3, 2)).view(Rows))
    assert are_texts(np.array(["a text", None], dtype=object))
    assert not are_texts(np.arange(3))
