"""SAT: targets, weights and slopes against their definitions."""

from __future__ import annotations

from dataclasses import replace

import torch
import torch.nn.functional as F

from labelproof.methods.sat import SAT
from tiny import blobs

RNG = torch.Generator().manual_seed(0)
LOGITS = 2 * torch.randn(6, 4, generator=RNG, dtype=torch.float64)
TARGETS = torch.randn(6, 4, generator=RNG, dtype=torch.float64).softmax(1)
METHOD = SAT(epochs=6, warmup=2, batch=16, lr=0.05)


def test_slope_is_the_weighted_difference_of_prediction_and_target():
    logits = LOGITS.clone().requires_grad_()
    METHOD.loss(logits, TARGETS).backward()
    weights = TARGETS.max(1).values
    weights = weights * 6 / weights.sum()
    expected = weights[:, None] * (LOGITS.softmax(1) - TARGETS) / 6
    torch.testing.assert_close(logits.grad, expected)


def test_hard_targets_are_cross_entropy():
    labels = torch.arange(6) % 4
    loss = METHOD.loss(LOGITS, F.one_hot(labels, 4).double())
    torch.testing.assert_close(loss, F.cross_entropy(LOGITS, labels))


def test_reverse_cross_entropy_is_finite_for_hard_targets():
    labels = torch.arange(6) % 4
    given = F.one_hot(labels, 4).double()
    loss = replace(METHOD, reverse=0.3).loss(LOGITS, given)
    reverse = -(LOGITS.softmax(1) * given.clamp(min=1e-4).log()).sum(1).mean()
    torch.testing.assert_close(loss, F.cross_entropy(LOGITS, labels) + 0.3 * reverse)


def epochs(method, count, size=40):
    run = blobs(size=size).run()
    state = method.setup(run)
    for epoch in range(count):
        run.begin(epoch)
        (method.warm_up if epoch < method.warmup else method.adapt)(state, run)
    return state, run


def test_targets_stay_in_the_warm_up_and_move_by_a_tenth_after_it():
    state, run = epochs(METHOD, 2)
    given = F.one_hot(run.y, 3).float()
    assert torch.equal(state.targets, given)
    state, run = epochs(METHOD, 3)
    torch.testing.assert_close(state.targets.sum(1), torch.ones(40))
    moved = (state.targets - given).abs().sum(1) > 0
    assert moved.sum() == 32  # two whole batches of 16; the rest sat out
    own = state.targets.gather(1, run.y[:, None]).squeeze(1)
    assert (own >= 0.9).all()


def test_a_contradicted_label_falls_after_seven_visits():
    target, keep = torch.tensor([1.0, 0.0]), 0.9
    visits = 0
    while target.argmax() == 0:
        target = keep * target + (1 - keep) * torch.tensor([0.0, 1.0])
        visits += 1
    assert visits == 7


def test_keeping_all_is_plain_training():
    state, run = epochs(replace(METHOD, keep=1.0), 5)
    assert torch.equal(state.targets, F.one_hot(run.y, 3).float())
