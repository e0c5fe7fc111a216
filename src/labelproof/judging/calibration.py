"""Fitting the link, and judging the given labels, from what a run knows; no true label is used.

0. Scores of the training set come from networks that have not seen the labels (`crossfit`), or,
   where that takes too long, from the run's own networks, which then look too good.
1. For vectors a softmax regression and the nearest neighbours are further views (`stacking`), for
   tables a random forest too (`forest`).
2. Where that was asked for, both may predict too (`joining`), and the networks that were
   trained without a fold do: the mean of several networks is right a little more often than one.
3. The judge says how likely each label is right (`judgement`).
4. The link is the scale at which predictions are as sure as they are right (`link`).

Shapes: C classes, N training examples, V views.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from labelproof import functional as fn
from labelproof.choices import How
from labelproof.data.examples import Inputs
from labelproof.data.task import Audit, Task
from labelproof.functional.softmax_regression import CrossFit
from labelproof.judging.agreement import reliability
from labelproof.judging.annotators import fit_checked
from labelproof.judging.crossfit import FEWEST as FEWEST_TO_SPLIT
from labelproof.judging.crossfit import Retraining, first_inputs, fold_count, revived, scores_of
from labelproof.judging.crowd_em import Crowd
from labelproof.judging.joining import Join, join, with_forest
from labelproof.judging.judgement import (
    Evidence,
    Judgement,
    judge_by_votes,
    transition_of,
)
from labelproof.judging.link import (
    Link,
    Partner,
    Scores,
    fit_scale,
    halfway,
    kind_of_scores,
    mean_scores,
    rights,
    spread_rows,
    sure_scale,
)
from labelproof.judging.many_labels import judge_many
from labelproof.judging.numbers import Floats, log_softmax
from labelproof.judging.sharpness import Near
from labelproof.judging.suspects import Rule
from labelproof.judging.trust import NOT_JUDGED, Trust, named_instead, thin_votes
from labelproof.judging.unseen import Cheap, Unseen, plain_inputs, unseen_views
from labelproof.training.log import Reporter
from labelproof.training.loop import Result
from labelproof.training.run import collected, forward_all
from labelproof.training.side_by_side import Beside

FEWEST_FOLDS = 5  # from which the networks trained without one predict too; halves know too little


@dataclass(frozen=True, kw_only=True)
class Calibration:
    """A link, and what was found out of the training set and its labels on the way."""

    how: How
    link: Link
    probabilities: Tensor  # (N, C) of the training examples, by the run and by unseen networks
    clean: Tensor  # (N,) probability that the given label is right
    transition: Tensor  # (C, C) probability of a given label (column) for each true one (row)
    noise_rate: float | None  # estimated share of wrong labels; None where it cannot be stated
    judgement: Judgement | None = None  # None where nothing was judged
    scores: Tensor | None = None  # (N, C) of the training set, by models that did not see labels
    doubt: Tensor | None = None  # (N,) entropy of the run's own predictions
    instead: Tensor | None = None  # (N,) the class that one of these names instead, or -1; with
    # several annotators, instead of their consensus
    crowd: Crowd | None = None  # what several annotators and the model say together
    joined: Join | None = None  # whether a regression predicts too; None where it was not asked for
    members: tuple[Any, ...] = ()  # states trained without a fold, where they predict too
    folds: int = 0  # on how many the method was trained again
    seconds: float = 0.0  # what it took

    @property
    def trust(self) -> Trust:
        """Whether what is said of labels can be relied on."""
        return self.judgement.trust if self.judgement else NOT_JUDGED

    def describe(self) -> dict[str, Any]:
        """Plain values, for calibration.json."""
        judge = self.judgement
        return {
            "how": self.how,
            "folds": self.folds,
            "link": self.link.describe(),
            "members": len(self.members),  # networks trained without a fold that predict too
            "noise_rate": self.noise_rate,
            "transition": self.transition.tolist(),
            "view_weights": judge.weights.tolist() if judge else [],
            "own_score_weight": judge.own_weight if judge else 1.0,
        }


def calibrate(
    result: Result,
    again: Retraining,
    how: How = "folds",
    *,
    rule: Rule | None = None,
    joins: bool = False,
    reporter: Reporter | None = None,
    begun: Beside | None = None,
) -> Calibration:
    """Judge the labels of a finished run, and fit its link, by its own training set alone.

    Args:
        result: the run.
        again: how its method is trained again without each fold.
        how: "folds" trains again without each of some folds; "quick" trusts the run's own view,
            which is right only where a network cannot memorise its examples; "off" does nothing.
        rule: which labels are called suspects.
        joins: whether others may predict along with the run's own networks: those trained without
            a fold, a softmax regression, and for tables a random forest.
        reporter: follows the training.
        begun: that training, where it was begun beside the run's.
    """
    if how == "off":
        return uncalibrated(result)
    started, task = time.monotonic(), result.task
    how = "quick" if task.size < FEWEST_TO_SPLIT else how
    of = kind_of_scores(result.method, result.state, first_inputs(result))
    own = scores_of(result, task.x, of).double()
    members: tuple[Any, ...] = ()
    if how == "folds":
        unseen = unseen_views(again, reporter, begun)
        heard = unseen_scores(result, own, unseen, joins)
        if joins and task.kind == "vectors" and fold_count(task) >= FEWEST_FOLDS:
            members = revived(again, unseen.folds)
    else:
        heard = seen_scores(own, of)
    crowd = crowd_of(task, heard.unseen)
    judged, scale = judged_labels(result, heard, crowd, rule, again.seed)
    labels = task.y if crowd is None else crowd.posterior.argmax(1)
    link = Link(of=of, scale=scale, partner=heard.together.partner if heard.together else None)
    return Calibration(
        how=how,
        link=link,
        probabilities=link((heard.own + heard.unseen).div_(2)).float(),
        clean=torch.from_numpy(judged.p_clean).float(),
        transition=torch.from_numpy(judged.transition).float(),
        noise_rate=judged.noise_rate,
        judgement=judged,
        scores=torch.from_numpy(judged.scores).float(),
        doubt=-fn.neg_entropy(link(heard.own)),
        instead=torch.from_numpy(named_instead(judged.scores, heard.views, labels.numpy())),
        crowd=crowd,
        joined=heard.together,
        members=members,
        folds=fold_count(task) if how == "folds" else 0,
        seconds=time.monotonic() - started,
    )


@dataclass(frozen=True, kw_only=True)
class Heard:
    """What models say of the training set."""

    own: Tensor  # (N, C) scores of what predicts
    unseen: Tensor  # (N, C) the same by models that have not seen the labels; else `own` again
    views: Floats  # (V, N, C) log-probabilities for the judge
    raw: float | None = None  # the scale of the method's own probabilities, where it has `seen`
    near: Near | None = None  # what neighbours say of some, where no view has those of all
    forest: int | None = None  # which of the views is a forest
    together: Join | None = None

    @property
    def seen(self) -> bool:
        """Whether there is nothing but networks that were trained on the labels."""
        return self.raw is not None


def seen_scores(own: Tensor, of: Scores) -> Heard:
    """What scores (N, C) of the run's own networks say of the labels they were trained on."""
    return Heard(
        own=own,
        unseen=own,
        views=log_softmax(own.numpy())[None],
        raw=sure_scale(own, _probabilities(spread_rows(own), of).amax(1).mean().item()),
    )


def unseen_scores(result: Result, own: Tensor, said: Unseen, joins: bool) -> Heard:
    """The same with networks that were trained without the fold, and cheap views."""
    unseen, cheap, together = said.scores, said.cheap, None
    views, linear = np.stack([log_softmax(unseen.numpy()), *cheap.views]), cheap.linear
    if joins and linear is not None:
        together = _together(unseen, cheap, linear, result.task.y)
        if together.partner:
            x = plain_inputs(result.task, result.device)
            trees = 0.0 if cheap.trees is None else together.partner.trees * cheap.trees
            own = together.partner.without_forest(own, x) + trees
            unseen = _outside(together.partner, unseen, linear) + trees
    return Heard(
        own=own,
        unseen=unseen,
        views=views,
        near=cheap.near,
        forest=len(views) - 1 if cheap.cut else None,
        together=together,
    )


def _probabilities(values: Tensor, of: Scores) -> Tensor:
    """The method's own probabilities, from its scores (N, C)."""
    return fn.calibrated_softmax(values, gamma=1.0) if of == "logits" else values.softmax(1)


def judged_labels(
    result: Result, heard: Heard, crowd: Crowd | None, rule: Rule | None, seed: int
) -> tuple[Judgement, float]:
    """What the judge says of the labels, and the scale of the link that follows from it."""
    evidence = evidence_of(result, heard)
    if crowd:  # votes say more of a label than how training went
        votes = result.task.votes
        assert votes is not None
        given = int(votes.given.sum())
        judged = judge_by_votes(
            evidence,
            crowd.posterior.numpy(),
            rule,
            reliability=reliability(votes, result.task.num_classes),
            thin=thin_votes(given / len(votes.table), given / len(votes.annotators)),
        )
        return judged, fit_scale(heard.unseen, crowd.posterior)
    judged = judge_many(evidence, rule, seed=seed)
    return judged, link_scale(heard, judged, _before_review(result.task))


def link_scale(heard: Heard, judged: Judgement, labels: Tensor) -> float:
    """How sure predictions may be, by what was found of the given labels (N,) before review.

    Networks that have seen the labels look surer than they are of others: for these the scale fits
    the judge's posterior, or, if nothing can be trusted, stays that of the method.
    """
    if heard.raw is None:
        found = rights(heard.unseen, judged, labels, heard.views, heard.near, heard.forest)
        return halfway(heard.unseen, found)
    if judged.trust.level == "none":
        return heard.raw
    return fit_scale(heard.unseen, torch.from_numpy(judged.posterior))


def _together(unseen: Tensor, cheap: Cheap, linear: CrossFit, labels: Tensor) -> Join:
    """A regression, and for tables a forest, joined to unseen networks with scores (N, C)."""
    first = join(unseen, linear, labels)
    if cheap.forest is None or cheap.trees is None:
        return first
    both = _outside(first.partner, unseen, linear) if first.partner else unseen
    return with_forest(first, both, cheap.trees, linear, cheap.forest, labels)


def _outside(partner: Partner, unseen: Tensor, linear: CrossFit) -> Tensor:
    """Scores (N, C) of the network and the regression, each trained without the fold."""
    return partner.network * unseen + partner.linear * linear.log_probs.double()


def evidence_of(result: Result, heard: Heard) -> Evidence:
    """What the judge is given of a run."""
    task = result.task
    return Evidence(
        views=heard.views,
        given=task.y.numpy(),
        own_clean=result.clean.double().numpy(),
        fixed=None if task.fixed is None else task.fixed.numpy(),
        original=None if task.original is None else task.original.numpy(),
        seen=heard.seen,
        near=heard.near,
        forest=heard.forest,
    )


def _before_review(task: Task) -> Tensor:
    return task.y if task.original is None else task.original


def crowd_of(task: Task, scores: Tensor) -> Crowd | None:
    """What annotators and a model's scores (N, C) say together, where there are votes.

    Labels that a person has confirmed stand above all votes.
    """
    if task.votes is None:
        return None
    told = None if task.fixed is None else torch.where(task.fixed, task.y, -1)
    return fit_checked(task.votes, task.num_classes, scores, told)


def uncalibrated(result: Result) -> Calibration:
    """What the method itself says; with several annotators, what they and it say together."""
    given, clean, posterior = result.task.y, result.clean, result.probabilities
    votes = result.task.votes is not None
    crowd = crowd_of(result.task, posterior.double().clamp_min(1e-12).log()) if votes else None
    if crowd:
        posterior = crowd.posterior
        clean = posterior.gather(1, given[:, None]).squeeze(1).float()
    return Calibration(
        how="off",
        link=Link(),
        probabilities=result.probabilities,
        clean=clean,
        transition=torch.from_numpy(transition_of(posterior.numpy(), given.numpy())).float(),
        noise_rate=1 - clean.mean().item(),
        crowd=crowd,
    )


def calibrated(result: Result, calibration: Calibration, audit: Audit) -> Result:
    """The result with calibrated probabilities and joined clean probabilities in their places."""
    link, test = calibration.link, audit.test_x
    if test is not None:
        test_probabilities = link(linked_scores(result, test, link, calibration.members))
    return replace(
        result,
        probabilities=calibration.probabilities,
        clean=calibration.clean,
        test_probabilities=None if test is None else test_probabilities,
    )


def linked_scores(result: Result, x: Inputs, link: Link, members: Sequence[Any] = ()) -> Tensor:
    """Scores of all inputs, (M, C), with those of all that predict together, on the CPU."""
    states = (result.state, *members)

    def said(v: Tensor) -> Tensor:
        return link.joined(mean_scores(result.method, states, v, link.of), v)

    parts = forward_all(x, result.task, said, result.device)
    return collected((part.cpu() for part in parts), len(x))
