"""What models that have not seen a label say of its example.

The method, trained again without each fold (`crossfit`), and for vectors a softmax regression and
the nearest neighbours (`stacking`). All of it can be done at once, in processes side by side. Where
a core would be idle, some of it is begun beside the training of the run itself.

Shapes: C classes, D numbers an input, N training examples.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial

import numpy as np
import torch
from torch import Tensor

from labelproof.data.task import Task
from labelproof.functional.softmax_regression import CrossFit
from labelproof.judging.crossfit import (
    FEWEST,
    Again,
    copies,
    fold_count,
    fold_works,
    folds_with_copies,
    follower,
    scores_by_fold,
)
from labelproof.judging.numbers import Floats
from labelproof.judging.stacking import MOST_NEIGHBOURED, MOST_NUMBERS, neighbours, regression
from labelproof.training.log import Parts, Reporter, Silent
from labelproof.training.run import collected, forward_all
from labelproof.training.side_by_side import Beside, Work, beside, one_thread, processes


@dataclass(frozen=True, kw_only=True)
class Unseen:
    """What models say of the training set that have not seen the labels."""

    scores: Tensor  # (N, C) of the method
    linear: CrossFit | None  # a regression, where there is one
    cheap: list[Floats]  # log-probabilities (N, C) of the views that take no network


def unseen_views(
    again: Again, reporter: Reporter | None = None, begun: Beside | None = None
) -> Unseen:
    """Train without each fold, side by side where that is possible, and ask the cheap views."""
    told, count = follower(reporter), len(fold_works(again))
    progress = Parts(told, "judging labels without seeing them", count) if told else None
    try:
        *folds, (linear, cheap) = _values(again, progress, begun)
    finally:
        if progress:
            progress.finish()
    return Unseen(scores=scores_by_fold(again, folds), linear=linear, cheap=cheap)


@contextmanager
def begun_beside(again: Again) -> Iterator[Beside | None]:
    """Begin that beside what the block does, where this ends sooner than one after the other.

    The block then has one thread. None where nothing was begun.
    """
    task, device = again.task, again.device
    if task.size < FEWEST or rounds(task, device) == _rounds_of_folds(task, device):
        yield None
        return
    with beside(works_of(again), _room(task, device) - 1) as begun, one_thread():
        yield begun


def rounds(task: Task, device: torch.device) -> int:
    """How many times as long as the run's own training the folds take after it."""
    room = _room(task, device)
    together = math.ceil((fold_count(task) + 1) / room) - 1  # some folds beside it
    return min(together, _rounds_of_folds(task, device)) if room > 1 else fold_count(task)


def _rounds_of_folds(task: Task, device: torch.device) -> int:
    return math.ceil(fold_count(task) / _room(task, device))


def works_of(again: Again) -> list[Work]:
    """Each fold, and the cheap views."""
    return [*fold_works(again), partial(_cheap_work, again)]


def _values(again: Again, progress: Parts | None, begun: Beside | None) -> list[Tensor]:
    if begun:
        begun.more_room()
        return begun.values(progress)
    works, room = works_of(again), _room(again.task, again.device)
    if room == 1:
        return [work(progress or Silent()) for work in works]
    with beside(works, room) as now:
        return now.values(progress)


def _room(task: Task, device: torch.device) -> int:
    """How many trainings can be done at once: of vectors in memory, as many as there are cores."""
    if task.kind != "vectors" or not task.x.resident:
        return 1
    return processes(device, fold_count(task))


def _cheap_work(again: Again, reporter: Reporter) -> tuple[CrossFit | None, list[Floats]]:
    return cheap_views(again.task, again.seed, again.device)


def cheap_views(
    task: Task, seed: int, device: torch.device
) -> tuple[CrossFit | None, list[Floats]]:
    """Views of vectors (N, C) that take no network: a regression, and the nearest neighbours.

    None of either for other kinds of data, and where it would take too long.
    """
    numbers = task.size * int(np.prod(task.x.shape))
    if task.kind != "vectors" or (task.size > MOST_NEIGHBOURED and numbers > MOST_NUMBERS):
        return None, []
    x, fold = plain_inputs(task, device), folds_with_copies(task, seed)
    linear = regression(x, task.y, task.num_classes, fold, task.fixed, task.targets)
    said = [] if linear is None else [linear.log_probs]
    if task.size <= MOST_NEIGHBOURED:
        said.append(neighbours(x, task.y, task.num_classes, copies(task.x)))
    return linear, [view.double().numpy() for view in said]


def plain_inputs(task: Task, device: torch.device) -> Tensor:
    """The plain view of the training set, (N, D), on the CPU."""
    parts = forward_all(task.x, task, lambda v: v.flatten(1), device)
    return collected((part.cpu().float() for part in parts), task.size)
