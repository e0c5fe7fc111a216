"""Every method learns under 40% wrong labels and answers in probabilities."""

from __future__ import annotations

from dataclasses import FrozenInstanceError, fields, replace

import pytest
import torch

from cases import CASES
from labelproof import metrics
from labelproof.methods import METHODS
from labelproof.training.learner import Learner
from labelproof.training.loop import Result
from labelproof.training.protocol import Phase
from labelproof.training.run import Run
from tiny import Problem, blobs, patterns

ENOUGH = 0.75  # accuracy; guessing gives 0.33, and 40% of the labels are wrong
RANKED = 0.75  # AUROC of finding the wrong labels; guessing gives 0.5


def test_every_method_has_a_case():
    assert set(CASES) == set(METHODS)
    for name, case in CASES.items():
        assert type(case) is METHODS[name]


def test_a_method_is_a_frozen_record_that_says_what_it_is(method):
    kind = type(method)
    assert kind.about.title
    name = fields(method)[0].name
    with pytest.raises(FrozenInstanceError):
        setattr(method, name, getattr(method, name))
    assert kind() == kind()  # every hyper-parameter has a default


def test_the_plan_has_as_many_epochs_as_the_method_says(method):
    for record in (method, type(method)()):
        plan = record.plan()
        assert all(isinstance(phase, Phase) and phase.name for phase in plan)
        assert sum(phase.epochs for phase in plan) == record.epochs > 0


def assert_answers(result: Result) -> None:
    """Probabilities of the right shape, and a clean probability for every given label."""
    task = result.task
    assert result.probabilities.shape == (task.size, task.num_classes)
    assert result.probabilities.isfinite().all()
    assert (result.probabilities >= 0).all()
    torch.testing.assert_close(result.probabilities.sum(1), torch.ones(task.size))
    assert result.clean.shape == (task.size,)
    assert result.clean.dtype == torch.float32
    assert ((result.clean >= 0) & (result.clean <= 1)).all()


def assert_learns(problem: Problem, result: Result) -> None:
    assert_answers(result)
    accuracy = metrics.accuracy(result.test_probabilities, problem.audit.test_y)
    assert accuracy > ENOUGH
    wrong = problem.audit.truth != problem.task.y
    assert metrics.error_auroc(wrong, -result.clean) > RANKED


def test_learns_vectors_in_training_mode(method, monkeypatch):
    step, modes = Run.step, set()

    def note(self: Run, learner: Learner, *losses: torch.Tensor) -> None:
        modes.add(learner.net.training)
        step(self, learner, *losses)

    monkeypatch.setattr(Run, "step", note)
    problem = blobs()
    result = problem.train(method)
    assert False not in modes
    assert_learns(problem, result)
    assert len(result.history) == method.epochs
    assert result.history[-1]["test_accuracy"] > ENOUGH


def test_learns_images(method):
    problem = patterns()
    assert_learns(problem, problem.train(method))


def test_labels_a_person_confirmed_are_trusted(method):
    problem = blobs(size=60)
    wrong = problem.audit.truth != problem.task.y  # the person may err; their word counts
    confirmed = replace(problem, task=replace(problem.task, fixed=wrong))
    result = confirmed.train(method)
    assert_answers(result)
    assert (result.clean[wrong] == 1).all()
    assert not (result.clean[~wrong] == 1).all()
