"""Scores of the training set by networks that have not seen the labels they judge.

A network agrees with labels it was trained on more often than with others, right or wrong, and is
surer of them. So the training set is split into folds, the method is trained without each of them,
and each fold is scored by the network that has not seen it. Every such training is saved after
each epoch, like the run.

Shapes: C classes, K folds, N training examples.
"""

from __future__ import annotations

from pathlib import Path

import torch
from torch import Tensor

from labelproof.data.examples import Examples, Inputs, Subset
from labelproof.data.readers import find_duplicates
from labelproof.data.task import Task
from labelproof.functional.softmax_regression import folds_of
from labelproof.judging.link import Scores
from labelproof.judging.scores import scores
from labelproof.recipes.sizing import main_batch, with_batch
from labelproof.training.log import Parts, Reporter
from labelproof.training.loop import Result, train
from labelproof.training.protocol import Method
from labelproof.training.run import Trunk, collected, derive_seed, forward_all
from labelproof.training.settings import settings_of
from labelproof.training.tensorboard import Tensorboard

FEWEST = 40  # examples, below which a part of them teaches nothing
STEPS = 400  # optimiser steps below which a half is trained with half the batch
FEW, MANY = 500, 20_000  # examples below which there are ten folds, and above which there are two


def fold_count(task: Task) -> int:
    """K: the fewer examples, the less can be left out of training; images train too long for it."""
    if task.kind == "images" or task.size > MANY:
        return 2
    return 10 if task.size < FEW else 5


def held_out_scores(
    result: Result,
    trunk: Trunk,
    of: Scores,
    *,
    seed: int,
    folder: Path | None = None,
    reporter: Reporter | None = None,
) -> Tensor:
    """Scores (N, C) of every training example by a network that was trained without its fold.

    With a folder, what an interrupted call left there is continued.
    """
    task, count = result.task, fold_count(result.task)
    method = suited_to_fold(result.method, task.size, count)
    fold = folds_with_copies(task, seed)
    values = torch.empty(task.size, task.num_classes, dtype=torch.float64)
    told = follower(reporter)
    progress = Parts(told, "judging labels without seeing them", count) if told else None
    try:
        for number in range(count):
            held = (fold == number).nonzero().squeeze(1)
            if not len(held):
                continue
            part = train(
                part_of(task, (fold != number).nonzero().squeeze(1)),
                method,
                trunk,
                seed=derive_seed(seed, f"fold {number}") % 2**31,
                device=result.device,
                precision=result.precision,
                folder=_made(folder, number),
                resume=folder is not None,
                reporter=progress,
            )
            values[held] = scores_of(part, Subset(task.x, held), of).double()
    finally:
        if progress:
            progress.finish()
    return values


def _made(folder: Path | None, number: int) -> Path | None:
    """A folder of its own for each training."""
    if folder is None:
        return None
    own = folder / f"fold-{number + 1}"
    own.mkdir(parents=True, exist_ok=True)
    return own


def scores_of(result: Result, x: Inputs, of: Scores) -> Tensor:
    """Scores of all inputs, (M, C), on the CPU."""
    parts = forward_all(
        x, result.task, lambda v: scores(result.method, result.state, v, of), result.device
    )
    return collected((part.cpu() for part in parts), len(x))


def folds(labels: Tensor, count: int, seed: int) -> Tensor:
    """A fold for every example, (N,), at random, every class spread evenly over all of them."""
    return folds_of(labels, count, torch.Generator().manual_seed(derive_seed(seed, "folds")))


def folds_with_copies(task: Task, seed: int) -> Tensor:
    """The folds (N,) of a task, copies of an input in the same one."""
    return copies_together(folds(task.y, fold_count(task), seed), copies(task.x))


def copies(x: Inputs) -> Tensor:
    """For each example the first one that is the same, itself where there is no other, (N,)."""
    first = torch.arange(len(x))
    for group in find_duplicates(Examples(x=x, labels=None)).groups:
        first[list(group)] = min(group)
    return first


def copies_together(fold: Tensor, first: Tensor) -> Tensor:
    """The folds (N,) with all copies of an input in the fold of the first one.

    Otherwise a network would judge a label that it has seen on a copy, and the same input could get
    two different suggestions. Where one fold would hold nearly everything, all stays as it is.
    """
    moved = fold[first]
    return fold if 4 * moved.bincount().max() > 3 * len(fold) else moved


def part_of(task: Task, rows: Tensor) -> Task:
    """The task with some of its examples alone."""
    return task.part(Subset(task.x, rows), rows)


def suited_to_fold(method: Method, size: int, count: int) -> Method:
    """The record, with half the batch where half the examples would make too few steps."""
    name = main_batch(method)
    batch = settings_of(method)[name] if name else 0
    if count > 2 or batch < 16 or size // 2 // batch * method.epochs >= STEPS:
        return method
    return with_batch(method, batch // 2)


def follower(reporter: Reporter | None) -> Reporter | None:
    """Who tells a person; the record of a run's curves is no place for other runs."""
    return reporter.inner if isinstance(reporter, Tensorboard) else reporter
