"""ELR+: averaged copies, targets from the peer, and the mixing of labels and targets alike."""

from __future__ import annotations

import math

import pytest
import torch
import torch.nn.functional as F

from labelproof import functional as fn
from labelproof.methods.elr import ELRPlus, follow
from labelproof.training.batches import Batch
from tiny import blobs, patterns


def prepared(**settings):
    """A method, its state and a run on a small set, with targets from some random past."""
    method = ELRPlus(batch=16, **settings)
    state = method.setup(run := blobs(size=32).run())
    state.sides[0].targets[:] = 0.8 * torch.rand(32, 3, generator=run.rng).softmax(1)
    batch = next(iter(run.batches(16)))
    return method, state, run, batch


def test_copies_follow_weights_and_running_statistics():
    side = ELRPlus().setup(patterns(size=12).run()).sides[0]
    net, average = side.learner.net, side.average
    before = {name: value.clone() for name, value in average.state_dict().items()}
    net.train()
    net(torch.randn(4, 3, 8, 8))
    with torch.no_grad():
        for parameter in net.parameters():
            parameter.add_(1.0)
    follow(average, net, 0.75)
    for name, value in average.state_dict().items():
        now = net.state_dict()[name]
        expected = 0.75 * before[name] + 0.25 * now if value.is_floating_point() else now
        torch.testing.assert_close(value, expected)


def test_decay_of_the_copies():
    ramped = ELRPlus()  # 40,000 steps of 352 an epoch until 0.997
    values = [ramped.follow_decay(step, 352) for step in (1, 20_000, 40_000, 50_000)]
    half = 0.997 * math.exp(-5 * 0.25)
    assert values == pytest.approx([0.0067, half, 0.997, 0.997], abs=1e-4)
    running = ELRPlus(average="running", decay=0.99)
    assert [running.follow_decay(s, 10) for s in (1, 2, 4, 1000)] == [0.0, 0.5, 0.75, 0.99]


def test_targets_come_from_the_copy_of_the_peer_on_unmixed_inputs():
    method, state, _, batch = prepared(beta=0.7)
    side, peer = state.sides
    before = side.targets.clone()
    method.update(side.targets, batch, peer.average)
    probs = peer.average(batch.views[0]).softmax(1)
    torch.testing.assert_close(side.targets[batch.index], 0.7 * before[batch.index] + 0.3 * probs)
    others = torch.ones(32, dtype=torch.bool).index_fill(0, batch.index, False)
    assert torch.equal(side.targets[others], before[others])


def test_without_mixing_and_weight_it_is_cross_entropy():
    method, state, run, batch = prepared(alpha=0.0, lam=0.0)
    losses = method.mixed_loss(state.sides[0], batch, 0.0, run)
    logits = state.sides[0].learner.net(batch.views[0])
    torch.testing.assert_close(losses, F.cross_entropy(logits, batch.y, reduction="none"))


def test_inputs_labels_and_targets_are_mixed_by_one_draw():
    method, state, run, batch = prepared(alpha=1.0, lam=3.0, lam_ramp=2.0)
    side = state.sides[0]
    seed = run.rng.get_state()
    losses = method.mixed_loss(side, batch, 1.0, run)
    run.rng.set_state(seed)
    mixed, weight, order = fn.mixup(batch.views[0], 1.0, run.rng)
    assert 0.5 < weight < 1
    logits = side.learner.net(mixed)
    labels = F.one_hot(batch.y, 3).float()
    labels = weight * labels + (1 - weight) * labels[order]
    t = side.targets[batch.index]
    q = weight * t + (1 - weight) * t[order]
    penalty = (1 - (logits.softmax(1) * q).sum(1)).log()
    ramped = 3.0 * math.exp(-5 * 0.25)  # half-way
    expected = F.cross_entropy(logits, labels, reduction="none") + ramped * penalty
    torch.testing.assert_close(losses, expected)


def test_agreement_of_labels_with_targets():
    method, state, run, batch = prepared(alpha=0.0, lam=0.0, agree=True)
    side = state.sides[0]
    # a label times its own target is the label again, so only mixed ones can show it
    one = method.mixed_loss(side, batch, 0.0, run)
    plain = F.cross_entropy(side.learner.net(batch.views[0]), batch.y, reduction="none")
    torch.testing.assert_close(one, plain)
    method, _, run, batch = prepared(alpha=8.0, lam=0.0, agree=True)
    seed = run.rng.get_state()
    losses = method.mixed_loss(side, batch, 0.0, run)
    run.rng.set_state(seed)
    mixed, weight, order = fn.mixup(batch.views[0], 8.0, run.rng)
    labels = fn.mix(F.one_hot(batch.y, 3).float(), weight, order)
    labels = labels * fn.mix(side.targets[batch.index], weight, order)
    labels = labels / labels.sum(1, keepdim=True)
    expected = F.cross_entropy(side.learner.net(mixed), labels, reduction="none")
    torch.testing.assert_close(losses, expected)


def test_each_network_learns_from_the_copy_of_the_other(monkeypatch):
    method, state, run, _ = prepared()
    used = []

    def note(self, targets, batch: Batch, average) -> None:
        used.append((targets is state.sides[0].targets, average is state.sides[1].average))

    monkeypatch.setattr(ELRPlus, "update", note)
    run.begin(0)
    method.train(state, run)
    assert used == [(True, True), (True, True), (False, False), (False, False)]


def test_it_learns_and_its_targets_find_wrong_labels():
    problem = blobs()
    method = ELRPlus(epochs=10, batch=16, lr=0.05, average_ramp=2.0)
    result = problem.train(method)
    last = result.history[-1]
    assert last["test_accuracy"] > 0.9
    assert last["error_auroc"] > 0.9
    assert last["disagree"] == pytest.approx(0.4, abs=0.06)
    first, second = (side.targets for side in result.state.sides)
    given = (first + second).gather(1, problem.task.y[:, None]).squeeze(1)
    torch.testing.assert_close(result.clean, given / (first + second).sum(1))


def test_time_passes_from_batch_to_batch(monkeypatch):
    method, state, run, _ = prepared(lam_ramp=4.0)
    loss, times = ELRPlus.mixed_loss, []

    def note(self, side, batch, elapsed: float, run):
        times.append(elapsed)
        return loss(self, side, batch, elapsed, run)

    monkeypatch.setattr(ELRPlus, "mixed_loss", note)
    for epoch in (0, 1):
        run.begin(epoch)
        method.fit(*state.sides, run)
    assert times == [0.0, 0.5, 1.0, 1.5]  # of two batches an epoch
