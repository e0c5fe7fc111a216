"""Meta-Weight-Net: the slope of the imagined step by differences, and what it must not touch."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
import torch.nn.functional as F

from labelproof.errors import BadInput
from labelproof.methods.mwnet import MWNet, smallest
from labelproof.recipes.recipe import published
from tiny import blobs

METHOD = MWNet(epochs=6, scout=2, batch=16, lr=0.05, meta=12, meta_lr=0.01)


def two_batches(run, rows=16):
    x = run.task.views.plain(run.task.x.take(torch.arange(2 * rows)))
    return (x[:rows], run.y[:rows]), (x[rows:], run.y[rows : 2 * rows])


def doubled(state):
    state.learner.net.double()
    state.weigher.net.double()


def test_slope_of_the_weighing_network_is_that_of_finite_differences():
    run = blobs(size=64).run()
    state = METHOD.setup(run)
    doubled(state)
    batch, right = ((x.double(), y) for x, y in two_batches(run))
    loss = METHOD.loss_after(state, batch, right)
    weight = state.weigher.net.heads["weight"].weight
    (slope,) = torch.autograd.grad(loss, weight)
    for place in range(0, 100, 25):
        values = []
        for step in (1e-5, -2e-5):
            with torch.no_grad():
                weight[0, place] += step
            values.append(METHOD.loss_after(state, batch, right).item())
        with torch.no_grad():
            weight[0, place] += 1e-5
        difference = (values[0] - values[1]) / 2e-5
        assert difference == pytest.approx(slope[0, place].item(), rel=1e-3, abs=1e-9)


def test_the_imagined_step_is_a_step_of_plain_descent():
    run = blobs(size=64).run()
    state = METHOD.setup(run)
    batch, right = two_batches(run)
    expected_net = METHOD.setup(blobs(size=64).run()).learner.net
    expected_net.load_state_dict(state.learner.net.state_dict())
    losses = F.cross_entropy(expected_net.train()(batch[0]), batch[1], reduction="none")
    loss = (METHOD.weights(state, losses).detach() * losses).mean()
    slopes = torch.autograd.grad(loss, list(expected_net.parameters()))
    with torch.no_grad():
        for value, slope in zip(expected_net.parameters(), slopes, strict=True):
            value -= 0.05 * slope
    expected = F.cross_entropy(expected_net(right[0]), right[1])
    torch.testing.assert_close(METHOD.loss_after(state, batch, right), expected)


def test_looking_ahead_changes_neither_weights_nor_statistics():
    run = blobs(size=64).run()
    state = METHOD.setup(run)
    before = {k: v.clone() for k, v in state.learner.net.state_dict().items()}
    theta = state.weigher.net.heads["weight"].weight.clone()
    METHOD.learn_weights(state, *two_batches(run))
    assert all(torch.equal(before[k], v) for k, v in state.learner.net.state_dict().items())
    assert not torch.equal(theta, state.weigher.net.heads["weight"].weight)
    assert all(p.grad is None for p in state.learner.net.parameters())


def test_weights_lie_between_nothing_and_one_or_add_up():
    state = METHOD.setup(blobs(size=64).run())
    losses = torch.linspace(0, 10, 16)
    values = METHOD.weights(state, losses)
    assert ((values > 0) & (values < 1)).all()
    normed = replace(METHOD, normalise="sum").weights(state, losses)
    assert normed.sum().item() == pytest.approx(16)


def test_right_labels_are_balanced_small_losses_or_those_confirmed():
    losses = torch.tensor([0.5, 0.1, 0.9, 0.2, 0.4, 0.3])
    labels = torch.tensor([0, 0, 0, 1, 1, 1])
    assert smallest(losses, labels, 4).tolist() == [0, 1, 3, 5]
    problem = blobs(size=60)
    fixed = torch.zeros(60, dtype=torch.bool)
    fixed[5:25] = True
    run = replace(problem, task=replace(problem.task, fixed=fixed)).run()
    state = METHOD.setup(run)
    METHOD.start(state, run)
    assert state.right.tolist() == list(range(5, 25))


def test_right_labels_are_never_trained_on():
    run = blobs(size=64).run()
    state = METHOD.setup(run)
    METHOD.start(state, run)
    seen = []
    original = run.batches
    run.batches = lambda size, rows=None, *a, **k: (
        seen.append(rows) or original(size, rows, *a, **k)
    )
    run.begin(2)
    METHOD.train(state, run)
    assert not set(seen[0].tolist()) & set(state.right.tolist())
    assert len(state.right) == 12


@pytest.mark.parametrize(("every", "told"), [(1, "wswswswsws"), (2, "wsswssws")])
def test_weights_are_learnt_before_every_so_manieth_step(monkeypatch, every, told):
    run, events = blobs(size=64).run(), []
    method = replace(METHOD, every=every, batch=10)  # of 52 examples
    state = method.setup(run)
    method.start(state, run)
    monkeypatch.setattr(MWNet, "learn_weights", lambda *_: events.append("w"))
    monkeypatch.setattr(run, "step", lambda *_: events.append("s"))
    run.begin(2)
    method.train(state, run)
    assert "".join(events) == told


def test_scouting_must_leave_epochs():
    with pytest.raises(BadInput, match="scout must be smaller"):
        MWNet(epochs=5, scout=5)


def test_the_weighing_network_has_the_optimiser_of_either_script():
    run = blobs(size=20).run()
    stable = published("mwnet", "cifar10-asymmetric-0.4").setup(run).weigher.optimiser
    wide = published("mwnet", "cifar10-symmetric-0.4").setup(run).weigher.optimiser
    assert isinstance(stable, torch.optim.Adam)
    assert isinstance(wide, torch.optim.SGD)
    settings = wide.param_groups[0]
    assert (settings["lr"], settings["momentum"], settings["weight_decay"]) == (1e-3, 0.9, 5e-4)
    assert settings["nesterov"]
