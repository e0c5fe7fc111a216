"""Early-learning regularisation: running targets, the combined slope, finding wrong labels."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F

from labelproof.methods.elr import ELR
from labelproof.recipes.recipe import published
from tiny import blobs

LOGITS = torch.randn(6, 4, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
LABELS = torch.arange(6) % 4
NOTHING = torch.zeros(6, 4, dtype=torch.float64)


def test_without_weight_it_is_cross_entropy():
    targets = LOGITS.flip(0).softmax(1)
    loss = ELR(lam=0.0).loss(LOGITS, LABELS, targets)
    torch.testing.assert_close(loss, F.cross_entropy(LOGITS, LABELS, reduction="none"))


def test_targets_grow_to_distributions():
    method, targets = ELR(beta=0.7), NOTHING
    for k in range(1, 6):
        targets = method.update(targets, LOGITS)
        torch.testing.assert_close(targets.sum(1), torch.full((6,), 1 - 0.7**k).double())
    torch.testing.assert_close(ELR(beta=0.0).update(targets, LOGITS), LOGITS.softmax(1))
    assert torch.equal(ELR(beta=1.0).update(targets, LOGITS), targets)


def test_the_update_comes_before_the_loss():
    problem = blobs(size=32)
    method = ELR(batch=32, beta=0.7, lam=3.0, lr=1e-9)
    state = method.setup(run := problem.run())
    run.begin(0)
    method.train(state, run)
    run.begin(0)
    x = next(iter(run.batches(32)))
    with torch.no_grad():
        logits = state.learner.net(x.views[0])
    p = logits.softmax(1)
    torch.testing.assert_close(state.targets[x.index], 0.3 * p)
    cross_entropy = F.cross_entropy(logits, x.y)
    expected = cross_entropy + 3 * (1 - 0.3 * p.square().sum(1)).log().mean()
    run.begin(0)
    state.targets.zero_()
    method.train(state, run)
    assert run.mean_loss() == pytest.approx(expected.item(), abs=1e-5)


def test_a_target_on_another_class_takes_the_pull_of_the_given_label_away():
    pulls = []
    for share in (0.0, 0.5, 0.9):  # of t on class 1, while the given label is 0
        logits = torch.tensor([[0.0, 2.0, 0.0]], requires_grad=True)
        targets = torch.tensor([[0.0, share, 0.0]])
        ELR(lam=3.0).loss(logits, torch.tensor([0]), targets).sum().backward()
        pulls.append(logits.grad[0])
    assert pulls[0][1] > pulls[1][1] > pulls[2][1]  # ever more in favour of class 1
    assert pulls[0][0] < 0  # cross-entropy alone pulls the given label up,
    assert pulls[2][1] < 0  # with a sure target the right one rises instead


def test_learning_rates():
    method = ELR()
    rates = [method.learning_rate(e) for e in (0, 5, 9, 10, 15)]
    assert rates[0] == rates[3] == pytest.approx(0.02)
    assert rates[1] == rates[4] == pytest.approx((0.02 + 0.001) / 2)
    assert 0.001 < rates[2] < 0.002
    steps = published("elr", "cifar10-asymmetric-0.4")
    assert [steps.learning_rate(e) for e in (39, 40, 79, 80)] == pytest.approx(
        [0.02, 2e-4, 2e-4, 2e-6]
    )


def test_it_learns_and_its_targets_find_wrong_labels():
    problem = blobs()
    result = problem.train(ELR(epochs=12, batch=16, lr=0.05, cycle=12))
    last = result.history[-1]
    assert last["test_accuracy"] > 0.9
    assert last["error_auroc"] > 0.9
    assert last["disagree"] == pytest.approx(0.4, abs=0.05)
    assert (result.clean >= 0).all()
    assert (result.clean <= 1).all()


def test_an_example_outside_every_batch_counts_as_clean():
    problem = blobs(size=33)
    result = problem.train(ELR(epochs=1, batch=32))
    assert (result.state.targets.sum(1) == 0).sum() == 1
    assert result.clean[result.state.targets.sum(1) == 0].item() == 1.0
