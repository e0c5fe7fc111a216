"""How far the link goes from the given labels to the judge's posterior, by hand."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from drawn import drawn
from torch.nn.functional import one_hot

from labelproof.judging.judgement import Evidence, judge_labels
from labelproof.judging.link_scale import fit_scale, link_scale
from labelproof.judging.numbers import log_softmax


@pytest.mark.parametrize("size", [500, 2000])
def test_the_way_of_the_link_by_hand(size: int) -> None:
    data, few = drawn(size=size, noise=0.3, scale=2.0), drawn(size=40)
    views = log_softmax(few.scores.numpy())[None]
    judged = judge_labels(Evidence(views=views, given=few.given.numpy()))  # nothing can be judged,
    judged = replace(judged, posterior=(2 * data.scores).softmax(1).numpy())  # but this was
    judged = replace(judged, trust=replace(judged.trust, misled=0.0))
    given = fit_scale(data.scores, one_hot(data.given).double())
    true = fit_scale(data.scores, torch.from_numpy(judged.posterior))

    def found(cautious: bool = False, low: float = 0.1, **trust: object) -> float:
        told = replace(judged, noise_interval=(low, 0.5), trust=replace(judged.trust, **trust))
        return link_scale(data.scores, told, data.given, raw=9.0, cautious=cautious)

    usual = given * (true / given) ** (size / (size + 150))
    assert found(level="good") == pytest.approx(usual)
    assert found(level="good", low=0.0) == pytest.approx(given)  # no noise is sure
    surer = 1.25 ** min(1.0, 1000 / size)  # wrong labels and hard examples look alike
    assert found(level="caution", ambiguous=True, low=0.0) == pytest.approx(usual * surer)
    assert found(cautious=True, level="good") == pytest.approx(usual)
    assert found(cautious=True, level="caution") == pytest.approx(9 * 1.25 ** min(1, 300 / size))
