"""Every method ends with an answer, or a sentence, on the least and the worst data."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from test_learning import assert_answers

from cases import FEW_WITH_EDL
from labelproof.data.examples import Resident
from labelproof.data.task import Audit
from labelproof.errors import BadInput, RunFailed
from labelproof.recipes.sizing import shortened
from tiny import Problem, blobs, patterns


def clean() -> Problem:
    """Nothing to find: every label is right and the classes lie far apart."""
    return blobs(size=60, noise=0.0)


def smaller_than_a_batch() -> Problem:
    return blobs(size=10, noise=0.2)


def two_classes() -> Problem:
    return blobs(size=41, classes=2, noise=0.3)


def one_of_a_class() -> Problem:
    """The third class has a single example."""
    problem = blobs(size=40, classes=3, noise=0.0)
    y = torch.arange(40) % 2
    y[7] = 2
    return problem.with_labels(y)


def none_of_a_class() -> Problem:
    """A class is named but no label is of it."""
    return blobs(size=40, classes=3, noise=0.0).with_labels(torch.arange(40) % 2)


def few_images() -> Problem:
    return patterns(size=9, noise=0.2)


def random_labels() -> Problem:
    """Nothing to learn: labels have nothing to do with inputs."""
    rng = torch.Generator().manual_seed(5)
    return blobs(size=60).with_labels(torch.randint(3, (60,), generator=rng))


def same_inputs() -> Problem:
    """No example differs from another, so every score is the same within a class."""
    problem = blobs(size=40)
    return replace(problem, task=replace(problem.task, x=Resident(torch.ones(40, 6))))


def four() -> Problem:
    return blobs(size=4, classes=2, noise=0.0)


def four_images() -> Problem:
    return patterns(size=4, noise=0.0)


@pytest.fixture(params=sorted(FEW_WITH_EDL))
def method(request):
    return FEW_WITH_EDL[request.param]


@pytest.mark.parametrize(
    "make",
    [clean, smaller_than_a_batch, two_classes, one_of_a_class, none_of_a_class, few_images],
)
def test_answers(method, make):
    assert_answers(make().train(method, audit=Audit()))


def test_answers_for_many_classes(method):
    problem = blobs(size=200, classes=40, noise=0.2)
    assert_answers(problem.train(shortened(method, 3), audit=Audit()))


@pytest.mark.parametrize("make", [random_labels, same_inputs, four, four_images])
def test_answers_or_says_why_not(method, make):
    try:
        result = make().train(method, audit=Audit())
    except (BadInput, RunFailed) as error:
        sentence = str(error)
        assert sentence.endswith(".")
        assert "\n" not in sentence
    else:
        assert_answers(result)
