"""Benchmark sets in their published forms, written here at a small size by independent means."""

from __future__ import annotations

import gzip
import io
import pickle
import struct

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from PIL import Image
from source_files import only_bad_input, picture

from labelproof.data.examples import Subset
from labelproof.data.readers import SourceOptions, load
from labelproof.data.readers.published.cifar import CIFAR10, read_binary, read_python
from labelproof.data.readers.published.idx import read_idx
from labelproof.data.readers.published.locate import plain
from labelproof.data.readers.streamed import whole
from labelproof.errors import BadInput
from labelproof.runs.prepare import prepare
from labelproof.training.run import Run
from labelproof.views import ImageViews
from labelproof.views.image_views import shown

NAMES10 = ["airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck"]
FUZZ = settings(
    max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)


def cifar10(root, form="py", per_batch=20):
    """A small CIFAR-10; returns the training images as RGB rows and their labels."""
    rng = np.random.default_rng(0)
    folder = root / f"cifar-10-batches-{form}"
    folder.mkdir(parents=True)
    pictures, labels = [], []
    for name in (*(f"data_batch_{k}" for k in range(1, 6)), "test_batch"):
        x = rng.integers(0, 256, (per_batch, 32, 32, 3), dtype=np.uint8)
        y = rng.permutation(np.arange(per_batch) % 10)
        planes = x.transpose(0, 3, 1, 2).reshape(per_batch, -1)
        if form == "py":
            batch = {b"data": planes, b"labels": y.tolist(), b"filenames": [b"a.png"] * per_batch}
            (folder / name).write_bytes(pickle.dumps(batch, protocol=2))
        else:
            rows = np.concatenate([y[:, None].astype(np.uint8), planes], axis=1)
            (folder / f"{name}.bin").write_bytes(rows.tobytes())
        pictures.append(x)
        labels.append(y)
    if form == "py":
        meta = {b"label_names": [name.encode() for name in NAMES10]}
        (folder / "batches.meta").write_bytes(pickle.dumps(meta, protocol=2))
    else:
        (folder / "batches.meta.txt").write_text("\n".join(NAMES10) + "\n\n")
    return np.concatenate(pictures[:5]), np.concatenate(labels[:5])


def python2_batch(pixels, labels):
    """A batch as Python 2 pickled it, which is how CIFAR was published: opcodes written by hand."""
    count, width = pixels.shape
    listed = b"".join(b"K" + bytes([label]) for label in labels)
    return (
        b"\x80\x02}q\x01(U\x04dataq\x02cnumpy.core.multiarray\n_reconstruct\nq\x03"
        b"cnumpy\nndarray\nq\x04K\x00\x85U\x01bq\x05\x87Rq\x06(K\x01"
        + b"K" + bytes([count]) + b"M" + struct.pack("<H", width) + b"\x86q\x07"
        + b"cnumpy\ndtype\nq\x08U\x02u1q\x09K\x00K\x01\x87Rq\x0a(K\x03U\x01|q\x0bNNN"
        + b"J\xff\xff\xff\xffJ\xff\xff\xff\xffK\x00tq\x0cb\x89"
        + b"T" + struct.pack("<I", pixels.size) + pixels.tobytes() + b"q\x0dtq\x0eb"
        + b"U\x06labelsq\x0f](" + listed + b"eu."
    )  # fmt: skip


def test_batches_pickled_by_python_2(tmp_path):
    pixels = np.random.default_rng(0).integers(0, 256, (3, 3072), dtype=np.uint8)
    (tmp_path / "data_batch_1").write_bytes(python2_batch(pixels, [4, 0, 9]))
    x, y = read_python(tmp_path / "data_batch_1", CIFAR10)
    assert y.tolist() == [4, 0, 9]
    assert np.array_equal(x, pixels.reshape(3, 3, 32, 32).transpose(0, 2, 3, 1))


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
@pytest.mark.parametrize("labels", [list, np.array])
def test_batches_pickled_by_python_3(tmp_path, protocol, labels):
    pixels = np.random.default_rng(0).integers(0, 256, (10, 3072), dtype=np.uint8)
    folder = tmp_path / "cifar-10-batches-py"
    folder.mkdir()
    for name in (*(f"data_batch_{k}" for k in range(1, 6)), "test_batch"):
        batch = {"data": pixels, "labels": labels(range(10)), "filenames": ["a.png"] * 10}
        (folder / name).write_bytes(pickle.dumps(batch, protocol=protocol))
    (folder / "batches.meta").write_bytes(pickle.dumps({"label_names": NAMES10}, protocol))
    examples = load("cifar10", at(tmp_path))
    assert np.array_equal(taken(examples)[:10].transpose(0, 3, 1, 2).reshape(10, -1), pixels)
    assert examples.labels[:10].tolist() == list(range(10))
    assert examples.classes == tuple(NAMES10)


def at(root, **options):
    return SourceOptions(data_dir=root, **options)


def taken(examples):
    return examples.x.take(torch.arange(len(examples))).numpy()


@pytest.mark.parametrize("form", ["py", "bin"])
def test_cifar10(tmp_path, form):
    x, y = cifar10(tmp_path, form)
    examples = load("cifar10", at(tmp_path))
    assert np.array_equal(taken(examples), x)
    assert np.array_equal(examples.labels, y)
    assert np.array_equal(examples.truth, y)
    assert examples.classes == tuple(NAMES10)
    assert len(examples.test) == 20
    assert examples.normalise[0] == (0.4914, 0.4822, 0.4465)
    assert len(load("cifar10", at(tmp_path), like=examples)) == 20  # its test part


@pytest.mark.parametrize("form", ["python", "binary"])
def test_cifar100_has_fine_labels(tmp_path, form):
    rng = np.random.default_rng(0)
    folder = tmp_path / f"cifar-100-{form}"
    folder.mkdir()
    names = [f"thing{k:02d}" for k in range(100)]
    for name in ("train", "test"):
        x = rng.integers(0, 256, (200, 3072), dtype=np.uint8)
        y = np.arange(200) % 100
        if form == "python":
            batch = {b"data": x, b"fine_labels": y.tolist(), b"coarse_labels": [0] * 200}
            (folder / name).write_bytes(pickle.dumps(batch, protocol=2))
        else:
            rows = np.concatenate([np.zeros((200, 1), np.uint8), y[:, None].astype(np.uint8), x], 1)
            (folder / f"{name}.bin").write_bytes(rows.tobytes())
    if form == "python":
        meta = {b"fine_label_names": [name.encode() for name in names]}
        (folder / "meta").write_bytes(pickle.dumps(meta, protocol=2))
    else:
        (folder / "fine_label_names.txt").write_text("\n".join(names))
    examples = load("cifar100", at(tmp_path))
    assert examples.labels.tolist() == y.tolist()
    assert examples.classes == tuple(names)


def humans(y, rng):
    noisy = {f"random_label{k}": (y + rng.integers(0, 2, len(y))) % 10 for k in (1, 2, 3)}
    return {"clean_label": y, "worse_label": (y + 1) % 10, "aggre_label": y.copy(), **noisy}


@pytest.mark.parametrize("tensors", [False, True])
@pytest.mark.parametrize("old", [False, True])
def test_human_labels_from_pt(tmp_path, tensors, old):
    _, y = cifar10(tmp_path)
    table = humans(y.astype(np.int64), np.random.default_rng(1))
    saved = {k: torch.from_numpy(v) for k, v in table.items()} if tensors else table
    torch.save(saved, tmp_path / "CIFAR-10_human.pt", _use_new_zipfile_serialization=not old)
    keys = {"worst": "worse_label", "aggre": "aggre_label", "rand1": "random_label1",
            "rand2": "random_label2", "rand3": "random_label3"}  # fmt: skip
    for name, key in keys.items():
        examples = load(f"cifar10n-{name}", at(tmp_path))
        assert np.array_equal(examples.labels, table[key])
        assert np.array_equal(examples.truth, y)
        assert examples.classes == tuple(NAMES10)


def test_human_labels_from_npy_in_another_order(tmp_path):
    _, y = cifar10(tmp_path)
    rng = np.random.default_rng(1)
    table, order = humans(y, rng), rng.permutation(len(y))
    ordered = {key: values[order] for key, values in table.items()}
    np.save(tmp_path / "CIFAR-10_human_ordered.npy", ordered, allow_pickle=True)
    np.save(tmp_path / "image_order_c10.npy", order)
    examples = load("cifar10n-worst", at(tmp_path))
    assert np.array_equal(examples.labels, table["worse_label"])
    (tmp_path / "image_order_c10.npy").unlink()
    with pytest.raises(BadInput, match="order of the CIFAR images"):
        load("cifar10n-worst", at(tmp_path))


def test_human_labels_in_the_wrong_order_are_refused(tmp_path):
    _, y = cifar10(tmp_path)
    table = humans(y, np.random.default_rng(1))
    torch.save({k: v[::-1].copy() for k, v in table.items()}, tmp_path / "CIFAR-10_human.pt")
    with pytest.raises(BadInput, match=r"differ from theirs for \d+ of 100 images"):
        load("cifar10n-rand2", at(tmp_path))
    torch.save({k: v[:50] for k, v in table.items()}, tmp_path / "CIFAR-10_human.pt")
    with pytest.raises(BadInput, match="expected 100 labels under random_label2"):
        load("cifar10n-rand2", at(tmp_path))


class Evil:
    def __reduce__(self):
        return (open, ("owned.txt", "w"))


@pytest.mark.parametrize("kind", ["pt", "old pt", "npy", "batch"])
def test_files_that_would_run_code_are_refused(tmp_path, monkeypatch, kind):
    monkeypatch.chdir(tmp_path)
    cifar10(tmp_path)
    if kind == "npy":
        np.save(tmp_path / "CIFAR-10_human_ordered.npy", {"a": Evil()}, allow_pickle=True)
    elif kind == "batch":
        (tmp_path / "cifar-10-batches-py" / "data_batch_3").write_bytes(pickle.dumps(Evil()))
    else:
        old = kind == "old pt"
        torch.save(
            {"a": Evil()}, tmp_path / "CIFAR-10_human.pt", _use_new_zipfile_serialization=not old
        )
    with pytest.raises(BadInput, match=r"would run code.*calls (io|_io)\.open"):
        load("cifar10" if kind == "batch" else "cifar10n-worst", at(tmp_path))
    assert not (tmp_path / "owned.txt").exists()


def idx(array):
    head = struct.pack(">HBB", 0, 8, array.ndim) + struct.pack(f">{array.ndim}I", *array.shape)
    return head + array.astype(np.uint8).tobytes()


@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize(("name", "folder"), [("mnist", "MNIST/raw"), ("fashion-mnist", "")])
def test_idx_sets(tmp_path, packed, name, folder):
    rng = np.random.default_rng(0)
    x, y = rng.integers(0, 256, (20, 28, 28), dtype=np.uint8), np.arange(20) % 10
    (tmp_path / folder).mkdir(parents=True, exist_ok=True)
    for part in ("train", "t10k"):
        for file, array in ((f"{part}-images-idx3-ubyte", x), (f"{part}-labels-idx1-ubyte", y)):
            data = gzip.compress(idx(array)) if packed else idx(array)
            (tmp_path / folder / (file + (".gz" if packed else ""))).write_bytes(data)
    examples = load(name, at(tmp_path))
    assert examples.x.shape == (28, 28, 3)
    assert np.array_equal(taken(examples)[..., 1], x)
    assert examples.labels.tolist() == y.tolist()
    assert examples.classes[9] == ("9" if name == "mnist" else "Ankle boot")
    assert len(examples.test) == 20


@pytest.mark.parametrize(
    "name", ["cifar10", "cifar100", "cifar10n-worst", "cifar100n", "mnist", "fashion-mnist",
             "webvision", "ilsvrc12"]
)  # fmt: skip
def test_missing_files_are_named_with_their_home(tmp_path, name):
    with pytest.raises(BadInput) as caught:
        load(name, at(tmp_path))
    text = str(caught.value)
    for word in ("not there", "http", str(tmp_path), "--data-dir"):
        assert word in text
    assert list(tmp_path.iterdir()) == []


def webvision(root):
    """Three training and two validation images for each of classes 0, 1, 49 and 50."""
    (root / "info").mkdir(parents=True)
    synsets = [f"n{k:08d} thing {k}, other name" for k in range(60)]
    (root / "info" / "synsets.txt").write_text("\n".join(synsets))
    lists = {"train_filelist_google.txt": [], "val_filelist.txt": []}
    for label in (0, 1, 49, 50):
        for k in range(3):
            name = f"google/q{label:04d}/{k}.jpg"
            lists["train_filelist_google.txt"].append(f"{name} {label}")
            (root / name).parent.mkdir(parents=True, exist_ok=True)
            picture(label * 10 + k, (40, 30)).save(root / name)
        for k in range(2):
            name = f"val{label:03d}{k}.jpg"
            lists["val_filelist.txt"].append(f"{name} {label}")
            (root / "val_images_256").mkdir(exist_ok=True)
            picture(k, (40, 30)).save(root / "val_images_256" / name)
    for name, lines in lists.items():
        (root / "info" / name).write_text("\n".join(lines) + "\n")


def test_webvision_and_ilsvrc12(tmp_path):
    webvision(tmp_path / "webvision")
    examples = load("webvision", at(tmp_path, image_size=32))
    assert len(examples.classes) == 50
    assert examples.classes[49] == "thing 49"
    assert examples.labels.tolist() == [0] * 3 + [1] * 3 + [49] * 3
    assert examples.test.labels.tolist() == [0, 0, 1, 1, 49, 49]
    assert examples.normalise[1] == (0.229, 0.224, 0.225)
    assert whole(examples.x) is examples.x
    for label in (1, 49, 55):
        folder = tmp_path / "imagenet" / "val" / f"n{label:08d}"
        folder.mkdir(parents=True)
        picture(label, (40, 30)).save(folder / "ILSVRC2012_val_0001.JPEG")
    test = load("ilsvrc12", at(tmp_path, image_size=32), like=examples)
    assert test.labels.tolist() == [1, 49]


def test_webvision_keeps_whole_pictures_for_random_crops(tmp_path):
    webvision(tmp_path / "webvision")
    sides = {0: (90, 40), 1: (40, 64), 2: (100, 40)}  # width, height
    for k, size in sides.items():
        picture(k, size).save(tmp_path / "webvision" / f"google/q0000/{k}.jpg", quality=100)
    examples = load("webvision", at(tmp_path))
    assert examples.x.shape == examples.test.x.shape == (320, 320, 3)
    assert whole(examples.test.x) is examples.test.x
    first = torch.arange(3)
    squares, pictures = examples.x.take(first), whole(examples.x).take(first)
    assert pictures.shape == (3, 640, 640, 4)
    assert shown(pictures).tolist() == [[640, 320], [320, 512], [640, 320]]
    original = Image.open(tmp_path / "webvision/google/q0000/1.jpg").resize((320, 512), 2)
    assert np.array_equal(pictures[1, 64:576, 160:480, :3].numpy(), np.asarray(original))
    views = ImageViews(mean=(0.5,) * 3, std=(0.2,) * 3, size=299, crop="resized", padding=0)
    apart = (views.plain(pictures) - views.plain(squares)).abs() * 0.2 * 255
    assert apart.max() < 2.5
    # a part of the data keeps its margins, and so do the batches that training takes
    some = Subset(examples.x, torch.tensor([2, 4]))
    assert whole(some).take(torch.tensor([0])).shape == (1, 640, 640, 4)
    assert torch.equal(whole(some).take(torch.tensor([0]))[0], pictures[2])
    task = prepare(examples).task
    assert task.views.size == 299
    run = Run(task, torch.nn.Flatten, device=torch.device("cpu"), seed=0)
    batches = run.batches(3, first, views=("weak", "plain"))
    batch = next(iter(batches))
    assert [view.shape for view in batch.views] == [(3, 3, 299, 299)] * 2


def test_ilsvrc12_flat_with_the_solution_table(tmp_path):
    webvision(tmp_path / "webvision")
    folder = tmp_path / "imagenet" / "val"
    folder.mkdir(parents=True)
    lines = ["ImageId,PredictionString"]
    for number, label in enumerate((49, 55, 0)):
        picture(number, (40, 30)).save(folder / f"ILSVRC2012_val_{number}.JPEG")
        lines.append(f"ILSVRC2012_val_{number},n{label:08d} 1 2 3 4 n{label:08d} 5 6 7 8 ")
    (tmp_path / "imagenet" / "LOC_val_solution.csv").write_text("\n".join(lines))
    assert load("ilsvrc12", at(tmp_path, image_size=32)).labels.tolist() == [49, 0]


HEAD = struct.pack(">HBBI", 0, 8, 1, 5)


@FUZZ
@given(st.one_of(st.binary(max_size=64), st.binary(max_size=16).map(lambda b: HEAD + b)))
def test_fuzz_idx(tmp_path, data):
    path = tmp_path / "f"
    path.write_bytes(data)
    only_bad_input(lambda: read_idx(path))
    (tmp_path / "g.gz").write_bytes(gzip.compress(data)[: len(data) + 10])
    only_bad_input(lambda: read_idx(tmp_path / "g.gz"))


BATCH = pickle.dumps(
    {b"data": np.zeros((2, 3072), np.uint8), b"labels": [1, 2]}, protocol=2
)  # one good batch, to be damaged


@FUZZ
@given(
    st.one_of(
        st.binary(max_size=64).map(lambda b: b"\x80\x02" + b),
        st.tuples(st.integers(0, len(BATCH) - 1), st.binary(min_size=1, max_size=4)).map(
            lambda change: BATCH[: change[0]] + change[1] + BATCH[change[0] + len(change[1]) :]
        ),
        st.integers(0, 400).map(lambda n: BATCH[:n]),
    )
)
def test_fuzz_cifar(tmp_path, data):
    path = tmp_path / "b"
    path.write_bytes(data)
    only_bad_input(lambda: read_python(path, CIFAR10))
    only_bad_input(lambda: read_binary(path, CIFAR10))


def test_a_memo_that_asks_for_all_memory_does_not_get_it():
    assert plain(b"\x80\x02]r\xff\xff\xff\x7f.", "x") == []


def test_idx_that_says_more_than_it_holds(tmp_path):
    path = tmp_path / "i"
    path.write_bytes(struct.pack(">HBBII", 0, 8, 2, 2**31, 2**31))
    with pytest.raises(BadInput, match="too much"):
        read_idx(path)
    path.write_bytes(HEAD + b"1234")
    with pytest.raises(BadInput, match="5 bytes and 4 came"):
        read_idx(path)
    file = io.BytesIO()
    with gzip.GzipFile(fileobj=file, mode="w") as packed:
        packed.write(HEAD + b"0" * 10_000_000)
    (tmp_path / "i.gz").write_bytes(file.getvalue())
    with pytest.raises(BadInput, match="5 bytes and 6 came"):
        read_idx(tmp_path / "i.gz")
