"""Runs that were stopped: what is found in the folder, what goes on, and what is refused."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from cases import CASES
from labelproof.errors import BadInput
from labelproof.training import checkpoint
from tiny import Interrupting, blobs, interrupted, same_bits


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "checkpoint.pt"


def test_a_partial_file_left_behind_is_ignored_and_replaced(path):
    partial = path.with_suffix(".partial")
    partial.write_bytes(b"the process was killed amid this")
    problem, method = blobs(size=40), CASES["ce"]
    assert interrupted(problem, method, path.parent, Interrupting(after_epochs=2))
    partial.write_bytes(b"and amid this, later")
    result = problem.train(method, folder=path.parent, resume=True)
    assert same_bits(result, problem.train(method))
    assert not partial.exists()


@pytest.mark.parametrize(
    "content",
    [
        {},
        {"state": {}, "history": []},
        {"state": {"learner": {}, "clean": torch.ones(40)}, "history": []},
        {"state": [], "history": [{}]},
        {"state": None, "history": None},
    ],
)
def test_a_checkpoint_of_something_else_is_refused(path, content):
    checkpoint.save(path, content)
    with pytest.raises(BadInput, match="does not fit"):
        blobs(size=40).train(CASES["ce"], folder=path.parent, resume=True)


def test_a_checkpoint_of_another_method_is_refused(path):
    problem = blobs(size=40)
    assert interrupted(problem, CASES["dpc"], path.parent, Interrupting(after_epochs=1))
    with pytest.raises(BadInput, match="does not fit"):
        problem.train(CASES["ce"], folder=path.parent, resume=True)


def test_a_new_run_does_not_leave_an_old_checkpoint_to_resume_from(path):
    method, folder = CASES["ce"], path.parent
    blobs(size=40, seed=1).train(method, folder=folder)
    problem = blobs(size=40)
    with pytest.raises(KeyboardInterrupt):
        problem.train(method, folder=folder, reporter=Interrupting(after_epochs=0, after_steps=1))
    result = problem.train(method, folder=folder, resume=True)
    assert same_bits(result, problem.train(method))


def test_resume_needs_a_folder():
    with pytest.raises(BadInput, match="run folder"):
        blobs(size=40).train(CASES["ce"], resume=True)
