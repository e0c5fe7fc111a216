"""Generalised cross-entropy: limits, slopes, bounds, and the turns of the truncated form."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st

from labelproof.errors import BadInput
from labelproof.methods.gce import GCE, generalised_cross_entropy
from labelproof.recipes.recipe import published
from tiny import blobs

LOGITS = torch.randn(12, 5, generator=torch.Generator().manual_seed(0), dtype=torch.float64) * 3
LABELS = torch.arange(12) % 5


def given_probability(logits: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
    return logits.softmax(1).gather(1, labels[:, None]).squeeze(1)


def test_the_formula():
    p = given_probability(LOGITS, LABELS)
    loss = generalised_cross_entropy(LOGITS, LABELS, 0.7)
    torch.testing.assert_close(loss, (1 - p**0.7) / 0.7)


def test_small_q_is_cross_entropy():
    loss = generalised_cross_entropy(LOGITS, LABELS, 1e-7)
    expected = F.cross_entropy(LOGITS, LABELS, reduction="none")
    torch.testing.assert_close(loss, expected, rtol=1e-5, atol=1e-5)


def test_q_of_one_is_half_the_absolute_error():
    loss = generalised_cross_entropy(LOGITS, LABELS, 1.0)
    absolute = (F.one_hot(LABELS, 5) - LOGITS.softmax(1)).abs().sum(1)
    torch.testing.assert_close(loss, absolute / 2)


def test_slope_is_that_of_cross_entropy_times_a_power_of_p():
    logits = LOGITS.clone().requires_grad_()
    generalised_cross_entropy(logits, LABELS, 0.7).sum().backward()
    p = LOGITS.softmax(1)
    expected = given_probability(LOGITS, LABELS)[:, None] ** 0.7 * (p - F.one_hot(LABELS, 5))
    torch.testing.assert_close(logits.grad, expected)


@settings(max_examples=50, deadline=None, derandomize=True)
@given(st.lists(st.floats(-20, 20), min_size=2, max_size=8), st.floats(0.01, 1.0))
def test_losses_of_all_labels_sum_within_the_bounds_of_noise_tolerance(row, q):
    c = len(row)
    logits = torch.tensor([row] * c, dtype=torch.float64)
    losses = generalised_cross_entropy(logits, torch.arange(c), q)
    assert losses.min() >= 0
    assert losses.max() <= 1 / q
    assert (c - c ** (1 - q)) / q - 1e-9 <= losses.sum() <= (c - 1) / q + 1e-9


def test_a_hopeless_label_gives_the_bound_and_a_finite_slope():
    logits = torch.tensor([[1e4, 0.0]], requires_grad=True)
    loss = generalised_cross_entropy(logits, torch.tensor([1]), 0.7)
    loss.sum().backward()
    assert loss.item() == pytest.approx(1 / 0.7)
    assert logits.grad.tolist() == [[0.0, 0.0]]


def test_loss_at_the_threshold():
    loss = generalised_cross_entropy(torch.zeros(1, 2), torch.tensor([0]), 0.7)
    assert loss.item() == pytest.approx(0.54918, abs=1e-5)


def test_pruning_keeps_what_the_network_believes_and_lowers_the_objective():
    problem = blobs()
    method = GCE(truncate=True)
    state = method.setup(run := problem.run())
    with torch.no_grad():  # spread the probabilities out
        state.learner.net.heads["label"].weight.mul_(8)
    logits = run.predict(state.learner.net)
    p = given_probability(logits, run.y)
    kept = method.prune(state.learner.net, run)
    assert torch.equal(kept, (p > 0.5).float())
    assert 0 < kept.sum() < len(kept)
    at_k = (1 - 0.5**0.7) / 0.7
    excess = generalised_cross_entropy(logits, run.y, 0.7) - at_k
    least = torch.minimum(excess, torch.zeros(())).sum()
    torch.testing.assert_close((kept * excess).sum(), least)


def test_k_of_zero_keeps_all_and_nothing_kept_means_all():
    run = blobs(size=30).run()
    for k in (0.0, 1.0):
        method = GCE(truncate=True, k=k)
        assert method.prune(method.setup(run).learner.net, run).tolist() == [1.0] * 30


def test_when_it_prunes():
    method = GCE(epochs=120, truncate=True)
    assert [e for e in range(120) if method.prunes(e)] == [40, 50, 60, 70, 80, 90, 100, 110]
    assert not any(GCE().prunes(e) for e in range(120))
    # the port counts from 1 and prunes at the start of its 40th, 50th ... epoch
    as_released = replace(published("gce", "cifar10-symmetric-0.5"), truncate=True)
    assert [e for e in range(120) if as_released.prunes(e)] == list(range(39, 120, 10))


def test_pruned_examples_have_no_pull():
    problem = blobs(size=32)
    method = GCE(truncate=True, weight_decay=0.0, momentum=0.0, batch=32, prune_from=1.0)
    moved = []
    for y in (problem.task.y, (problem.task.y + 1) % 3):  # other labels for the pruned half
        kept = (torch.arange(32) < 16).float()
        changed = problem.with_labels(torch.where(kept > 0, problem.task.y, y))
        state = method.setup(run := changed.run())
        with torch.random.fork_rng():
            torch.manual_seed(0)
            for parameter in state.learner.net.parameters():
                torch.nn.init.normal_(parameter, std=0.3)
        state.kept = kept
        run.begin(0)
        method.train(state, run)
        moved.append(torch.cat([p.flatten() for p in state.learner.net.parameters()]))
    assert torch.equal(*moved)


def test_held_out_labels_choose_the_network_that_prunes():
    problem = blobs(size=100)
    method = GCE(epochs=4, batch=16, lr=0.05, truncate=True, hold_out=0.2)
    state = method.setup(run := problem.run())
    assert len(state.fitted) == 80
    for epoch in range(2):
        run.begin(epoch)
        method.train(state, run)
    held = torch.ones(100, dtype=torch.bool)
    held[state.fitted] = False
    right = run.predict(state.best).argmax(1) == run.y
    assert right[held].float().mean().item() == pytest.approx(state.best_accuracy)
    assert state.best_accuracy > 0


@pytest.mark.parametrize("truncate", [False, True])
def test_it_learns_and_finds_wrong_labels(truncate):
    method = GCE(epochs=12, batch=16, lr=0.1, truncate=truncate, prune_every=2)
    last = blobs().train(method).history[-1]
    assert last["test_accuracy"] > 0.9
    assert last["error_auroc"] > 0.9
    assert 0.5 < last.get("kept", 0.6) < 0.75  # 60% of the labels are right


def test_settings():
    with pytest.raises(BadInput, match="q must be a number above 0 to 1"):
        GCE(q=0.0)
