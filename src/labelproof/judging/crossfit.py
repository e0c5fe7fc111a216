"""Scores of the training set by networks that have not seen the labels they judge.

A network agrees with labels it was trained on more often than with others, right or wrong, and is
surer of them. So the method is trained twice more, on either half of the training set, and each
half is scored by the network of the other. That takes about as long as the run itself, so it is
saved after every epoch, like the run.

Shapes: C classes, N training examples.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import torch
from torch import Tensor

from labelproof.data.examples import Examples, Inputs, Subset
from labelproof.data.readers import find_duplicates
from labelproof.data.task import Task
from labelproof.judging.link import Scores
from labelproof.judging.scores import scores
from labelproof.recipes.sizing import main_batch, with_batch
from labelproof.training.log import Reporter
from labelproof.training.loop import Result, train
from labelproof.training.protocol import Method
from labelproof.training.run import Trunk, derive_seed, forward_all
from labelproof.training.settings import settings_of
from labelproof.training.tensorboard import Tensorboard

FEWEST = 40  # examples, below which half of them teach nothing
STEPS = 400  # optimiser steps below which a half is trained with half the batch


def held_out_scores(
    result: Result,
    trunk: Trunk,
    of: Scores,
    *,
    seed: int,
    folder: Path | None = None,
    reporter: Reporter | None = None,
) -> Tensor:
    """Scores (N, C) of every training example by a network of the half it is not in.

    With a folder, what an interrupted call left there is continued.
    """
    task, device = result.task, result.device
    method = suited_to_half(result.method, task.size)
    halves = copies_together(split(task.y, seed), task.x)
    values = torch.empty(task.size, task.num_classes, dtype=torch.float64)
    for number in (0, 1):
        own, other = halves[number], halves[1 - number]
        kept = folder / f"half-{number + 1}" if folder else None
        if kept:
            kept.mkdir(parents=True, exist_ok=True)
        half = train(
            part_of(task, own),
            method,
            trunk,
            seed=derive_seed(seed, f"half {number}") % 2**31,
            device=device,
            precision=result.precision,
            folder=kept,
            resume=kept is not None,
            reporter=follower(reporter),
            name=f"calibration, half {number + 1} of 2",
        )
        values[other] = scores_of(half, Subset(task.x, other), of).double()
    return values


def scores_of(result: Result, x: Inputs, of: Scores) -> Tensor:
    """Scores of all inputs, (M, C), on the CPU."""
    parts = forward_all(
        x, result.task, lambda v: scores(result.method, result.state, v, of), result.device
    )
    return torch.cat([part.cpu() for part in parts])


def split(labels: Tensor, seed: int) -> tuple[Tensor, Tensor]:
    """Indices of two halves, at random, every class spread evenly over both."""
    rng = torch.Generator().manual_seed(derive_seed(seed, "halves"))
    order = torch.randperm(len(labels), generator=rng)
    order = order[labels[order].argsort(stable=True)]
    return order[0::2].sort().values, order[1::2].sort().values


def copies_together(halves: tuple[Tensor, Tensor], x: Inputs) -> tuple[Tensor, Tensor]:
    """The halves with all copies of an input in the half of the first one.

    Otherwise a network would judge a label that it has seen on a copy, and the same input could get
    two different suggestions. Where hardly anything would remain in a half, all stays as it is.
    """
    second = torch.zeros(len(x), dtype=torch.bool)
    second[halves[1]] = True
    for group in find_duplicates(Examples(x=x, labels=None)).groups:
        second[list(group)] = second[group[0]].clone()
    if not len(x) // 4 <= second.sum() <= 3 * len(x) // 4:
        return halves
    return (~second).nonzero().squeeze(1), second.nonzero().squeeze(1)


def part_of(task: Task, rows: Tensor) -> Task:
    """The task with some of its examples alone."""
    fixed = None if task.fixed is None else task.fixed[rows]
    votes = None if task.votes is None else task.votes.part(rows)
    return replace(task, x=Subset(task.x, rows), y=task.y[rows], fixed=fixed, votes=votes)


def suited_to_half(method: Method, size: int) -> Method:
    """The record, with half the batch where half the examples would make too few steps."""
    name = main_batch(method)
    batch = settings_of(method)[name] if name else 0
    if batch < 16 or size // 2 // batch * method.epochs >= STEPS:
        return method
    return with_batch(method, batch // 2)


def follower(reporter: Reporter | None) -> Reporter | None:
    """Who tells a person; the record of a run's curves is no place for other runs."""
    return reporter.inner if isinstance(reporter, Tensorboard) else reporter
