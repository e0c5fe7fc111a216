"""Decoupling: who is stepped on, and the step itself."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
import torch.nn.functional as F

from labelproof.errors import BadInput
from labelproof.methods.decoupling import Decoupling, differ
from tiny import blobs

METHOD = Decoupling(epochs=6, warmup=3, batch=16, lr=0.01)


def test_disagreement_is_of_predicted_classes():
    first = torch.tensor([[2.0, 1.0], [0.0, 3.0], [5.0, 4.0]])
    second = torch.tensor([[9.0, 0.0], [1.0, 0.0], [0.1, 0.2]])
    assert differ(first, second).tolist() == [False, True, True]


def test_networks_that_agree_everywhere_learn_nothing():
    run = blobs(size=32).run()
    state = METHOD.setup(run)
    first, second = state.learners
    second.net.load_state_dict(first.net.state_dict())
    before = first.net.heads["label"].weight.clone()
    run.begin(3)
    assert METHOD.disagree(state, run) == {"disagreement": 0.0}
    assert torch.equal(before, first.net.heads["label"].weight)
    METHOD.warm_up(state, run)
    assert not torch.equal(before, first.net.heads["label"].weight)


def test_a_step_is_the_mean_loss_where_they_differ():
    method = replace(METHOD, optimiser="sgd", lr=1.0, momentum=0.0, batch=32)
    run = blobs(size=32).run()
    state = method.setup(run)
    first, second = state.learners
    x = run.task.views.plain(run.task.x.take(torch.arange(32)))
    one, other = first.net.train()(x), second.net.train()(x)
    chosen = differ(one, other)
    assert 0 < chosen.sum() < 32
    weight = first.net.heads["label"].weight
    loss = F.cross_entropy(one[chosen], run.y[chosen])
    expected = weight.detach() - torch.autograd.grad(loss, weight)[0]
    run.begin(0)
    method.disagree(state, run)
    torch.testing.assert_close(
        first.net.heads["label"].weight.detach(), expected, rtol=1e-3, atol=1e-5
    )


@pytest.mark.parametrize(("least", "divisor"), [(0.1, 8), (0.5, 16)])
def test_few_that_differ_make_a_smaller_step(least, divisor, monkeypatch):
    method = replace(METHOD, batch=32, least=least)
    run = blobs(size=32).run()
    state, losses = method.setup(run), []
    monkeypatch.setattr(type(run), "step", lambda self, learner, loss: losses.append(loss.item()))
    monkeypatch.setattr(
        "labelproof.methods.decoupling.differ", lambda first, second: torch.arange(32) < 8
    )
    run.begin(3)
    method.disagree(state, run)
    (batch,) = (run.begin(3), run.batches(32, views=("plain",)))[1]
    first = state.learners[0].net(batch.views[0])[:8]
    expected = F.cross_entropy(first, batch.y[:8], reduction="sum").item() / divisor
    assert losses[0] == pytest.approx(expected, rel=1e-5)


def test_warm_up_must_leave_epochs():
    with pytest.raises(BadInput, match="warmup must be smaller"):
        Decoupling(epochs=5, warmup=5)
