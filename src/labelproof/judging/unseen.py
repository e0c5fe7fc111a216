"""What models that have not seen a label say of its example.

The method, trained again without each fold (`crossfit`), for vectors a softmax regression and the
nearest neighbours (`stacking`), and for tables a random forest (`forest`). All of it can be done at
once, in processes side by side. Where a core would be idle, some of it is begun beside the training
of the run itself.

Shapes: C classes, D numbers an input, N training examples.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor

from labelproof.data.task import Task
from labelproof.functional.softmax_regression import CrossFit
from labelproof.judging.crossfit import (
    FEWEST,
    Retraining,
    WithoutFold,
    copies,
    fold_count,
    fold_works,
    follower,
    part_of,
    scores_by_fold,
)
from labelproof.judging.forest import Forest, forest_in_time, grown
from labelproof.judging.numbers import Floats
from labelproof.judging.sharpness import Near
from labelproof.judging.stacking import (
    MOST_NUMBERS,
    neighbours,
    neighbours_in_time,
    regression,
)
from labelproof.training.log import Parts, Reporter
from labelproof.training.run import collected, forward_all
from labelproof.training.side_by_side import Beside, Work, at_once, beside, can_fork, one_thread

SOME = 10_000  # of many examples, those that neighbours are looked for


@dataclass(frozen=True, kw_only=True)
class Cheap:
    """Views of the training set that take no network; none for pictures and for too much data."""

    linear: CrossFit | None = None  # a regression, where there is one
    views: tuple[Floats, ...] = ()  # log-probabilities (N, C): regression, neighbours, forest
    near: Near | None = None  # what neighbours say of some, where those of all would take too long
    cut: bool = False  # whether the last view is a forest
    forest: Forest | None = None  # its trees, where they are few enough to keep

    @property
    def trees(self) -> Tensor | None:
        """Scores (N, C) by trees that were grown without the example, if they may predict."""
        return torch.from_numpy(self.views[-1]) + self.forest.tilt if self.forest else None


@dataclass(frozen=True, kw_only=True)
class Unseen:
    """What models say of the training set that have not seen the labels."""

    scores: Tensor  # (N, C) of the method
    cheap: Cheap
    folds: list[WithoutFold]  # the method's networks, each trained without a fold


def unseen_views(
    again: Retraining, reporter: Reporter | None = None, begun: Beside | None = None
) -> Unseen:
    """Train without each fold, side by side where that is possible, and ask the cheap views."""
    told, count = follower(reporter), len(fold_works(again))
    name = "judging labels by models not trained on them"
    progress = Parts(told, name, count, begun=begun is not None) if told else None
    try:
        *folds, cheap = _values(again, progress, begun)
    finally:
        if progress:
            progress.finish()
    return Unseen(scores=scores_by_fold(again, folds), cheap=cheap, folds=folds)


@contextmanager
def begun_beside(again: Retraining) -> Iterator[Beside | None]:
    """Begin that beside what the block does, where this ends sooner than one after the other.

    The block then has one thread, even where no process can be begun: the same threads give the
    same bits everywhere. None where nothing was begun.
    """
    task, room = again.task, _room(again.task, again.device)
    if task.size < FEWEST or not _ends_sooner(task, room):
        yield None
        return
    with one_thread():
        if not _can_fork(task):
            yield None
            return
        with beside(works_of(again), room - 1) as begun:
            yield begun


def rounds(task: Task, device: torch.device) -> int:
    """How many times as long as the run's own training the folds take after it."""
    count, room = fold_count(task), _room(task, device)
    if not _can_fork(task):
        return count
    return (
        math.ceil((count + 1) / room) - 1 if _ends_sooner(task, room) else math.ceil(count / room)
    )


def folds_after(task: Task, device: torch.device) -> float:
    """The same as a share of the run's own training, for a fold has fewer examples."""
    return rounds(task, device) * (1 - 1 / fold_count(task)) if task.size >= FEWEST else 0.0


def _ends_sooner(task: Task, room: int) -> bool:
    """Whether folds beside the run's own training, `room` at once, save a round of trainings."""
    count = fold_count(task)
    return room > 1 and math.ceil((count + 1) / room) < 1 + math.ceil(count / room)


def works_of(again: Retraining) -> list[Work]:
    """Each fold, and the cheap views."""
    return [*fold_works(again), partial(_cheap_views, again)]


def _values(again: Retraining, progress: Parts | None, begun: Beside | None) -> list[Any]:
    """What each of the works gives."""
    if begun:
        begun.more_room()
        return begun.values(progress)
    works, room = works_of(again), _room(again.task, again.device)
    if room == 1:
        return [work(progress or Reporter()) for work in works]
    with one_thread(), beside(works, room) if _can_fork(again.task) else nullcontext() as now:
        return now.values(progress) if now else [work(progress or Reporter()) for work in works]


def _room(task: Task, device: torch.device) -> int:
    """How many trainings to do at once: of vectors, as many as there are cores."""
    return at_once(device, fold_count(task)) if task.kind == "vectors" else 1


def _can_fork(task: Task) -> bool:
    """Whether processes can share the data: files that are read would share their position."""
    return task.x.resident and can_fork()


def _cheap_views(again: Retraining, _: Reporter) -> Cheap:
    """A regression, the nearest neighbours, and a forest of a table, each where there is time.

    Of many vectors, what neighbours say of some.
    """
    task = again.task
    if task.kind != "vectors":
        return Cheap()
    width = int(np.prod(task.x.shape))
    few = neighbours_in_time(task.size, width)
    near = None if few else _near(task, again.device)
    if not few and task.size * width > MOST_NUMBERS:
        return Cheap(near=near)
    x = plain_inputs(task, again.device)
    linear = regression(x, task.y, task.num_classes, again.folds, task.fixed, task.targets)
    said = [] if linear is None else [linear.log_probs]
    cut = forest_in_time(task.size, width, task.num_classes)
    group = copies(task.x) if few or cut else torch.empty(0)
    if few:
        said.append(neighbours(x, task.y, task.num_classes, group))
    trees = None
    if cut:
        view, trees = grown(x[:, :width], task.y, task.num_classes, group)
        said.append(view)
    views = tuple(view.double().numpy() for view in said)
    return Cheap(linear=linear, views=views, near=near, cut=cut, forest=trees)


def _near(task: Task, device: torch.device) -> Near:
    """The classes that neighbours name for some of the examples, among these alone."""
    rng = torch.Generator().manual_seed(0)
    rows = torch.randperm(task.size, generator=rng)[:SOME].sort().values
    part = part_of(task, rows)
    said = neighbours(plain_inputs(part, device), part.y, task.num_classes, copies(part.x))
    return Near(rows=rows.numpy(), said=said.argmax(1).numpy())


def plain_inputs(task: Task, device: torch.device) -> Tensor:
    """The plain view of the training set, (N, D), on the CPU."""
    parts = forward_all(task.x, task, lambda v: v.flatten(1), device)
    return collected((part.cpu().float() for part in parts), task.size)
