"""Co-teaching: who learns from whom, one step by hand, its optimiser's plan."""

from __future__ import annotations

import copy
from dataclasses import replace

import pytest
import torch
import torch.nn.functional as F

from labelproof import functional as fn
from labelproof.methods.coteaching import CoTeaching
from labelproof.recipes.recipe import published, published_names
from tiny import blobs

TINY = CoTeaching(epochs=6, batch=32, noise_rate=0.4, ramp=3, lr=0.01)
ONE_STEP = replace(TINY, batch=240, optimiser="sgd", momentum=0.0, lr=0.5, decay_from=1.0)


def weights(learner) -> list[torch.Tensor]:
    return [p.detach().clone() for p in learner.net.parameters()]


def at_epoch(method: CoTeaching, epoch: int):
    run = blobs().run()
    state = method.setup(run)
    run.begin(epoch)
    return run, state


def stepped(learner, x, y, rows, lr: float) -> list[torch.Tensor]:
    """Weights after plain gradient descent on the mean cross-entropy of some rows."""
    net = copy.deepcopy(learner.net)
    F.cross_entropy(net(x)[rows], y[rows]).backward()
    return [(p - lr * p.grad).detach() for p in net.parameters()]


def whole_set(run):
    """The one batch of an epoch, in the order that the epoch will draw."""
    (batch,) = run.batches(240, views=("plain",))
    return batch.views[0], batch.y


def test_each_network_steps_on_what_its_peer_trusts():
    run, state = at_epoch(ONE_STEP, 5)
    x, y = whole_set(run)
    run.begin(5)
    first, second = state.learners
    trusted = [
        F.cross_entropy(each.net(x), y, reduction="none").argsort()[:144]
        for each in (first, second)
    ]
    assert set(trusted[0].tolist()) != set(trusted[1].tolist())
    expected = [stepped(first, x, y, trusted[1], 0.5), stepped(second, x, y, trusted[0], 0.5)]
    logs = ONE_STEP.teach(state, run)
    assert logs["kept"] == pytest.approx(0.6)
    for learner, wanted in zip(state.learners, expected, strict=True):
        for ours, theirs in zip(weights(learner), wanted, strict=True):
            torch.testing.assert_close(ours, theirs)


def test_nothing_is_left_out_at_first():
    run, state = at_epoch(ONE_STEP, 0)
    x, y = whole_set(run)
    run.begin(0)
    wanted = stepped(state.learners[0], x, y, slice(None), 0.5)
    ONE_STEP.teach(state, run)
    for ours, theirs in zip(weights(state.learners[0]), wanted, strict=True):
        torch.testing.assert_close(ours, theirs)


def test_equal_networks_stay_equal():
    run, state = at_epoch(TINY, 4)
    first, second = state.learners
    second.net.load_state_dict(first.net.state_dict())
    TINY.teach(state, run)
    for a, b in zip(weights(first), weights(second), strict=True):
        assert torch.equal(a, b)


def test_adam_follows_the_released_plan():
    method = replace(TINY, epochs=10, decay_from=0.4)
    run, state = at_epoch(method, 3)
    learner = state.learners[0]
    method.prepare(learner, run)
    group = learner.optimiser.param_groups[0]
    assert (group["lr"], group["betas"]) == (0.01, (0.9, 0.999))
    run.begin(7)
    method.prepare(learner, run)
    assert group["lr"] == pytest.approx(0.005)
    assert group["betas"] == (0.1, 0.999)


def test_evidential_form():
    method = replace(TINY, loss="edl")
    logits, y = torch.randn(5, 4, dtype=torch.float64), torch.tensor([0, 1, 2, 3, 0])
    torch.testing.assert_close(
        method.objective.of_labels(logits, y), fn.edl_loss(logits, y, 2.5, 0.5)
    )
    torch.testing.assert_close(
        method.objective.probability(logits), fn.calibrated_softmax(logits, 2.5)
    )
    torch.testing.assert_close(
        TINY.objective.of_labels(logits, y), F.cross_entropy(logits, y, reduction="none")
    )


@pytest.mark.parametrize("changes", [{}, {"loss": "edl"}, {"optimiser": "sgd", "lr": 0.1}])
def test_it_learns_and_trusts_right_labels(changes):
    problem, method = blobs(), replace(TINY, **changes)
    result = problem.train(method)
    assert result.history[-1]["test_accuracy"] > 0.9
    assert result.history[-1]["error_auroc"] > 0.9
    run = problem.run()
    losses = method.objective.of_labels(run.predict(result.state.learners[0].net), run.y)
    kept = fn.small_loss(losses, 0.4)
    right = (problem.audit.truth == problem.task.y)[kept].float().mean()
    assert right > 0.9  # 0.6 of all labels are


def test_clean_is_the_probability_of_the_given_label():
    problem = blobs()
    result = problem.train(TINY)
    given = result.probabilities.gather(1, problem.task.y[:, None]).squeeze(1)
    torch.testing.assert_close(result.clean, given)


def test_views_are_what_was_asked_for(monkeypatch):
    seen = []
    run, state = at_epoch(TINY, 0)
    real = run.batches
    monkeypatch.setattr(run, "batches", lambda size, views: seen.append(views) or real(size))
    TINY.teach(state, run)
    replace(TINY, view="weak").teach(state, run)
    assert seen == [("plain",), ("weak",)]


def test_published_settings_are_valid():
    for name in published_names("coteaching"):
        assert 0 < published("coteaching", name).noise_rate < 0.8


def test_symmetric_noise_that_may_redraw_the_true_class_is_less_than_it_says():
    assert published("coteaching", "cifar10-symmetric-0.5").noise_rate == pytest.approx(0.45)
    exclusive = published("coteaching", "cifar10-symmetric-exclusive-0.5")
    assert exclusive.noise_rate == 0.5
