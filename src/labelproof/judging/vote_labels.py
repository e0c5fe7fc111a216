"""What to train on where several people labelled: one label, or soft targets, as votes prefer.

1. The given label is the majority, or the annotators' weighted consensus: whichever predicts each
   vote better from the others on its example. Tied classes are drawn by their probabilities: were
   it always the likeliest, or the first, one class would get the wrong labels of all ties.
2. Softmax regressions are trained on these labels, on the consensus' probabilities, and on the
   shares of the votes. The one that predicts the votes on held-out examples best decides. A vote is
   predicted through its annotator's matrix, so learning annotators' errors gains nothing.

Shapes: N examples, C classes.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from torch import Tensor
from torch.nn.functional import one_hot

from labelproof.data.task import Task
from labelproof.data.votes import Votes, majority, vote_shares
from labelproof.functional.softmax_regression import cross_fit, folds_of
from labelproof.judging.annotators import fit_alike, fit_crowd, seen_alone
from labelproof.judging.crowd_em import Knobs

SAMPLE, NUMBERS = 3000, 1_000_000  # examples, and numbers in them, that targets are compared on
FEWEST = 100  # examples below which nothing can be compared
FOLDS = 5


@dataclass(frozen=True, kw_only=True)
class VoteLabels:
    """Labels from votes alone, and how they were chosen."""

    labels: Tensor  # (N,)
    how: str  # "majority" or "consensus"
    why: str  # one sentence
    posterior: Tensor | None = None  # (N, C) probability of each class; None with one vote each


def labels_from_votes(votes: Votes, classes: int) -> VoteLabels:
    """The given labels: majority, or the annotators' weighted consensus."""
    if votes.given.max() < 2:
        why = "No example has two votes, so its only vote is its label."
        return VoteLabels(labels=majority(votes, classes), how="majority", why=why)
    same, crowd = fit_alike(votes, classes), fit_crowd(votes, classes)
    told = (
        f"a held-out vote has log-probability {crowd.predicted:.4f} if annotators differ in "
        f"quality and {same.predicted:.4f} if all are alike"
    )
    if crowd.predicted > same.predicted:
        labels, how = crowd.consensus, "consensus"
    else:
        labels, how = majority(votes, classes, _drawn(crowd.posterior)), "majority"
    why = f"Given labels are the annotators' {how}: {told}."
    return VoteLabels(labels=labels, how=how, why=why, posterior=crowd.posterior)


def _drawn(posterior: Tensor) -> Tensor:
    """Numbers (N, C) between 0 and 1 whose largest, also of some classes, is drawn by chance.

    Each class is the largest as often as its probability says (Gumbel); a repeated run draws alike.
    """
    chance = torch.rand(posterior.shape, generator=torch.Generator().manual_seed(0)).double()
    noise = -(-chance.clamp(1e-9, 1 - 1e-9).log()).log()
    return (posterior.double().clamp_min(1e-30).log() + noise).softmax(1)


def with_targets(task: Task, found: VoteLabels) -> tuple[Task, str]:
    """The task with soft targets where held-out votes prefer them, and a sentence on it."""
    votes = task.votes
    if votes is None or found.posterior is None or task.kind != "vectors" or task.size < FEWEST:
        return task, "Training uses the given labels."
    soft = {
        "the probabilities of the consensus": found.posterior,
        "the shares of the votes": vote_shares(votes, task.num_classes),
    }
    forms = {"the given labels": one_hot(task.y, task.num_classes).double(), **soft}
    heard: dict[str, float] = {}
    knobs = None  # chosen once, so that targets alone differ
    for name, targets in forms.items():
        heard[name], knobs = _heard(task, votes, targets, knobs)
    best = max(heard, key=lambda name: heard[name])
    told = ", ".join(f"{value:.4f} with {name}" for name, value in heard.items())
    why = f"Training uses {best}: a vote on a held-out example has log-probability {told}."
    return (replace(task, targets=soft[best].float()) if best in soft else task), why


def _heard(task: Task, votes: Votes, targets: Tensor, knobs: Knobs | None) -> tuple[float, Knobs]:
    """Mean log-probability of votes on held-out examples by regressions on targets (N, C)."""
    order = torch.randperm(task.size, generator=torch.Generator().manual_seed(0))
    width = torch.Size(task.x.shape).numel()
    some = order[: max(FEWEST, min(SAMPLE, NUMBERS // max(1, width)))]
    x, labels, part = task.views.plain(task.x.take(some)).flatten(1), task.y[some], votes.part(some)
    fold = folds_of(labels, FOLDS, torch.Generator().manual_seed(0))
    said = cross_fit(x, labels, task.num_classes, fold, targets=targets[some]).log_probs
    crowd = fit_crowd(part, task.num_classes, said, knobs=knobs)
    return seen_alone(part, crowd, said), crowd.knobs
