"""Soft targets where held-out votes prefer them, and how methods train on them."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch

from labelproof.data.examples import Resident
from labelproof.data.task import Task
from labelproof.data.votes import Votes, majority, tied
from labelproof.functional.softmax_regression import cross_fit, folds_of
from labelproof.judging.vote_labels import labels_from_votes, with_targets
from labelproof.training.run import Run
from labelproof.views import VectorViews

pytestmark = pytest.mark.whole  # knobs are looked for as long as for users


def voted_task(right: float, people: int) -> tuple[Task, torch.Tensor]:
    rng = np.random.default_rng(0)
    truth = rng.integers(0, 3, 400)
    x = rng.normal(size=(400, 6)).astype(np.float32)
    x[np.arange(400), truth] += 1.5
    said = rng.random((400, people)) < right
    table = np.where(said, truth[:, None], rng.integers(0, 3, (400, people)))
    votes = Votes(table=torch.tensor(table), annotators=tuple(f"p{i}" for i in range(people)))
    views = VectorViews(mean=torch.zeros(6), std=torch.ones(6))
    task = Task(
        x=Resident(torch.from_numpy(x)),
        y=majority(votes, 3),
        classes=("a", "b", "c"),
        views=views,
        kind="vectors",
        votes=votes,
    )
    return task, torch.tensor(truth)


def test_votes_that_agree_keep_hard_labels_and_doubtful_ones_become_soft() -> None:
    sure, _ = voted_task(1.0, 3)
    kept, why = with_targets(sure, labels_from_votes(sure.votes, 3))
    assert kept.targets is None
    assert why.startswith("Training uses the given labels")
    doubtful, _ = voted_task(0.4, 2)
    chosen = labels_from_votes(doubtful.votes, 3)
    soft, why = with_targets(replace(doubtful, y=chosen.labels), chosen)
    assert soft.targets is not None
    assert why.startswith("Training uses the ")
    assert torch.allclose(soft.targets.sum(1), torch.ones(400))
    assert (soft.targets.max(1).values < 0.9).any()


def test_batches_draw_labels_from_soft_targets() -> None:
    task, _ = voted_task(0.5, 2)
    targets = torch.tensor([[0.25, 0.75, 0.0]]).expand(400, 3)
    run = Run(replace(task, targets=targets), lambda: None, device=torch.device("cpu"), seed=0)
    drawn = torch.cat([batch.y for _ in range(10) for batch in run.batches(40)])
    shares = drawn.bincount(minlength=3) / len(drawn)
    assert (shares - targets[0]).abs().max() < 0.03
    hard = Run(task, lambda: None, device=torch.device("cpu"), seed=0)
    for batch in hard.batches(40):
        assert batch.y.equal(task.y[batch.index])


def test_a_regression_on_soft_targets_recovers_them() -> None:
    rng = torch.Generator().manual_seed(0)
    x = torch.randn(2000, 2, generator=rng)
    targets = (x @ torch.tensor([[1.0, -1.0, 0.0], [0.0, 1.0, -1.0]])).softmax(1)
    labels = targets.argmax(1)
    fold = folds_of(labels, 5, rng)
    found = cross_fit(x, labels, 3, fold, targets=targets)
    assert (found.log_probs.exp() - targets).abs().mean() < 0.01
    hard = cross_fit(x, labels, 3, fold)
    assert (hard.log_probs.exp() - targets).abs().mean() > 0.1


def test_a_part_of_a_task_has_the_targets_of_its_examples() -> None:
    task, _ = voted_task(0.5, 2)
    rows = torch.tensor([3, 1, 200])
    targets = torch.rand(400, 3)
    part = replace(task, targets=targets).part(task.x, rows)
    assert part.targets is not None
    assert part.targets.equal(targets[rows])
    assert part.votes is not None
    assert part.votes.table.equal(task.votes.table[rows])


def test_labels_of_ties_do_not_gather_in_a_class() -> None:
    """Nobody can tell which of two equally good people is right."""
    rng, truth = np.random.default_rng(0), np.arange(900) % 3
    guess = rng.integers(0, 3, (900, 2))
    table = np.where(rng.random((900, 2)) < 0.7, truth[:, None], guess)
    votes = Votes(table=torch.tensor(table), annotators=("a", "b"))
    ties = tied(votes, 3)
    first = majority(votes, 3)
    assert first[ties].bincount(minlength=3).max() > 0.6 * ties.sum()
    found = labels_from_votes(votes, 3).labels
    assert found.equal(labels_from_votes(votes, 3).labels)
    assert found[ties].bincount(minlength=3).max() < 0.45 * ties.sum()
    assert found[~ties].equal(first[~ties])
    assert (torch.tensor(table) == found[:, None]).any(1).all()
