"""Fitting the link, and judging the given labels, from what a run knows; no true label is used.

0. Scores of the training set come from networks that have not seen the labels (`crossfit`), or,
   where that takes too long, from the run's own networks, which then look too good.
1. These scores and the given labels determine a noise model (`noise_model`), and that the posterior
   of every true class.
2. The link is the scale under which the scores fit those posteriors best.
3. The probability that a label is right joins two views of it: the posterior of the noise model
   and the method's own clean probability, which also remembers how training went.

Shapes: C classes, N training examples.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

import torch
from torch import Tensor
from torch.nn.functional import softplus

from labelproof.data.task import Audit, Task
from labelproof.judging.annotators import Crowd, fit_crowd
from labelproof.judging.crossfit import FEWEST as FEWEST_TO_SPLIT
from labelproof.judging.crossfit import held_out_scores, scores_of
from labelproof.judging.link import Link
from labelproof.judging.noise_model import fit_noise_model, minimise
from labelproof.judging.scores import kind_of_scores
from labelproof.training.log import Reporter
from labelproof.training.loop import Result
from labelproof.training.run import Trunk

How = Literal["folds", "quick", "off"]
NUMBERS = 300_000  # examples times classes that the noise model is fitted to, at the most
FEWEST = 8000  # examples, unless there are fewer


@dataclass(frozen=True, kw_only=True)
class Calibration:
    """A link, and what was found out of the training set and its labels on the way."""

    how: How
    link: Link
    probabilities: Tensor  # (N, C) of the training examples, by the run and by unseen networks
    clean: Tensor  # (N,) probability that the given label is right
    transition: Tensor  # (C, C) probability of a given label (column) for each true one (row)
    noise_rate: float  # estimated share of wrong labels
    seconds: float = 0.0  # what it took
    scores: Tensor | None = None  # (N, C) of the training set, by networks that did not see labels
    crowd: Crowd | None = None  # what several annotators and the model say together

    def describe(self) -> dict[str, Any]:
        """Plain values, for calibration.json."""
        return {
            "how": self.how,
            "link": self.link.describe(),
            "noise_rate": self.noise_rate,
            "transition": self.transition.tolist(),
        }


def calibrate(
    result: Result,
    trunk: Trunk,
    how: How = "folds",
    *,
    seed: int = 0,
    folder: Path | None = None,
    reporter: Reporter | None = None,
) -> Calibration:
    """Fit the link of a finished run on its own training set and given labels.

    Args:
        result: the run.
        trunk: makes a new network like the run's.
        how: "folds" trains the method once more on either half of the training set; "quick" trusts
            the run's own view of the examples it was trained on, which is right only where there
            are many more examples than the network can memorise; "off" leaves all as it is.
        seed: decides the halves and how they are trained.
        folder: where the training of the halves is saved, to go on from after an interruption.
        reporter: follows the training.
    """
    if how == "off":
        return uncalibrated(result)
    started = time.monotonic()
    task = result.task
    of = kind_of_scores(result.method, result.state, _some(result))
    own = scores_of(result, task.x, of).double()
    unseen = own
    if task.size < FEWEST_TO_SPLIT:
        how = "quick"
    if how == "folds":
        unseen = held_out_scores(result, trunk, of, seed=seed, folder=folder, reporter=reporter)
    crowd = crowd_of(task, unseen)
    posterior = crowd.posterior if crowd else posteriors(unseen, task.y, task.fixed)
    right = posterior.gather(1, task.y[:, None]).squeeze(1)
    link = Link(of=of, scale=fit_scale(unseen, posterior))
    # votes say more of a label than how training went
    clean = trusted(right if crowd else joined(result.clean, right), task.fixed)
    return Calibration(
        how=how,
        link=link,
        probabilities=link((own + unseen) / 2).float(),
        clean=clean.float(),
        transition=transition_matrix(posterior, task.y),
        noise_rate=1 - right.mean().item(),
        scores=unseen.float(),
        crowd=crowd,
        seconds=time.monotonic() - started,
    )


def crowd_of(task: Task, scores: Tensor) -> Crowd | None:
    """What annotators and a model's scores (N, C) say together, where there are votes.

    Labels that a person has confirmed stand above all votes.
    """
    if task.votes is None:
        return None
    crowd = fit_crowd(task.votes, task.num_classes, scores)
    if task.fixed is None:
        return crowd
    sure = torch.nn.functional.one_hot(task.y, task.num_classes).double()
    posterior = torch.where(task.fixed[:, None], sure, crowd.posterior)
    return replace(crowd, posterior=posterior)


def uncalibrated(result: Result) -> Calibration:
    """What the method itself says; with several annotators, what they and it say together."""
    crowd = crowd_of(result.task, result.probabilities.double().clamp_min(1e-12).log())
    if crowd:
        right = crowd.posterior.gather(1, result.task.y[:, None]).squeeze(1)
        return Calibration(
            how="off",
            link=Link(),
            probabilities=result.probabilities,
            clean=right.float(),
            transition=transition_matrix(crowd.posterior, result.task.y),
            noise_rate=1 - right.mean().item(),
            crowd=crowd,
        )
    return Calibration(
        how="off",
        link=Link(),
        probabilities=result.probabilities,
        clean=result.clean,
        transition=transition_matrix(result.probabilities.double(), result.task.y),
        noise_rate=1 - result.clean.mean().item(),
    )


def calibrated(result: Result, calibration: Calibration, audit: Audit) -> Result:
    """The result with calibrated probabilities and joined clean probabilities in their places."""
    link, test = calibration.link, audit.test_x
    return replace(
        result,
        probabilities=calibration.probabilities,
        clean=calibration.clean,
        test_probabilities=None if test is None else link(scores_of(result, test, link.of)),
    )


def posteriors(values: Tensor, given: Tensor, fixed: Tensor | None) -> Tensor:
    """Probability of every true class of every training example, (N, C), in double precision."""
    size, classes = values.shape
    most = max(FEWEST, NUMBERS // classes)
    rows = torch.randperm(size, generator=torch.Generator().manual_seed(0))[:most]
    model = fit_noise_model(values[rows], given[rows], None if fixed is None else fixed[rows])
    return torch.cat(
        [
            model.posterior(values[part], given[part], None if fixed is None else fixed[part])
            for part in torch.split(torch.arange(size), most)
        ]
    )


def fit_scale(values: Tensor, target: Tensor) -> float:
    """The scale whose softmax has the least cross-entropy to the target distributions."""
    log_scale = torch.zeros((), dtype=torch.float64)

    def loss() -> Tensor:
        log_probs = (log_scale.exp() * values).log_softmax(1)
        return 0.5 / len(values) * log_scale.square() - (target * log_probs).sum(1).mean()

    minimise(loss, [log_scale], steps=30)
    return log_scale.exp().item()


def transition_matrix(posterior: Tensor, given: Tensor) -> Tensor:
    """Share of each given label (column) among the examples of each true class (row), (C, C)."""
    classes = posterior.shape[1]
    counts = torch.zeros(classes, classes, dtype=posterior.dtype)
    counts.index_add_(1, given, posterior.T)
    total = counts.sum(1, keepdim=True)
    # a class that nothing seems to belong to says nothing of its labels: they count as right
    eye = torch.eye(classes, dtype=counts.dtype)
    return torch.where(total > 1e-9, counts / total.clamp_min(1e-9), eye).float()


def joined(clean: Tensor, right: Tensor) -> Tensor:
    """One probability from the method's own (N,) and the posterior `right` (N,), mean of logits."""
    both = _logit(rescaled(clean, right)) + _logit(right)
    return rescaled((both / 2).sigmoid(), right)


def rescaled(clean: Tensor, right: Tensor) -> Tensor:
    """Probabilities (N,) mapped so that they agree with `right` on average.

    The map is a logistic curve on their logits, which never changes the order.
    """
    logits = _logit(clean)
    slope, offset = torch.zeros((), dtype=torch.float64), torch.zeros((), dtype=torch.float64)

    def loss() -> Tensor:
        fitted = slope.exp() * logits + offset
        likelihood = (right * fitted - softplus(fitted)).mean()
        return 0.5 / len(right) * (slope**2 + offset**2) - likelihood

    minimise(loss, [slope, offset], steps=50)
    return (slope.exp() * logits + offset).sigmoid()


def _logit(probs: Tensor) -> Tensor:
    return torch.logit(probs.double(), eps=1e-6)


def trusted(clean: Tensor, fixed: Tensor | None) -> Tensor:
    """Clean probabilities with those of confirmed labels set to one."""
    return clean if fixed is None else clean.masked_fill(fixed, 1.0)


def _some(result: Result) -> Tensor:
    raw = result.task.x.take(torch.arange(min(64, result.task.size)))
    return result.task.views.plain(raw.to(result.device))
