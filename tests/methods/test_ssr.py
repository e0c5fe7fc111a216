"""SSR: relabelling, balanced votes and sampling, and the consistency loss, each by hand."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
import torch.nn.functional as F

from labelproof.functional.contrast import label_votes, nearest_by_angle
from labelproof.methods.ssr import SSR, Chosen, balanced, balanced_votes, compared
from labelproof.recipes.recipe import is_ours, published
from tiny import blobs

METHOD = SSR(epochs=4, batch=16, lr=0.05, neighbours=10)


def test_votes_are_divided_by_class_frequency():
    votes = torch.tensor([[0.6, 0.4], [0.5, 0.5]])
    labels = torch.tensor([0, 0, 0, 1])
    weighted = torch.tensor([[0.6 / 0.75, 0.4 / 0.25], [0.5 / 0.75, 0.5 / 0.25]])
    expected = weighted / weighted.sum(1, keepdim=True)
    torch.testing.assert_close(balanced_votes(votes, labels), expected)


def test_every_class_is_as_often_as_the_largest():
    labels = torch.tensor([0] * 7 + [1] * 3 + [2] * 2)
    selected = torch.ones(12, dtype=torch.bool)
    selected[0] = selected[11] = False
    rows = balanced(labels, selected, torch.Generator().manual_seed(0))
    assert torch.bincount(labels[rows]).tolist() == [6, 6, 6]
    assert selected[rows].all()
    assert set(rows[labels[rows] == 0].tolist()) == set(range(1, 7))


def chosen_by_hand(method, state, run):
    """Labels and selection from the definitions."""
    net = state.learner.net.eval()
    with torch.no_grad():
        features = run.features(net)
        probs = net.head("label", features).softmax(1)
    top, predicted = probs.max(1)
    labels = run.y.clone()
    labels[top > method.relabel_above] = predicted[top > method.relabel_above]
    near = nearest_by_angle(features, method.neighbours, with_self=True)
    votes = balanced_votes(label_votes(labels, near, 3), labels)
    own = votes.gather(1, labels[:, None]).squeeze(1)
    return labels, own >= votes.max(1).values


def test_an_epoch_starts_from_the_given_labels_and_keeps_what_neighbours_confirm():
    run = blobs(size=90).run()
    method = replace(METHOD, relabel_above=0.6)
    state = method.setup(run)
    for epoch in range(2):
        run.begin(epoch)
        method.train(state, run)
    labels, selected = chosen_by_hand(method, state, run)
    chosen = method.choose(state, run)
    assert torch.equal(chosen.labels, labels)
    assert torch.equal(chosen.selected, selected)
    assert (labels != run.y).any()
    never = replace(method, relabel_above=1.0).choose(state, run)
    assert torch.equal(never.labels, run.y)


def test_consistency_compares_the_strong_prediction_with_the_weak_projection():
    run = blobs(size=16).run()
    state = METHOD.setup(run)
    net = state.learner.net.eval()
    (u,) = run.batches(16, views=("weak", "strong"))
    head = net.heads["compare"]
    z = head.project(net.trunk(u.views[0]))
    p = head.predict(head.project(net.trunk(u.views[1])))
    loss = compared(state.learner, u)
    expected = -(F.normalize(p, dim=1) * F.normalize(z, dim=1)).sum(1).mean()
    torch.testing.assert_close(loss, expected)
    assert z.shape[1] == METHOD.width == 128
    loss.backward()
    weak_only = torch.autograd.grad(expected, head.predict[3].weight)[0]
    torch.testing.assert_close(head.predict[3].weight.grad, weak_only)


def test_without_consistency_there_is_one_head():
    state = replace(METHOD, consistency=0.0).setup(blobs(size=20).run())
    assert list(state.learner.net.heads) == ["label"]


def test_webvision_has_the_released_settings():
    method = published("ssr", "webvision")
    assert not is_ours("ssr", "webvision")
    rates = [method.learning_rate(epoch) for epoch in (0, 49, 50, 99, 100, 149)]
    assert rates == pytest.approx([0.01, 0.01, 1e-3, 1e-3, 1e-4, 1e-4])
    assert (method.epochs, method.batch, method.weight_decay) == (150, 32, 1e-4)
    assert (method.relabel_above, method.alpha, method.width) == (0.95, 0.5, 256)
    head = method.setup(blobs(size=20).run()).learner.net.heads["compare"]
    assert (head.project[3].out_features, head.predict[3].out_features) == (256, 256)


def test_the_learning_rate_ends_at_a_fiftieth():
    run = blobs(size=32).run()
    state = METHOD.setup(run)
    rates = []
    for epoch in range(4):
        run.begin(epoch)
        METHOD.train(state, run)
        rates.append(state.learner.optimiser.param_groups[0]["lr"])
    assert rates[0] == pytest.approx(0.05)
    assert rates[2] == pytest.approx(0.001 + 0.049 / 2)


def test_confirmed_labels_are_neither_changed_nor_left_out():
    problem = blobs(size=60)
    wrong = problem.audit.truth != problem.task.y
    run = replace(problem, task=replace(problem.task, fixed=wrong)).run()
    method = replace(METHOD, relabel_above=0.0)
    chosen = method.choose(method.setup(run), run)
    assert torch.equal(chosen.labels[wrong], run.y[wrong])
    assert chosen.selected[wrong].all()


def test_an_epoch_has_as_many_steps_as_there_are_batches_however_few_are_selected(monkeypatch):
    run = blobs(size=96).run()
    state = METHOD.setup(run)
    few = torch.arange(96) < 18
    monkeypatch.setattr(SSR, "choose", lambda *_, **__: Chosen(run.y, few, torch.ones(96)))
    steps = []
    monkeypatch.setattr(type(run), "step", lambda self, *losses: steps.append(losses))
    run.begin(0)
    METHOD.train(state, run)
    assert len(steps) == 96 // 16
