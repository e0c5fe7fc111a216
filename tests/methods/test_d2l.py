"""D2L: the dimension of known shapes, the turn, the way back, and the targets after it."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from sklearn.neighbors import NearestNeighbors

from labelproof.methods.d2l import D2L, copied, local_dimension, symmetric
from tiny import blobs

RNG = torch.Generator().manual_seed(0)
LOGITS = 2 * torch.randn(9, 5, generator=RNG, dtype=torch.float64)
LABELS = torch.arange(9) % 5
METHOD = D2L(epochs=6, batch=16, lr=0.05, settle=1, window=2, neighbours=5)


def ball(dimension: int, count: int = 1000) -> torch.Tensor:
    """Points uniform in a ball."""
    way = torch.randn(count, dimension, generator=RNG, dtype=torch.float64)
    radius = torch.rand(count, 1, generator=RNG, dtype=torch.float64) ** (1 / dimension)
    return way / way.norm(dim=1, keepdim=True) * radius


@pytest.mark.parametrize("dimension", [2, 8])
def test_the_dimension_of_a_ball_is_its_own(dimension):
    points = ball(dimension)
    turn = torch.linalg.qr(torch.randn(20, dimension, generator=RNG, dtype=torch.float64)).Q
    mean = local_dimension(points, 20).mean().item()
    assert mean == pytest.approx(dimension, rel=0.15)
    moved = local_dimension(7 * points @ turn.T + 3, 20).mean().item()
    assert moved == pytest.approx(mean, rel=1e-6)


def test_dimension_is_the_formula_over_neighbours_of_another_library():
    points = ball(4, 60)
    near, _ = NearestNeighbors(n_neighbors=8).fit(points.numpy()).kneighbors()
    expected = -7 / np.log(near[:, :7] / near[:, 6:7]).sum(1)
    np.testing.assert_allclose(local_dimension(points, 7).numpy(), expected, rtol=1e-6)
    np.testing.assert_allclose(
        local_dimension(points, 7, True).numpy(), expected * 6 / 7, rtol=1e-6
    )


def test_copies_and_lonely_rows_have_no_dimension():
    points = ball(3, 30)
    points[1] = points[0]
    assert local_dimension(points, 5).isfinite().all()
    assert local_dimension(torch.ones(9, 3), 5).isnan().all()
    assert local_dimension(torch.ones(2, 3), 5).isnan().all()


def test_the_turn_is_found_where_a_falling_line_rises_and_not_in_a_steady_one():
    method = D2L(settle=4, window=5)
    falling = [20 - 0.5 * t for t in range(12)]
    rising = [*falling, 14.5, 17.0, 20.0]
    found = [t for t in range(1, len(rising) + 1) if method.is_turn(rising[:t])]
    assert found[0] == 14  # the value 17 lies two deviations above the five before it
    assert not any(method.is_turn(falling[:t]) for t in range(1, 13))
    assert not method.is_turn([1.0, 1.0, 1.0, 1.0, 9.0])  # too early


def test_alpha_is_one_before_the_turn_and_falls_with_dimension_and_time():
    state = METHOD.setup(blobs(size=20).run())
    state.dimensions = [4.0, 2.0, 3.0]
    assert METHOD.alpha(state, 3) == 1.0
    state.turned = 1
    assert METHOD.alpha(state, 3) == pytest.approx(math.exp(-0.5 * 1.5))
    assert METHOD.alpha(state, 5) < METHOD.alpha(state, 3)


def test_targets_join_label_and_own_answer():
    expected = 0.3 * F.cross_entropy(LOGITS, LABELS, reduction="none")
    expected += 0.7 * F.cross_entropy(LOGITS, LOGITS.argmax(1), reduction="none")
    torch.testing.assert_close(METHOD.loss(LOGITS, LABELS, 0.3, turned=True), expected)
    plain = F.cross_entropy(LOGITS, LABELS, reduction="none")
    torch.testing.assert_close(METHOD.loss(LOGITS, LABELS, 1.0, turned=False), plain)


def test_symmetric_start():
    p = LOGITS.softmax(1)
    reverse = -(p * F.one_hot(LABELS, 5).double().clamp(min=1e-4).log()).sum(1)
    expected = 0.1 * F.cross_entropy(LOGITS, LABELS, reduction="none") + reverse
    torch.testing.assert_close(symmetric(LOGITS, LABELS, 0.1, 1.0), expected)
    method = replace(METHOD, start_loss="sce")
    torch.testing.assert_close(method.loss(LOGITS, LABELS, 1.0, turned=False), expected)
    assert not torch.allclose(method.loss(LOGITS, LABELS, 1.0, turned=True), expected)


def test_the_turn_brings_back_the_weights_of_the_epoch_before(monkeypatch):
    run = blobs(size=40).run()
    state = METHOD.setup(run)
    values = iter([3.0, 2.9, 2.8, 9.0])
    monkeypatch.setattr(D2L, "measure", lambda *_: next(values))
    starts = []
    for epoch in range(4):
        run.begin(epoch)
        starts.append(copied(state.learner))
        METHOD.train(state, run)
    assert state.turned == 2
    for name, value in state.before.items():  # the fourth epoch began where the third did
        assert torch.equal(value, starts[2][name])
    assert METHOD.alpha(state, 3) < 1


def test_measuring_changes_nothing_and_uses_no_more_than_the_sample():
    run = blobs(size=60).run()
    state = METHOD.setup(run)
    before = copied(state.learner)
    assert replace(METHOD, sample=32).measure(state, run) > 0
    assert all(torch.equal(before[k], v) for k, v in state.learner.net.state_dict().items())


def test_few_rows_have_as_many_neighbours_as_there_are_others():
    rows = torch.randn(5, 3, generator=torch.Generator().manual_seed(0))
    found = local_dimension(rows, 20)
    assert found.isfinite().all()
    assert torch.equal(found, local_dimension(rows, 4))
