"""Checkpoints: whole or not at all, nothing executable inside, refused in a sentence."""

from __future__ import annotations

import io
import os
import pickle
import random
from collections import OrderedDict
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from labelproof.errors import BadInput
from labelproof.nets.heads import linear
from labelproof.training import checkpoint
from labelproof.training.learner import SGD, Learner
from tiny import blobs

CONTENT = {"state": {"clean": torch.arange(300.0), "names": ["a", 1, 2.5, None, True]}}
NOISE = random.Random(0).randbytes(2000)
pytestmark = pytest.mark.filterwarnings("ignore:Detected pickle protocol")


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "checkpoint.pt"


def refused(path: Path) -> str:
    """The sentence a file is refused with."""
    with pytest.raises(BadInput) as caught:
        checkpoint.load(path)
    assert str(path) in str(caught.value)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_gives_back_what_was_saved(path):
    checkpoint.save(path, CONTENT)
    loaded = checkpoint.load(path)
    assert torch.equal(loaded["state"]["clean"], CONTENT["state"]["clean"])
    assert loaded["state"]["names"] == CONTENT["state"]["names"]
    assert [file.name for file in path.parent.iterdir()] == ["checkpoint.pt"]


def test_a_failed_save_leaves_the_old_one(path, monkeypatch):
    checkpoint.save(path, CONTENT)
    before = path.read_bytes()

    def full(content: object, file: Any) -> None:
        file.write(b"half of it")
        raise OSError("no space left")

    monkeypatch.setattr(torch, "save", full)
    with pytest.raises(OSError, match="no space"):
        checkpoint.save(path, {"state": {}})
    assert path.read_bytes() == before


@pytest.mark.parametrize("content", [b"", b"\x80", b"not a checkpoint at all", NOISE])
def test_other_files_are_refused(path, content):
    path.write_bytes(content)
    refused(path)


def test_a_folder_is_refused(path):
    path.mkdir()
    refused(path)


@pytest.mark.parametrize("zipped", [True, False])
def test_damaged_checkpoints_are_refused_and_never_escape_as_another_error(path, zipped):
    file = io.BytesIO()
    content = {"format": checkpoint.FORMAT, **CONTENT, "history": [{"epoch": 1}]}
    torch.save(content, file, _use_new_zipfile_serialization=zipped)
    whole, rng = file.getvalue(), random.Random(0)
    for length in rng.sample(range(len(whole)), 60):
        path.write_bytes(whole[:length])
        refused(path)
    for _ in range(200):
        damaged = bytearray(whole)
        for place in rng.sample(range(len(whole)), 20):
            damaged[place] = rng.randrange(256)
        path.write_bytes(damaged)
        with suppress(BadInput):  # damage to numbers alone cannot be seen
            checkpoint.load(path)


def test_one_flipped_bit_is_refused_wherever_it_is_or_changes_nothing(path):
    checkpoint.save(path, CONTENT)
    whole, expected = path.read_bytes(), checkpoint.digest(checkpoint.load(path))
    for place in random.Random(0).sample(range(len(whole)), 300):
        damaged = bytearray(whole)
        damaged[place] ^= 1 << (place % 8)
        path.write_bytes(damaged)
        with suppress(BadInput):
            assert checkpoint.digest(checkpoint.load(path)) == expected


def test_a_checksum_that_does_not_fit_is_refused(path):
    content = {"format": checkpoint.FORMAT, "digest": checkpoint.digest({"state": 1}), "state": 2}
    torch.save(content, path)
    assert "checksum differs" in refused(path)


def test_lists_that_hold_themselves_or_swell_are_refused(path):
    level: list[Any] = [0]
    for _ in range(60):
        level = [level, level]
    circle: list[Any] = []
    circle.append(circle)
    for state in (level, circle):
        torch.save({"format": checkpoint.FORMAT, "digest": "", "state": state}, path)
        assert "holds more than its bytes could" in refused(path)


@pytest.mark.parametrize("state", [{1, 2}, torch.eye(2).to_sparse(), bytearray(3), 1j])
def test_values_that_are_never_saved_are_refused(path, state):
    torch.save({"format": checkpoint.FORMAT, "digest": "", "state": state}, path)
    assert "it holds a" in refused(path)


def test_a_list_in_two_places_is_saved(path):
    betas = [0.9, 0.99]
    checkpoint.save(path, {"state": {"one": betas, "two": betas}})
    assert checkpoint.load(path)["state"] == {"one": betas, "two": betas}


class Malicious:
    """Makes a file when it is unpickled."""

    def __init__(self, made: Path) -> None:
        self.made = made

    def __reduce__(self) -> tuple[Any, ...]:
        return os.mkdir, (str(self.made),)


@pytest.mark.parametrize("dump", [pickle.dump, torch.save])
def test_nothing_in_a_checkpoint_is_executed(path, dump):
    made = path.parent / "executed"
    with path.open("wb") as file:
        dump({"format": checkpoint.FORMAT, "state": Malicious(made), "history": []}, file)
    refused(path)
    assert not made.exists()
    with path.open("rb") as file:  # the file is harmful to readers that trust it
        torch.load(file, weights_only=False) if dump is torch.save else pickle.load(file)
    assert made.exists()


@pytest.mark.parametrize("content", [{"format": 999}, {"state": {}}, [1, 2], torch.ones(3)])
def test_another_format_is_named(path, content):
    torch.save(content, path)
    assert f"not {checkpoint.FORMAT} as expected" in refused(path)


@dataclass
class Inner:
    table: Tensor
    steps: int


@dataclass
class Everything:
    """All that a state may hold."""

    learner: Learner
    pair: tuple[Learner, Learner]
    named: dict[str, Learner]
    teacher: nn.Module
    table: nn.Parameter
    optimiser: torch.optim.Optimizer
    inner: Inner
    growing: list[float]
    nothing: Tensor | None
    late: Tensor | None
    word: str


def everything(seed: int) -> Everything:
    run = blobs(size=40).run(seed)

    def learner() -> Learner:
        return run.learner(SGD(lr=0.1), label=linear)

    table = nn.Parameter(torch.randn(40, 3))
    return Everything(
        learner=learner(),
        pair=(learner(), learner()),
        named={"a": learner(), "b": learner()},
        teacher=nn.Sequential(nn.Linear(2, 2), nn.BatchNorm1d(2)),
        table=table,
        optimiser=torch.optim.SGD([table], lr=0.1, momentum=0.9),
        inner=Inner(torch.rand(4), seed),
        growing=[],
        nothing=None,
        late=None,
        word=f"word {seed}",
    )


def step(state: Everything) -> None:
    """Change all of it a little."""
    for learner in (state.learner, *state.pair, *state.named.values()):
        learner.optimiser.zero_grad()
        learner.net(torch.ones(3, 6)).square().sum().backward()
        learner.optimiser.step()
    state.teacher(torch.randn(5, 2))
    state.optimiser.zero_grad()
    state.table.square().sum().backward()
    state.optimiser.step()
    state.growing.append(0.5)
    state.late = torch.arange(3)


def test_all_kinds_of_state_come_back(path):
    old = everything(1)
    step(old)
    checkpoint.save(path, {"state": checkpoint.pack(old)})
    fresh = everything(2)
    table = fresh.table
    new = checkpoint.unpack(fresh, checkpoint.load(path)["state"])
    assert new.table is table  # the optimiser must go on changing the same one
    assert isinstance(new.pair, tuple)
    assert (new.growing, new.nothing, new.word, new.inner.steps) == ([0.5], None, "word 1", 1)
    for _ in range(2):
        assert flat(checkpoint.pack(new)) == flat(checkpoint.pack(old))
        seeded_step(old)
        seeded_step(new)


def seeded_step(state: Everything) -> None:
    torch.manual_seed(0)
    step(state)


def flat(value: Any) -> Any:
    """Nested values with tensors as lists, so that == compares all of it."""
    if isinstance(value, (dict, OrderedDict)):
        return {key: flat(item) for key, item in value.items()}
    if isinstance(value, list):
        return [flat(item) for item in value]
    return value.tolist() if isinstance(value, Tensor) else value


def test_packing_copies_tables():
    state = Inner(torch.zeros(3), 0)
    packed = checkpoint.pack(state)
    state.table += 1
    assert packed["table"].tolist() == [0, 0, 0]


def test_networks_are_found_and_named_wherever_they_stand():
    state = everything(0)
    found = checkpoint.networks(state)
    assert found == {
        "learner": state.learner.net,
        "pair.0": state.pair[0].net,
        "pair.1": state.pair[1].net,
        "named.a": state.named["a"].net,
        "named.b": state.named["b"].net,
        "teacher": state.teacher,
    }
