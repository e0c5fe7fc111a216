"""Folds of the training set, and networks that judge labels they have not seen."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from cases import CASES
from fitting import fit
from labelproof.data.readers import load
from labelproof.data.task import Task
from labelproof.judging import crossfit, unseen
from labelproof.judging.crossfit import (
    Retraining,
    fold_count,
    folds,
    follower,
    part_of,
    suited_to_fold,
)
from labelproof.judging.unseen import begun_beside, rounds, unseen_views
from labelproof.methods.ce import CrossEntropy
from labelproof.recipes.recipe import own_data
from labelproof.runs import folder as runfolder
from labelproof.runs.spec import load_spec
from labelproof.training.log import Reporter, Tensorboard
from tiny import Interrupting, Problem, blobs

CPU = torch.device("cpu")


@pytest.mark.parametrize("count", [2, 5])
def test_folds_part_every_class_evenly(count: int) -> None:
    labels = torch.tensor([0] * 7 + [1] * 20 + [2] * 1)
    fold = folds(labels, count, seed=3)
    counts = torch.stack([labels[fold == k].bincount(minlength=3) for k in range(count)])
    assert (counts.amax(0) - counts.amin(0)).max() <= 1
    assert counts.sum() == 28
    assert not torch.equal(fold, folds(labels, count, seed=4))


@pytest.mark.whole
def test_fewer_examples_have_more_folds() -> None:
    task = blobs(40).task
    sizes = {499: 10, 500: 5, 20_000: 5, 20_001: 2}
    assert {n: fold_count(replace(task, y=torch.zeros(n))) for n in sizes} == sizes
    assert fold_count(replace(task, kind="images")) == 2


def test_no_label_reaches_the_network_that_judges_it(monkeypatch: pytest.MonkeyPatch) -> None:
    problem = blobs(160, noise=0.3)
    monkeypatch.setattr(crossfit, "fold_count", lambda task: 3)
    fold = folds(problem.task.y, 3, seed=5)
    monkeypatch.setattr(crossfit, "folds", lambda labels, count, seed: fold)
    own, other = fold == 1, fold != 1
    changed = problem.task.y.clone()
    changed[own] = changed[own].roll(1)
    values, other_values = (
        unseen_views(again(problem, task)).scores
        for task in (problem.task, replace(problem.task, y=changed))
    )
    assert values.isfinite().all()
    assert torch.equal(values[own], other_values[own])
    assert not torch.equal(values[other], other_values[other])


def again(problem: Problem, task: Task, **options: Any) -> Retraining:
    """A short training without each fold."""
    made = {"method": CASES["ce"], "trunk": problem.trunk, "seed": 5, "device": CPU}
    return Retraining(task=task, **(made | options))


@pytest.fixture
def two_threads(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    yield
    torch.set_num_threads(before)


@pytest.mark.whole
def test_folds_side_by_side_are_the_same_bits(two_threads: None, tmp_path: Path) -> None:
    problem = blobs(60, noise=0.3)
    alone = again(problem, problem.task)
    torch.set_num_threads(1)
    expected = unseen_views(alone)
    torch.set_num_threads(2)
    found = unseen_views(again(problem, problem.task, folder=tmp_path))
    assert torch.equal(found.scores, expected.scores)
    assert all(map(np.array_equal, found.cheap.views, expected.cheap.views))
    with begun_beside(alone) as begun:
        assert begun is None  # ten folds and the training itself take six rounds either way
    assert len(list(tmp_path.iterdir())) == 10  # each fold was saved


def test_folds_begin_beside_training_where_a_core_would_be_idle(
    two_threads: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in (crossfit, unseen):
        monkeypatch.setattr(module, "fold_count", lambda task: 3)
    problem = blobs(60, noise=0.3)
    assert rounds(problem.task, CPU) == 1
    with begun_beside(again(problem, problem.task)) as begun:
        assert begun is not None
        assert torch.get_num_threads() == 1
        found = unseen_views(again(problem, problem.task), begun=begun)
        expected = unseen_views(again(problem, problem.task))  # one thread: in this process
    assert torch.get_num_threads() == 2
    assert torch.equal(found.scores, expected.scores)
    for sized in (2, 5, 10):
        monkeypatch.setattr(unseen, "fold_count", lambda task, n=sized: n)
        assert rounds(problem.task, CPU) == {2: 1, 5: 2, 10: 5}[sized]
    torch.set_num_threads(1)
    assert rounds(problem.task, CPU) == 10
    torch.set_num_threads(2)
    assert rounds(replace(problem.task, kind="images"), CPU) == 10


def test_a_part_has_its_inputs_labels_and_confirmed_ones() -> None:
    problem = blobs(60)
    fixed = torch.arange(60) % 5 == 0
    task = replace(problem.task, fixed=fixed)
    rows = torch.tensor([3, 10, 50])
    part = part_of(task, rows)
    assert torch.equal(part.y, task.y[rows])
    assert torch.equal(part.x.take(torch.arange(3)), task.x.take(rows))
    assert part.fixed is not None
    assert torch.equal(part.fixed, fixed[rows])


def test_few_steps_call_for_smaller_batches() -> None:
    method = CrossEntropy(batch=128, epochs=10)
    cases = ((2000, 2), (50_000, 2), (2000, 5))
    assert [suited_to_fold(method, *case).batch for case in cases] == [64, 128, 128]


# the run tells of its two epochs, then of two folds, which have two epochs of 11 steps each
@pytest.mark.parametrize(("told", "steps", "epochs_left"), [(2, 15, 3), (3, 1, 2)])
def test_an_interrupted_calibration_goes_on_where_it_stopped(
    finished: Path, tmp_path: Path, told: int, steps: int, epochs_left: int
) -> None:
    with pytest.raises(KeyboardInterrupt):
        run(tmp_path / "cut", reporter=Interrupting(after_epochs=told, after_steps=steps))
    assert not (tmp_path / "cut" / "summary.json").exists()
    seen = Count()
    run(tmp_path / "cut", resume=True, reporter=seen)
    assert seen.steps == 11 * epochs_left  # no whole epoch is done twice
    for name in ("labels.csv", "model.safetensors"):
        assert (finished / name).read_bytes() == (tmp_path / "cut" / name).read_bytes()
    links = [json.loads((f / "calibration.json").read_text()) for f in (finished, tmp_path / "cut")]
    assert links[0] == links[1]
    assert not (tmp_path / "cut" / "calibration").exists()


def test_a_finished_run_is_known_as_one(finished: Path) -> None:
    spec = replace(load_spec(finished), out=finished)
    assert runfolder.finished(spec)
    assert not runfolder.finished(replace(spec, seed=7))
    assert not runfolder.finished(replace(spec, out=finished / "elsewhere"))


def test_quick_and_off_train_no_folds(tmp_path: Path) -> None:
    found = {}
    for how in ("quick", "off"):
        seen = Count()
        run(tmp_path / how, how=how, reporter=seen)
        assert seen.steps == 22  # two epochs
        found[how] = json.loads((tmp_path / how / "summary.json").read_text())
        assert found[how]["calibration"] == how
    assert found["off"]["ece_calibrated"] == pytest.approx(found["off"]["ece"], abs=1e-6)
    assert abs(found["quick"]["ece_calibrated"] - found["quick"]["ece"]) > 1e-4


def test_tensorboard_hears_of_the_run_alone() -> None:
    inner = Reporter()
    assert follower(inner) is inner
    assert follower(None) is None
    assert follower(Tensorboard(Path("nowhere"), inner)) is inner


class Count(Reporter):
    """Counts steps."""

    steps = 0

    def step(self) -> None:
        self.steps += 1


def run(out: Path, **options: Any) -> None:
    data = load("digits")
    method = replace(own_data("ce", data.kind), epochs=2)
    fit(data, method, name="ce", noise="symmetric:0.3", out=out, **options)


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("finished") / "run"
    run(folder)
    return folder
