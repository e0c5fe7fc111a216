"""How sure predictions may be: found without true labels."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from drawn import Drawn, drawn
from torch.nn.functional import one_hot

from labelproof import metrics
from labelproof.judging.calibration import Heard, link_scale
from labelproof.judging.judgement import Evidence, Judgement, judge_labels
from labelproof.judging.link import Link, fit_scale, halfway, rights, sure_scale
from labelproof.judging.numbers import log_softmax
from labelproof.judging.sharpness import Near, share_right


def heard_of(data: Drawn, **changes: float) -> Heard:
    """One view, as of images that are trained from scratch."""
    views = log_softmax(data.scores.numpy())[None]
    return Heard(own=data.scores, unseen=data.scores, views=views, **changes)


def judged_of(heard: Heard, data: Drawn) -> Judgement:
    return judge_labels(Evidence(views=heard.views, given=data.given.numpy(), seen=heard.seen))


@pytest.mark.parametrize(("noise", "scale"), [(0.3, 2.0), (0.3, 0.5), (0.4, 1.0)])
def test_the_link_is_found_without_true_labels(noise: float, scale: float) -> None:
    data = drawn(size=3000, noise=noise, scale=scale, hard=0.5)
    heard = heard_of(data)
    found = link_scale(heard, judged_of(heard, data), data.given)
    assert found == pytest.approx(scale, rel=0.3)
    probs = Link(scale=found)(data.scores)
    raw = metrics.ece(data.scores.softmax(1), data.truth)
    assert metrics.ece(probs, data.truth) < max(0.05, raw / 2)
    given = fit_scale(data.scores, one_hot(data.given, 5).double())
    assert metrics.ece(probs, data.truth) < metrics.ece(Link(scale=given)(data.scores), data.truth)


def test_right_labels_leave_the_link_near_that_of_the_given_ones() -> None:
    data = drawn(size=6000, noise=0.0, scale=2.0)
    heard = heard_of(data)
    assert link_scale(heard, judged_of(heard, data), data.given) == pytest.approx(2.0, rel=0.2)


def test_networks_that_saw_the_labels_follow_the_judge_or_the_method() -> None:
    data = drawn(size=1500, noise=0.3, scale=2.0)
    heard = heard_of(data, raw=0.7)
    assert heard.seen
    judged = judged_of(heard, data)
    fitted = fit_scale(data.scores, torch.from_numpy(judged.posterior))
    assert link_scale(heard, judged, data.given) == fitted != 0.7
    none = replace(judged, trust=replace(judged.trust, level="none"))
    assert link_scale(heard, none, data.given) == 0.7


def test_the_noise_model_and_the_agreement_of_views_have_a_say_each() -> None:
    data = drawn(size=400, noise=0.2)
    heard = heard_of(data)
    judged = judged_of(heard, data)
    other = heard.views + np.random.default_rng(0).normal(0, 0.3, heard.views.shape)
    views, given = np.concatenate([heard.views, other]), data.given
    by_model, by_views = rights(data.scores, judged, given, views, None)
    assert by_model == pytest.approx(1 - judged.trust.model_error)
    scores = log_softmax(data.scores.numpy())
    assert by_views == share_right(views.argmax(2), scores, given.numpy())
    louder = log_softmax(5 * data.scores.numpy())  # scores come on any scale
    found = rights(5 * data.scores + 1, judged, given, views, None)
    assert found[1] == share_right(views.argmax(2), louder, given.numpy())
    assert rights(data.scores, judged, given, heard.views, None) == (by_model,)
    rows = np.arange(0, 400, 3)
    near = Near(rows=rows, said=other[0].argmax(1)[rows])
    expected = share_right(views.argmax(2)[:, rows], scores[rows], given.numpy()[rows])
    assert rights(data.scores, judged, given, heard.views, near) == (by_model, expected)


def test_predictions_are_right_at_least_as_often_as_they_name_the_given_label() -> None:
    data = drawn(size=400, noise=0.0)
    heard = heard_of(data)
    judged = judged_of(heard, data)
    worse = replace(judged, trust=replace(judged.trust, model_error=0.9))
    agreement = (data.scores.argmax(1) == data.given).double().mean().item()
    assert rights(data.scores, worse, data.given, heard.views, None) == (agreement,)
    sure = replace(judged.trust, model_error=0.0, ambiguous=False)
    told = replace(judged, trust=sure)
    assert rights(data.scores, told, data.given, heard.views, None) == (1.0,)
    unclear = replace(judged, trust=replace(sure, ambiguous=True))
    assert rights(data.scores, unclear, data.given, heard.views, None) == (agreement,)


def test_weak_models_are_right_as_often_as_they_name_the_given_label() -> None:
    rng = np.random.default_rng(0)
    hint = 0.35 * rng.normal(size=(600, 6))  # all that any model can know
    chance = np.exp(hint) / np.exp(hint).sum(1, keepdims=True)
    given = torch.from_numpy((chance.cumsum(1) > rng.random((600, 1))).argmax(1))
    views = np.log(chance) + rng.normal(0, 0.02, (2, 600, 6))  # they agree nearly everywhere
    views -= np.log(np.exp(views).sum(2, keepdims=True))
    judged = judge_labels(Evidence(views=views, given=given.numpy()))
    assert judged.trust.level == "none"
    assert judged.trust.weak
    scores = torch.from_numpy(views.mean(0))
    agreement = (scores.argmax(1) == given).double().mean().item()
    assert rights(scores, judged, given, views, None) == (agreement,)
    strong = replace(judged, trust=replace(judged.trust, weak=False))
    assert max(rights(scores, strong, given, views, None)) > 2 * agreement


def test_the_scale_at_which_predictions_are_as_sure_as_asked_for() -> None:
    scores = torch.randn(50, 4, generator=torch.Generator().manual_seed(0)).double()
    sure = (1.7 * scores).softmax(1).amax(1).mean().item()
    assert sure_scale(scores, sure) == pytest.approx(1.7, rel=1e-6)
    least, most = (
        (sure_scale(scores, share) * scores).softmax(1).amax(1).mean() for share in (0, 1)
    )
    assert least == pytest.approx(1.05 / 4)
    assert most == pytest.approx(0.995)


def test_two_estimates_meet_halfway_on_a_logarithmic_scale() -> None:
    scores = torch.randn(50, 4, generator=torch.Generator().manual_seed(0)).double()
    one, other = sure_scale(scores, 0.5), sure_scale(scores, 0.9)
    assert halfway(scores, (0.5, 0.9)) == pytest.approx(math.sqrt(one * other))
    assert halfway(scores, (0.5,)) == pytest.approx(one)
