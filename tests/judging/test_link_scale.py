"""How sure predictions may be: found without true labels."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from drawn import Drawn, drawn
from torch.nn.functional import one_hot

from labelproof import metrics
from labelproof.judging.calibration import Heard, link_scale
from labelproof.judging.judgement import Evidence, Judgement, judge_labels
from labelproof.judging.link import Link
from labelproof.judging.link_scale import fit_scale, share_of_right, sure_scale
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


def test_the_link_is_as_sure_as_views_and_the_surest_predictions_say() -> None:
    data = drawn(size=400, noise=0.2)
    heard = heard_of(data)
    judged = judged_of(heard, data)
    other = heard.views + np.random.default_rng(0).normal(0, 0.3, heard.views.shape)
    views, given = np.concatenate([heard.views, other]), data.given
    scores, said, labels = log_softmax(data.scores.numpy()), views.argmax(2), given.numpy()
    found = share_of_right(5 * data.scores + 1, judged, given, views, None)  # on any scale
    assert found == share_right(said, log_softmax(5 * data.scores.numpy()), labels)
    one = Heard(own=data.scores, unseen=data.scores, views=views)
    right = share_of_right(data.scores, judged, given, views, None)
    assert link_scale(one, judged, given) == sure_scale(data.scores, right)
    rows = np.arange(0, 400, 3)
    near = Near(rows=rows, said=said[1][rows])
    expected = share_right(said[:, rows], scores[rows], labels[rows])
    assert share_of_right(data.scores, judged, given, heard.views, near) == expected


def test_one_view_is_right_at_least_as_often_as_it_names_the_given_label() -> None:
    data = drawn(size=400, noise=0.0)
    heard = heard_of(data)
    judged = judged_of(heard, data)

    def right(**changes: object) -> float:
        trust = replace(judged.trust, **changes)  # type: ignore[arg-type]
        told = replace(judged, trust=trust)
        return share_of_right(data.scores, told, data.given, heard.views, None)

    agreement = (data.scores.argmax(1) == data.given).double().mean().item()
    assert right(model_error=0.9, ambiguous=False) == pytest.approx(agreement)
    assert right(model_error=0.0, ambiguous=False) == 1
    assert right(model_error=0.0, ambiguous=True) == pytest.approx(agreement)


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
    assert share_of_right(scores, judged, given, views, None) == pytest.approx(agreement)
    strong = replace(judged, trust=replace(judged.trust, weak=False))
    assert share_of_right(scores, strong, given, views, None) > 1.5 * agreement


def test_the_scale_at_which_predictions_are_as_sure_as_asked_for() -> None:
    scores = torch.randn(50, 4, generator=torch.Generator().manual_seed(0)).double()
    sure = (1.7 * scores).softmax(1).amax(1).mean().item()
    assert sure_scale(scores, sure) == pytest.approx(1.7, rel=1e-6)
    least, most = (
        (sure_scale(scores, share) * scores).softmax(1).amax(1).mean() for share in (0, 1)
    )
    assert least == pytest.approx(1.05 / 4)
    assert most == pytest.approx(0.995)
