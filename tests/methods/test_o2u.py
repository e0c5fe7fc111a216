"""O2U-Net: the cycle, centred losses, and what is removed."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from labelproof import metrics
from labelproof.errors import BadInput
from labelproof.methods.o2u import O2U
from tiny import blobs

METHOD = O2U(epochs=12, cyclic=4, final=4, batch=16, cyclic_batch=8, lr=0.05, high=0.05, low=0.005)


def test_the_cycle_restarts_every_ten_epochs():
    rates = [O2U().cyclic_rate(epoch) for epoch in range(20)]
    assert rates[:10] == pytest.approx([0.0091 - 0.0009 * step for step in range(10)])
    assert rates[9] == pytest.approx(0.001)
    assert rates[10:] == pytest.approx(rates[:10])


def test_losses_are_centred_in_every_epoch():
    run = blobs(size=40).run()
    state = METHOD.setup(run)
    for epoch in range(4, 7):
        run.begin(epoch)
        METHOD.swing(state, run)
        assert state.losses.sum().item() == pytest.approx(0, abs=1e-3)
    assert state.visits.tolist() == [3.0] * 40


def test_who_sat_an_epoch_out_is_not_counted():
    run = blobs(size=43).run()
    state = METHOD.setup(run)
    run.begin(4)
    METHOD.swing(state, run)
    assert state.visits.sum() == 40
    assert (state.losses[state.visits == 0] == 0).all()


@pytest.mark.parametrize("share", [0.0, 0.25, 0.4])
def test_a_given_share_of_the_highest_mean_losses_is_removed(share):
    run = blobs(size=40).run()
    method = replace(METHOD, removed=share)
    state = method.setup(run)
    state.losses = torch.arange(40.0)
    state.visits += 2
    state.losses[0] = 100.0
    state.visits[0] = 100  # its mean is small
    method.remove(state, run)
    assert state.kept.sum() == int((1 - share) * 40)
    assert state.kept[0]
    assert state.kept[1:].tolist() == sorted(state.kept[1:].tolist(), reverse=True)


def test_two_gaussians_decide_where_no_share_is_known():
    run = blobs(size=100).run()
    state = METHOD.setup(run)
    rng = torch.Generator().manual_seed(0)
    state.losses = torch.cat([torch.randn(70, generator=rng), 12 + torch.randn(30, generator=rng)])
    state.visits += 1
    METHOD.remove(state, run)
    assert state.kept.tolist() == [True] * 70 + [False] * 30


def test_the_last_stage_sees_kept_labels_alone_with_a_new_network():
    problem = blobs(size=60)
    run = problem.run()
    state = METHOD.setup(run)
    before = state.learner
    state.kept[::2] = False
    METHOD.start_anew(state, run)
    assert state.learner is not before
    seen = []
    original = run.batches
    run.batches = lambda size, rows=None, *a, **k: (
        seen.append(rows) or original(size, rows, *a, **k)
    )
    run.begin(8)
    METHOD.learn_kept(state, run)
    assert seen[0].tolist() == list(range(1, 60, 2))


def test_wrong_labels_keep_high_losses():
    problem = blobs(size=200)
    result = problem.train(METHOD)
    wrong = problem.audit.truth != problem.task.y
    mean = result.state.losses / result.state.visits
    assert metrics.error_auroc(wrong, mean) > 0.9


def test_stages_must_fit():
    with pytest.raises(BadInput, match="must fit into epochs"):
        O2U(epochs=499)


def test_rates_of_the_first_stage():
    method = replace(METHOD, lr=1.0)
    run = blobs(size=16).run()
    state = method.setup(run)
    rates = []
    for done in (0.0, 0.24, 0.25, 0.49, 0.5, 0.99):
        run.begin(0)
        method.fit(state, run, done, None)
        rates.append(state.learner.optimiser.param_groups[0]["lr"])
    assert rates == pytest.approx([1.0, 1.0, 0.5, 0.5, 0.1, 0.1])
