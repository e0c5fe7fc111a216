"""Scores of the training set by networks that have not seen the labels they judge.

A network agrees with labels it was trained on more often than with others, right or wrong, and is
surer of them. So the training set is split into folds, the method is trained without each of them,
and each fold is scored by the network that has not seen it. Every such training is saved after
each epoch, like the run.

Shapes: C classes, K folds, N training examples.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from labelproof.data.examples import Examples, Inputs, Subset
from labelproof.data.readers import find_duplicates
from labelproof.data.task import Task
from labelproof.functional.softmax_regression import folds_of
from labelproof.judging.link import Scores, kind_of_scores, scores
from labelproof.recipes.sizing import main_batch, with_batch
from labelproof.training.log import Reporter, Tensorboard
from labelproof.training.loop import Result, train
from labelproof.training.protocol import Method
from labelproof.training.run import Precision, Trunk, collected, derive_seed, forward_all
from labelproof.training.settings import settings_of
from labelproof.training.side_by_side import Work
from labelproof.training.trained import Trained, revive, trained, without_examples

FEWEST = 40  # examples, below which a part of them teaches nothing
STEPS = 400  # optimiser steps below which a half is trained with half the batch
FEW, MANY = 500, 20_000  # examples below which there are ten folds, and above which there are two


def fold_count(task: Task) -> int:
    """K: the fewer examples, the less can be left out of training; images train too long for it."""
    if task.kind == "images" or task.size > MANY:
        return 2
    return 10 if task.size < FEW else 5


@dataclass(frozen=True, kw_only=True)
class Retraining:
    """A method that is trained on parts of a task, beside the run itself, and how."""

    task: Task
    method: Method
    trunk: Trunk  # makes a new network like the run's
    seed: int = 0  # decides the parts and how they are trained
    device: torch.device
    precision: Precision = "auto"
    folder: Path | None = None  # what an interrupted training left there is continued

    @cached_property
    def folds(self) -> Tensor:
        """The folds (N,) of the task, copies of an input in the same one."""
        fold = folds(self.task.y, fold_count(self.task), self.seed)
        return copies_together(fold, copies(self.task.x))

    def train(
        self, rows: Tensor, method: Method, reporter: Reporter | None, *,
        seed_of: str, place: str, name: str = "training",
    ) -> Result:  # fmt: skip
        """Train a method on some of the examples; `place` names its own folder below the folder."""
        folder = self.folder / place if self.folder else None
        if folder is not None:
            folder.mkdir(parents=True, exist_ok=True)
        return train(
            part_of(self.task, rows),
            method,
            self.trunk,
            seed=derive_seed(self.seed, seed_of) % 2**31,
            device=self.device,
            precision=self.precision,
            folder=folder,
            resume=folder is not None,
            reporter=reporter,
            name=name,
        )


@dataclass(frozen=True, kw_only=True)
class WithoutFold:
    """What training without a fold gave."""

    scores: Tensor  # (M, C) of the examples of the fold
    trained: Trained  # the networks


def fold_works(again: Retraining) -> list[Work]:
    """For each fold, the work of training without it; it gives a `WithoutFold`."""
    return [partial(_without, again, number) for number in _numbers(again.folds)]


def scores_by_fold(again: Retraining, parts: Sequence[WithoutFold]) -> Tensor:
    """What those works gave as scores (N, C) of every training example."""
    task, fold = again.task, again.folds
    values = torch.empty(task.size, task.num_classes, dtype=torch.float64)
    for number, part in zip(_numbers(fold), parts, strict=True):
        values[fold == number] = part.scores
    return values


def revived(again: Retraining, parts: Sequence[WithoutFold]) -> tuple[Any, ...]:
    """The trained states of those works."""
    task = without_examples(again.task)
    return tuple(
        revive(again.method, task, again.trunk, part.trained, again.device) for part in parts
    )


def _numbers(fold: Tensor) -> list[int]:
    """Of the folds that hold an example."""
    return sorted(set(fold.tolist()))


def _without(again: Retraining, number: int, reporter: Reporter) -> WithoutFold:
    """Train without a fold, and score it."""
    task, held = again.task, (again.folds == number).nonzero().squeeze(1)
    part = again.train(
        (again.folds != number).nonzero().squeeze(1),
        suited_to_fold(again.method, task.size, fold_count(task)),
        reporter,
        seed_of=f"fold {number}",
        place=f"fold-{number + 1}",
    )
    of = kind_of_scores(part.method, part.state, first_inputs(part))
    return WithoutFold(
        scores=scores_of(part, Subset(task.x, held), of).double(), trained=trained(part.state)
    )


def first_inputs(result: Result) -> Tensor:
    """The plain view of a few training examples, to see what a network says of them."""
    raw = result.task.x.take(torch.arange(min(64, result.task.size)))
    return result.task.views.plain(raw.to(result.device))


def scores_of(result: Result, x: Inputs, of: Scores) -> Tensor:
    """Scores of all inputs, (M, C), on the CPU."""
    parts = forward_all(
        x, result.task, lambda v: scores(result.method, result.state, v, of), result.device
    )
    return collected((part.cpu() for part in parts), len(x))


def folds(labels: Tensor, count: int, seed: int) -> Tensor:
    """A fold for every example, (N,), at random, every class spread evenly over all of them."""
    return folds_of(labels, count, torch.Generator().manual_seed(derive_seed(seed, "folds")))


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
