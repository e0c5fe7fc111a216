"""From what was read to what training needs: a `Task` with its `Audit`, a method, a network."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from labelproof.data.examples import Examples
from labelproof.data.task import Audit, Task
from labelproof.errors import BadInput
from labelproof.judging.label_table import Codes
from labelproof.judging.vote_labels import labels_from_votes, with_targets
from labelproof.noise import apply_noise, parse_noise
from labelproof.runs.spec import RunSpec
from labelproof.training.protocol import Method
from labelproof.training.run import Trunk
from labelproof.views.defaults import default_views

NAMED = "name their label column"  # how labels of tables are found
TOGETHER = "save them as x and their labels as y in one .npz (numpy.savez),"  # test data as arrays


@dataclass(frozen=True, kw_only=True)
class Prepared:
    """A task with its audit, and what run.json says of how they came about."""

    task: Task
    audit: Audit
    noise: dict[str, Any] | None
    votes: str | None = None  # how labels came about from several annotators


@dataclass(frozen=True, kw_only=True)
class Held:
    """Labels that people confirmed or corrected, in this review or an earlier one."""

    run: Path  # the run that was reviewed
    index: Codes  # among the examples that are left
    labels: Codes
    removed: tuple[int, ...] = ()  # examples that people removed, by their number in the data

    def describe(self) -> dict[str, Any]:
        """What run.json says of them."""
        both = self.index.tobytes() + self.labels.tobytes()
        return {
            "run": str(self.run),
            "count": len(self.index),
            "sha256": hashlib.sha256(both).hexdigest(),
            "removed": list(self.removed),
        }


@dataclass(frozen=True, kw_only=True)
class Assembled:
    """Everything that training needs, made from a spec."""

    spec: RunSpec
    data: Examples
    test: Examples | None
    prepared: Prepared
    held: Held | None  # labels that a person has confirmed
    method: Method
    trunk: Trunk
    net: str  # what run.json calls the network
    device: torch.device


def prepare(
    train: Examples,
    test: Examples | None = None,
    noise: str | None = None,
    seed: int = 0,
    *,
    waves: bool = True,
) -> Prepared:
    """Make the task of training examples, and the audit of their truth and the test examples.

    Args:
        train: training examples with encoded labels.
        test: test examples read like `train`; the ones that came with it where None.
        noise: such as `symmetric:0.4`: wrong labels put in on purpose; the old ones become truth.
        seed: of the noise.
        waves: whether random waves of vectors may follow them, where these help.
    """
    if train.labels is None or train.classes is None:
        raise BadInput("training data needs a label for every example; name them with --labels.")
    if noise and train.votes is not None:
        raise BadInput(
            "--noise changes single labels, but this data has several annotators; leave out "
            "--noise, or name one label column."
        )
    given, truth, record = torch.as_tensor(train.labels), _tensor(train.truth), None
    agreed = labels_from_votes(train.votes, len(train.classes)) if train.votes else None
    if agreed:
        given = agreed.labels
    if noise:
        truth = given if truth is None else truth
        made = apply_noise(parse_noise(noise), given.numpy(), train.classes, train.x, seed)
        given, record = torch.as_tensor(made.labels), made.describe()
    test = test or train.test
    if test is not None and test.labels is None:
        raise BadInput(
            f"test data needs trusted labels, but this has none; {_labelled(test, train.classes)} "
            "or leave out --test."
        )
    task = Task(
        x=train.x,
        y=given.long(),
        classes=train.classes,
        views=default_views(train, given.long(), waves=waves),
        kind=train.kind,
        votes=train.votes,
    )
    audit = Audit(
        truth=truth,
        test_x=test.x if test else None,
        test_y=_tensor(test.labels) if test else None,
    )
    if agreed is None:
        return Prepared(task=task, audit=audit, noise=record)
    task, why = with_targets(task, agreed)
    return Prepared(task=task, audit=audit, noise=record, votes=f"{agreed.why} {why}")


def _labelled(test: Examples, classes: Sequence[str]) -> str:
    """What gives test data its labels, by where it came from."""
    source = test.about.get("source")
    if source == "folder":
        names = ", ".join(map(repr, classes[:5])) + (", ..." * (len(classes) > 5))
        return f"call its folders like the classes ({names})"
    return TOGETHER if source in ("npy", "npz") else NAMED


def _tensor(labels: Any) -> Tensor | None:
    return None if labels is None else torch.as_tensor(labels).long()
