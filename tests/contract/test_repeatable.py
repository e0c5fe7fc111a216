"""Every method: the seed decides everything, and nothing else does."""

from __future__ import annotations

import io
import random
from collections.abc import Callable
from dataclasses import fields, replace
from functools import cache
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from cases import CASES, WITH_EDL
from labelproof.data.task import Audit, Task
from labelproof.training import checkpoint
from labelproof.training.loop import Result
from labelproof.training.protocol import Method
from tiny import Interrupting, Problem, Slow, blobs, interrupted, patterns, same_bits

SIZE = 51  # no multiple of a batch
METHODS = CASES | WITH_EDL


@pytest.fixture(params=sorted(METHODS), scope="module")  # tests of a method share a run
def method(request: pytest.FixtureRequest) -> Method:
    return METHODS[request.param]


@pytest.fixture(scope="module")
def problem() -> Problem:
    return blobs(size=SIZE)


@cache
def uninterrupted(method: Method, make: Callable[..., Problem] = blobs) -> Result:
    """The run that the others must equal, made once for a method."""
    return make(size=SIZE).train(method)


def test_another_seed_gives_other_bits(method, problem):
    first, other = uninterrupted(method), problem.train(method, seed=1)
    assert not torch.equal(first.probabilities, other.probabilities)
    assert not torch.equal(first.clean, other.clean)


def global_states() -> list[Any]:
    numbers = np.random.get_state()  # noqa: NPY002
    return [torch.get_rng_state().tolist(), random.getstate(), numbers[1].tolist(), numbers[2]]


def seed_globals(seed: int) -> None:
    torch.manual_seed(seed)
    random.seed(seed)
    np.random.seed(seed)  # noqa: NPY002


def test_nothing_but_seed_and_task_decides_a_run(method, problem):
    """Other global seeds, another audit and inputs that must be fetched: the same bits."""
    expected, audit = uninterrupted(method), problem.audit
    others = Audit(
        truth=(audit.truth + 1) % 3,
        test_x=replace(audit.test_x, data=-audit.test_x.data[:20]),
        test_y=(audit.test_y[:20] + 1) % 3,
    )
    fetched = replace(problem, task=replace(problem.task, x=Slow(problem.task.x, delay=0.0)))
    seed_globals(1)
    before = global_states()
    result = fetched.train(method, audit=others)
    assert global_states() == before
    assert same_bits(expected, result)


def test_without_an_audit_the_bits_are_the_same(method, problem):
    # without test data no one puts the networks in eval mode between epochs
    assert same_bits(uninterrupted(method), problem.train(method, audit=Audit()))


def test_a_task_has_no_true_labels_and_no_test_data():
    allowed = {"x", "y", "original", "votes", "classes", "views", "kind", "fixed", "targets"}
    assert {field.name for field in fields(Task)} <= allowed


def without_times(history: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [{k: v for k, v in line.items() if k != "elapsed"} for line in history]


def test_stopped_after_every_epoch_and_resumed(method, problem, tmp_path):
    whole = uninterrupted(method)
    for _ in range(method.epochs):
        assert interrupted(problem, method, tmp_path, Interrupting(after_epochs=1))
    pieces = problem.train(method, folder=tmp_path, resume=True)
    assert same_bits(whole, pieces)
    assert without_times(whole.history) == without_times(pieces.history)


@pytest.mark.parametrize("make", [blobs, patterns])
def test_stopped_amid_an_epoch_and_resumed(method, make, tmp_path):
    problem, stop = make(size=SIZE), Interrupting(after_epochs=method.epochs // 2, after_steps=2)
    assert interrupted(problem, method, tmp_path, stop)
    expected = uninterrupted(method, make)
    assert same_bits(expected, problem.train(method, folder=tmp_path, resume=True))


def test_state_survives_saving_and_loading(method, problem):
    result = uninterrupted(method)
    file = io.BytesIO()
    torch.save(checkpoint.pack(result.state), file)
    file.seek(0)
    loaded = torch.load(file, weights_only=True)
    fresh = method.setup(problem.run(seed=9))
    fresh = checkpoint.unpack(fresh, loaded)
    assert type(fresh) is type(result.state)
    assert_same(checkpoint.pack(fresh), checkpoint.pack(result.state))
    for net in checkpoint.networks(fresh).values():
        net.eval()
    x = problem.task.views.plain(problem.task.x.take(torch.arange(problem.task.size)))
    with torch.no_grad():
        assert torch.equal(method.predict(fresh, x), result.probabilities)


def assert_same(first: Any, second: Any) -> None:
    """Nested dicts and lists with the same tensors and values, NaN included."""
    assert type(first) is type(second)
    if isinstance(first, dict):
        assert first.keys() == second.keys()
        for key in first:
            assert_same(first[key], second[key])
    elif isinstance(first, list):
        assert len(first) == len(second)
        for a, b in zip(first, second, strict=True):
            assert_same(a, b)
    elif isinstance(first, Tensor):
        assert first.dtype == second.dtype
        assert torch.equal(first.nan_to_num(), second.nan_to_num())
    else:
        assert first == second or first != first
