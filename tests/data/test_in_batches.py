"""Vectors of Parquet, Hugging Face and .npy files: the same rows however they are kept."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import datasets
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch

from labelproof.data.encoders.columns import TableEncoder
from labelproof.data.examples import Resident
from labelproof.data.readers import SourceOptions, arrow_tables, in_batches, load
from labelproof.data.readers.on_disk import OnDisk
from labelproof.errors import BadInput
from labelproof.runs.prepare import prepare

ROWS = np.random.default_rng(0).normal(size=(300, 7)).astype("float32")
LABELS = np.array(["cat", "dog", "eel"])[np.arange(300) % 3]


@pytest.fixture
def small(tmp_path) -> SourceOptions:
    """Options under which nothing fits into memory."""
    return SourceOptions(memory_gb=0, cache=tmp_path / "cache")


def lists(rows: np.ndarray, fixed: bool) -> pa.Array:
    flat = pa.array(rows.ravel())
    if fixed:
        return pa.FixedSizeListArray.from_arrays(flat, rows.shape[1])
    return pa.ListArray.from_arrays(np.arange(len(rows) + 1) * rows.shape[1], flat)


def as_parquet(path: Path, rows: np.ndarray = ROWS, fixed: bool = False, **more: object) -> Path:
    columns = {"v": lists(rows, fixed), "label": LABELS[: len(rows)], **more}
    pq.write_table(pa.table(columns), path, row_group_size=64)
    return path


def as_saved(path: Path, rows: np.ndarray = ROWS, **more: object) -> Path:
    columns = {"v": list(rows), "label": LABELS[: len(rows)], **more}
    datasets.Dataset.from_dict(columns).save_to_disk(path)
    return path


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64", "int32"])
@pytest.mark.parametrize("fixed", [False, True])
def test_parquet_rows_are_the_same_in_memory_and_on_disk(tmp_path, small, dtype, fixed):
    rows = (10 * ROWS).astype(dtype)
    path = as_parquet(tmp_path / "v.parquet", rows, fixed, id=np.arange(300), note=["x"] * 300)
    memory, disk = load(path), load(path, small)
    assert isinstance(memory.x, Resident)
    assert isinstance(disk.x, OnDisk)
    assert disk.x.digest() == memory.x.digest()
    kept = rows if dtype == "float16" else rows.astype("float32")
    every = torch.arange(300)
    assert torch.equal(disk.x.take(every), torch.from_numpy(kept).float())
    assert torch.equal(memory.x.take(every), disk.x.take(every))
    assert memory.classes == disk.classes == ("cat", "dog", "eel")
    assert disk.ids == [str(row) for row in range(300)]
    assert disk.about["left_out"] == {"note": "not used beside vectors"}


def test_saved_data_sets_are_the_same_in_memory_and_on_disk(tmp_path, small):
    folder = as_saved(tmp_path / "saved")
    memory, disk = load(folder), load(folder, small)
    assert isinstance(disk.x, OnDisk)
    assert disk.x.digest() == memory.x.digest()
    assert torch.equal(disk.x.take(torch.arange(300)), torch.from_numpy(ROWS))


def test_the_file_in_the_cache_serves_again_and_belongs_to_its_source(tmp_path, small):
    path = as_parquet(tmp_path / "v.parquet")
    first, again = load(path, small).x, load(path, small).x
    assert first.path == again.path
    as_parquet(path, ROWS + 1)
    changed = load(path, small).x
    assert changed.path != first.path
    assert torch.equal(changed.take(torch.arange(3)), torch.from_numpy(ROWS[:3] + 1))
    changed.path.write_bytes(b"cut")  # damaged: it is made again
    again = load(path, small).x
    assert again.path == changed.path
    assert torch.equal(again.take(torch.arange(3)), torch.from_numpy(ROWS[:3] + 1))


@pytest.mark.parametrize("step", [2, 1000])
def test_bad_vectors_are_told_with_their_row(tmp_path, small, step, monkeypatch):
    monkeypatch.setattr(in_batches, "rows_a_batch", lambda width: step)

    def refused(match: str, options: SourceOptions, **columns: object) -> None:
        pq.write_table(pa.table(columns), tmp_path / "bad.parquet", row_group_size=2)
        with pytest.raises(BadInput, match=match):
            load(tmp_path / "bad.parquet", options)

    y = ["a", "b", "a"]
    for options in (small, SourceOptions()):
        refused(r"row 1 \(counting from 0\) has 1 num", options, v=[[1, 2], [3], [4, 5]], label=y)
        refused(r"row 2 \(counting from 0\) has 3", options, v=[[1, 2], [3, 4], [1, 2, 3]], label=y)
        refused("row 1 .* has none", options, v=[[1.0, 2], None, [4, 5]], label=y)
        refused("1 are missing, the first in row 2", options, v=[[1.0], [2], [None]], label=y)
        refused("the first in row 2 ", options, v=[[1.0], [2.0], [np.inf]], label=y)
        refused("there are v, w; leave all but one", options, v=[[1.0]] * 3, w=[[1]] * 3, label=y)
    assert not (tmp_path / "cache").exists() or not [*(tmp_path / "cache").glob(".*")]


def test_new_parquet_vectors_need_no_labels_and_must_fit(tmp_path):
    train = load(as_parquet(tmp_path / "v.parquet"))
    new = pa.table({"v": lists(ROWS[:5], fixed=False)})
    pq.write_table(new, tmp_path / "new.parquet")
    assert len(load(tmp_path / "new.parquet", like=train)) == 5
    pq.write_table(pa.table({"v": lists(ROWS[:5, :3], fixed=False)}), tmp_path / "new.parquet")
    with pytest.raises(BadInput, match=r"expected examples of shape \(7,\)"):
        load(tmp_path / "new.parquet", like=train)


def test_a_plan_reads_a_few_parquet_vectors(tmp_path):
    few = load(as_parquet(tmp_path / "v.parquet"), SourceOptions(sample=20))
    assert len(few) == 20
    assert few.about["sample"] == {"read": 20, "of": 300}


def test_a_plan_reads_rows_of_all_classes(tmp_path):
    path = as_parquet(tmp_path / "v.parquet")
    table = pa.table({"v": lists(ROWS, fixed=False), "label": np.sort(LABELS)})
    pq.write_table(table, path, row_group_size=64)
    few = load(path, SourceOptions(sample=20))
    assert few.classes == ("cat", "dog", "eel")
    rows = np.linspace(0, 299, 20).astype(int)
    assert torch.equal(few.x.take(torch.arange(20)), torch.from_numpy(ROWS[rows]))


@pytest.mark.parametrize("together", [32, 3])
def test_a_large_table_is_encoded_in_batches(tmp_path, small, monkeypatch, together):
    words = np.array(["red", "green"])[np.arange(300) % 2]
    columns = {f"f{i}": ROWS[:, i] for i in range(7)} | {"colour": words, "label": LABELS}
    path = tmp_path / "table.parquet"
    pq.write_table(pa.table(columns), path, row_group_size=64)
    monkeypatch.setattr(arrow_tables, "FITTED", 299)  # all but one row
    monkeypatch.setattr(arrow_tables, "rows_a_batch", lambda width: 32)
    monkeypatch.setattr(arrow_tables, "AT_A_TIME", together)
    memory, disk = load(path), load(path, small)
    assert isinstance(disk.x, OnDisk)
    assert isinstance(disk.encoder, TableEncoder)
    assert disk.classes == memory.classes
    every = torch.arange(300)
    assert (disk.x.take(every) - memory.x.take(every)).abs().max() < 0.05
    odd = columns | {"f1": [None, *ROWS[1:, 1]], "again": np.char.upper(LABELS)}
    odd["f0"] = ["oops" if row == 9 else str(value) for row, value in enumerate(ROWS[:, 0])]
    pq.write_table(pa.table(odd), tmp_path / "odd.parquet")
    told = load(tmp_path / "odd.parquet", small).about
    whole = load(tmp_path / "odd.parquet").about
    assert told["missing"] == whole["missing"] == {"f1": 1}
    assert told["warnings"] == whole["warnings"]
    assert len(told["warnings"]) >= 2
    like = load(path, small, like=disk)
    assert torch.equal(like.x.take(every), disk.x.take(every))
    assert not [*small.cache.glob(".*")]  # files of some columns are gone


def test_nothing_of_some_columns_is_left_where_reading_is_killed(tmp_path):
    path, cache = tmp_path / "table.parquet", tmp_path / "cache"
    pq.write_table(pa.table({f"f{i}": ROWS[:, i] for i in range(7)} | {"label": LABELS}), path)
    code = (
        "import os, signal, sys; from pathlib import Path\n"
        "from labelproof.data.readers import SourceOptions, in_batches, arrow_tables, load\n"
        "arrow_tables.FITTED, arrow_tables.AT_A_TIME = 299, 3\n"
        "in_batches._next_rows = lambda *_: os.kill(os.getpid(), signal.SIGKILL)\n"
        "load(sys.argv[1], SourceOptions(memory_gb=0, cache=Path(sys.argv[2])))"
    )
    ended = subprocess.run([sys.executable, "-c", code, str(path), str(cache)], check=False)
    assert ended.returncode == -9
    assert [file.suffix for file in cache.iterdir()] == [".partial"]  # the next run takes its place


@pytest.mark.parametrize("named", [True, False])
def test_a_large_data_set_of_texts_is_read_once(tmp_path, small, monkeypatch, named):
    monkeypatch.setattr(arrow_tables, "FITTED", 299)
    texts = [f"text number {row} speaks of {label}s" for row, label in enumerate(LABELS)]
    as_saved = datasets.Dataset.from_dict({"text": texts, "label": LABELS})
    as_saved.save_to_disk(str(tmp_path / "saved"))
    pq.write_table(pa.table({"text": texts, "label": LABELS}), tmp_path / "t.parquet")

    def read(*_: object) -> None:
        raise AssertionError("rows were read that nobody uses")

    monkeypatch.setattr(arrow_tables, "_spread_rows", read)
    options = replace(small, text_column="text" if named else None)
    for source in ("saved", "t.parquet"):
        found = load(tmp_path / source, options)
        assert found.captions[7] == texts[7]


def test_a_large_data_set_of_columns_is_encoded_in_batches(tmp_path, small, monkeypatch):
    columns = {f"f{i}": ROWS[:, i] for i in range(7)}
    codes = np.unique(LABELS, return_inverse=True)[1]
    saved = datasets.Dataset.from_dict({**columns, "kind": codes})
    kinds = datasets.ClassLabel(names=["cat", "dog", "eel"])
    saved.cast_column("kind", kinds).save_to_disk(str(tmp_path / "saved"))
    memory = load(tmp_path / "saved")
    monkeypatch.setattr(arrow_tables, "FITTED", 299)
    monkeypatch.setattr(arrow_tables, "AT_A_TIME", 3)
    disk = load(tmp_path / "saved", small)
    assert isinstance(disk.x, OnDisk)
    assert disk.classes == memory.classes == ("cat", "dog", "eel")
    assert (disk.labels == memory.labels).all()
    every = torch.arange(300)
    assert (disk.x.take(every) - memory.x.take(every)).abs().max() < 0.05
    like = load(tmp_path / "saved", small, like=disk)
    assert torch.equal(like.x.take(every), disk.x.take(every))


def test_a_column_that_pandas_keeps_as_its_index_is_a_feature(tmp_path, small, monkeypatch):
    monkeypatch.setattr(arrow_tables, "FITTED", 299)
    frame = pa.table({f"f{i}": ROWS[:, i] for i in range(3)} | {"label": LABELS}).to_pandas()
    frame.set_index("f1").to_parquet(tmp_path / "index.parquet")
    found = load(tmp_path / "index.parquet", small)
    assert sorted(column.name for column in found.encoder.columns) == ["f0", "f1", "f2"]


# ---- .npy ----


def test_an_npy_with_labels_beside_it(tmp_path, small):
    np.save(tmp_path / "x.npy", ROWS)
    np.save(tmp_path / "y.npy", LABELS)
    lines = [f"row{i},{label},cat" for i, label in enumerate(LABELS)]
    (tmp_path / "y.csv").write_text("\n".join(["id,label,true", *lines]))
    named = SourceOptions(labels=tmp_path / "y.npy")
    on_disk = SourceOptions(labels=tmp_path / "y.npy", memory_gb=0)
    beside = SourceOptions(labels=tmp_path / "y.csv", truth_key="true")
    first, second, third = (load(tmp_path / "x.npy", how) for how in (named, on_disk, beside))
    assert isinstance(second.x, OnDisk)
    assert first.x.digest() == second.x.digest() == third.x.digest()
    assert (first.labels == third.labels).all()
    assert third.ids is not None
    assert third.ids[2] == "row2"
    assert (third.truth == 0).all()
    assert len(load(tmp_path / "x.npy", like=first)) == 300


def test_test_data_without_labels_says_how_arrays_get_them(tmp_path):
    np.save(tmp_path / "x.npy", ROWS)
    np.savez(tmp_path / "train.npz", x=ROWS, y=LABELS)
    np.savez(tmp_path / "bare.npz", x=ROWS)
    new = pa.table({f"f{i}": ROWS[:, i] for i in range(7)})
    pq.write_table(new, tmp_path / "new.parquet")
    pq.write_table(new.append_column("label", pa.array(LABELS)), tmp_path / "train.parquet")
    together = r"save them as x and their labels as y in one .npz \(numpy.savez\), or leave out"
    for train, test, match in (
        ("train.npz", "x.npy", together),
        ("train.npz", "bare.npz", together),
        ("train.parquet", "new.parquet", "name their label column or leave out"),
    ):
        known = load(tmp_path / train)
        with pytest.raises(BadInput, match=match):
            prepare(known, load(tmp_path / test, like=known))


def test_bad_npy_files_are_told_in_a_sentence(tmp_path):
    def refused(match: str, **options: object) -> None:
        with pytest.raises(BadInput, match=match):
            load(tmp_path / "x.npy", SourceOptions(**options))

    np.save(tmp_path / "y.npy", LABELS[:5])
    y = tmp_path / "y.npy"
    (tmp_path / "x.npy").write_bytes(b"not an array")
    refused("x.npy, but it could not be read", labels=y)
    np.save(tmp_path / "x.npy", np.array([{}] * 5, dtype=object), allow_pickle=True)
    refused("pickled objects", labels=y)
    np.save(tmp_path / "x.npy", ROWS)
    refused("name them with --labels")
    refused("each of the 300 rows of x.npy, but y.npy has 5", labels=y)
    refused("with --annotators, which names a column", labels=y, annotators=("a*",))
    refused("with --group, which names a column", labels=y, group="site")
    np.save(tmp_path / "one.npy", np.array("cat"))
    refused("one.npy, but it holds a single value", labels=tmp_path / "one.npy")
    refused("with --truth-key, which names a column", labels=y, truth_key="true")


# ---- memory ----

PEAK = """
import sys
from pathlib import Path
from labelproof.data.readers import SourceOptions, load
def peak():  # of this process alone; ru_maxrss begins with that of its parent
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM"))
load(sys.argv[1], SourceOptions(memory_gb=0.01, cache=Path(sys.argv[3])))  # with all imports
before = peak()
found = load(sys.argv[2], SourceOptions(memory_gb=0.01, cache=Path(sys.argv[3])))
found.x.digest()
print(peak() - before)
"""


def peak_of(tables, folder, compression="snappy"):
    """Kilobytes that a process needs more to read the second table, after the first."""
    paths = [folder / f"{number}.parquet" for number in range(len(tables))]
    for path, columns in zip(paths, tables, strict=True):
        size = len(next(iter(columns.values())))
        table = pa.table({**columns, "label": np.resize(LABELS, size)})
        pq.write_table(table, path, row_group_size=10**6, compression=compression)
    command = [sys.executable, "-c", PEAK, *map(str, paths), str(folder / "cache")]
    return int(subprocess.run(command, capture_output=True, text=True, check=True).stdout)


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="needs /proc")
def test_vectors_of_a_large_parquet_take_little_memory(tmp_path):
    rows = np.random.default_rng(0).normal(size=(120_000, 256)).astype("float32")  # 123 MB
    tables = [{"v": lists(some, fixed=False)} for some in (rows[:200], rows)]
    assert peak_of(tables, tmp_path, compression="none") < 180e3  # at once: twice 123 MB


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="needs /proc")
def test_many_columns_of_a_large_parquet_take_little_memory(tmp_path):
    rows = np.random.default_rng(0).normal(size=(110_000, 192)).astype("float32")  # 84 MB
    tables = [{f"f{i}": column for i, column in enumerate(some.T)} for some in (rows[:200], rows)]
    assert peak_of(tables, tmp_path) < 300e3  # all at a time: over 400 MB
