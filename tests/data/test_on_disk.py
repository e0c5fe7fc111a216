"""Vectors that are larger than memory stay in their .npz: the same rows, hash and training."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from cases import CASES
from labelproof.data.examples import Examples, Resident
from labelproof.data.readers import SourceOptions, find_duplicates, load
from labelproof.data.readers.on_disk import OnDisk, left_on_disk
from labelproof.errors import BadInput
from tiny import blobs, same_bits

SMALL = SourceOptions(memory_gb=0)
ROWS = np.random.default_rng(0).normal(size=(300, 7))


def saved(path: Path, dtype: str, **more: object) -> Path:
    np.savez(path, y=np.arange(300) % 3, x=ROWS.astype(dtype), **more)
    return path


@pytest.mark.parametrize("dtype", ["float16", "float32"])
def test_rows_and_hash_are_those_of_memory(tmp_path, dtype):
    path = saved(tmp_path / "data.npz", dtype)
    disk, memory = load(path, SMALL).x, load(path).x
    assert isinstance(disk, OnDisk)
    assert isinstance(memory, Resident)
    assert (disk.shape, len(disk), disk.digest()) == (memory.shape, len(memory), memory.digest())
    for index in (torch.tensor([5, 3, 3, 299]), torch.arange(300), torch.arange(0)):
        assert torch.equal(disk.take(index), memory.take(index))


def test_training_gives_the_same_bits(tmp_path):
    problem = blobs(size=51)
    np.savez(tmp_path / "data.npz", x=problem.task.x.data.numpy())
    disk = left_on_disk(tmp_path / "data.npz", "x", 0)
    assert disk is not None
    other = replace(problem, task=replace(problem.task, x=disk))
    assert same_bits(problem.train(CASES["dpc"]), other.train(CASES["dpc"]))


def test_what_must_be_converted_is_read_whole(tmp_path):
    np.savez_compressed(tmp_path / "packed.npz", x=ROWS.astype("float32"), y=np.arange(300) % 3)
    np.savez(tmp_path / "f.npz", x=np.asfortranarray(ROWS.astype("float32")), y=np.arange(300) % 3)
    for path in (saved(tmp_path / "d.npz", "float64"), tmp_path / "packed.npz", tmp_path / "f.npz"):
        assert isinstance(load(path, SMALL).x, Resident)


def test_the_first_bad_row_is_named(tmp_path):
    bad = ROWS.astype("float32")
    bad[123, 2] = np.nan
    np.savez(tmp_path / "data.npz", x=bad, y=np.arange(300) % 3)
    with pytest.raises(BadInput, match="1 are missing or infinite, the first in row 123 "):
        load(tmp_path / "data.npz", SMALL)


def test_a_file_that_is_cut_short_is_noticed(tmp_path):
    path = saved(tmp_path / "data.npz", "float32")
    disk = left_on_disk(path, "x", 0)
    assert disk is not None
    with path.open("r+b") as file:
        file.truncate(disk.start + 7 * 4 * 100)
    with pytest.raises(OSError, match="cut short"):
        disk.take(torch.tensor([200]))


def test_copies_are_grouped_by_their_first_row():
    rows = torch.tensor([[3.0], [1.0], [3.0], [2.0], [1.0], [3.0], [9.0]])
    found = find_duplicates(Examples(x=Resident(rows), labels=np.array([0, 1, 0, 0, 1, 1, 0])))
    assert found.groups == ((0, 2, 5), (1, 4))
    assert found.conflicting == ((0, 2, 5),)
    assert found.extra == 3
    assert find_duplicates(Examples(x=Resident(rows[:1]), labels=None)).groups == ()
