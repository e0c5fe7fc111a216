"""Co-teaching+: the step inside the disagreement by hand, and batches without disagreement."""

from __future__ import annotations

import copy
from dataclasses import replace

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from labelproof.errors import BadInput
from labelproof.methods.coteaching_plus import CoTeachingPlus
from labelproof.recipes.recipe import published, published_names
from tiny import blobs

TINY = CoTeachingPlus(epochs=6, together=3, batch=32, noise_rate=0.4, ramp=3, lr=0.01)
ONE_STEP = replace(TINY, batch=240, optimiser="sgd", momentum=0.0, lr=0.5, decay_from=1.0)


def weights(learner) -> list[Tensor]:
    return [p.detach().clone() for p in learner.net.parameters()]


def assert_all_close(ours: list[Tensor], theirs: list[Tensor]) -> None:
    for a, b in zip(ours, theirs, strict=True):
        torch.testing.assert_close(a, b)


def stepped(learner, x, y, rows) -> list[Tensor]:
    """Weights after plain gradient descent on the mean cross-entropy of some rows."""
    net = copy.deepcopy(learner.net)
    F.cross_entropy(net(x)[rows], y[rows]).backward()
    return [(p - 0.5 * p.grad).detach() for p in net.parameters()]


def at_epoch(epoch: int):
    """Two fresh networks, and the one batch of an epoch in the order that it will draw."""
    run = blobs().run()
    state = ONE_STEP.setup(run)
    run.begin(epoch)
    (batch,) = run.batches(240, views=("plain",))
    run.begin(epoch)
    return run, state, batch.views[0], batch.y


def test_small_losses_are_exchanged_inside_the_disagreement():
    run, state, x, y = at_epoch(4)
    first, second = state.learners
    predicted = [learner.net(x).argmax(1) for learner in state.learners]
    apart = [i for i in range(240) if predicted[0][i] != predicted[1][i]]
    assert 10 < len(apart) < 230
    trusted = []
    for learner in state.learners:
        losses = F.cross_entropy(learner.net(x), y, reduction="none").tolist()
        trusted.append(sorted(apart, key=losses.__getitem__)[: int(0.6 * len(apart))])
    wanted = [stepped(first, x, y, trusted[1]), stepped(second, x, y, trusted[0])]
    logs = ONE_STEP.teach_apart(state, run)
    assert logs["disagreeing"] == pytest.approx(len(apart) / 240)
    assert_all_close(weights(first), wanted[0])
    assert_all_close(weights(second), wanted[1])


def test_the_first_example_is_not_lost(monkeypatch):
    run, state, x, y = at_epoch(4)
    first, second = state.learners
    (batch,) = run.batches(240, views=("plain",))
    run.begin(4)
    row = (batch.index == 0).nonzero().squeeze(1)  # the one where the networks are made to differ

    def logits(self, state, batch) -> tuple[Tensor, Tensor]:
        ours = first.net(batch.views[0])
        theirs = ours.detach().index_copy(0, row, -ours.detach()[row])
        return ours, theirs + 0 * second.net(batch.views[0])

    monkeypatch.setattr(CoTeachingPlus, "logits", logits)
    wanted = stepped(first, x, y, row)
    logs = ONE_STEP.teach_apart(state, run)
    assert logs["disagreeing"] == pytest.approx(1 / 240)
    assert_all_close(weights(first), wanted)


def test_agreeing_networks_train_on_the_whole_batch_until_settled():
    run, state, x, y = at_epoch(4)
    first, second = state.learners
    second.net.load_state_dict(first.net.state_dict())
    before, wanted = weights(first), stepped(first, x, y, slice(None))
    replace(ONE_STEP, settle=4).teach_apart(state, run)  # step 4 is the first no longer allowed
    assert_all_close(weights(first), before)
    run.begin(4)
    replace(ONE_STEP, settle=5).teach_apart(state, run)
    assert_all_close(weights(first), wanted)
    assert_all_close(weights(second), wanted)


def test_a_sure_and_right_prediction_has_no_loss():
    run, state, _, _ = at_epoch(4)
    losses = []
    run.step = lambda learner, loss: losses.append(loss.item())
    sure = torch.tensor([[50.0, 0.0, 0.0]])
    ONE_STEP.exchange(state, sure, sure, torch.tensor([0]), 0.0, run)
    assert max(losses) < 1e-6  # a second softmax would not let it below ln(1 + 2 / e)


def test_plain_co_teaching_comes_first():
    names = [(phase.name, phase.epochs) for phase in CoTeachingPlus().plan()]
    assert names == [("co-teaching", 20), ("disagreement", 180)]
    run, state, x, y = at_epoch(2)
    first, second = state.learners
    losses = F.cross_entropy(second.net(x), y, reduction="none")
    wanted = stepped(first, x, y, losses.argsort()[:144])
    ONE_STEP.teach(state, run)
    assert_all_close(weights(first), wanted)


def test_it_learns_and_reports_the_probability_of_the_given_label():
    problem = blobs()
    result = problem.train(TINY)
    assert result.history[-1]["test_accuracy"] > 0.9
    assert result.history[-1]["error_auroc"] > 0.9
    given = result.probabilities.gather(1, problem.task.y[:, None]).squeeze(1)
    torch.testing.assert_close(result.clean, given)


def test_disagreement_needs_an_epoch():
    with pytest.raises(BadInput, match="together"):
        CoTeachingPlus(epochs=5, together=5)


def test_published_settings_are_valid():
    for name in published_names("coteaching_plus"):
        assert published("coteaching_plus", name).together < 30


def test_adam_changes_its_momentum_late():
    method = replace(TINY, epochs=10, decay_from=0.4)
    run = blobs().run()
    state = method.setup(run)
    for epoch, momentum in ((3, 0.9), (4, 0.1)):
        run.begin(epoch)
        method.prepare(state, run)
        for learner in state.learners:
            assert learner.optimiser.param_groups[0]["betas"] == (momentum, 0.999)
