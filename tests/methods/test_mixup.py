"""mixup: its loss, its limits, and what mixing does to memorising."""

from __future__ import annotations

import math

import pytest
import torch
import torch.nn.functional as F

from labelproof import functional as fn
from labelproof.methods.ce import CrossEntropy
from labelproof.methods.mixup import Mixup
from tiny import blobs


def rng(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


LOGITS = torch.randn(6, 4, generator=rng(), dtype=torch.float64)
LABELS = torch.arange(6) % 4
ORDER = torch.tensor([3, 0, 5, 1, 2, 4])


def test_two_terms_equal_the_soft_target():
    soft = fn.mix(F.one_hot(LABELS, 4).double(), 0.7, ORDER)
    expected = F.cross_entropy(LOGITS, soft, reduction="none")
    torch.testing.assert_close(Mixup().mixed_loss(LOGITS, LABELS, 0.7, ORDER), expected)


def test_gradient_is_probability_less_soft_target():
    logits = LOGITS.clone().requires_grad_()
    Mixup().mixed_loss(logits, LABELS, 0.7, ORDER).sum().backward()
    soft = fn.mix(F.one_hot(LABELS, 4).double(), 0.7, ORDER)
    torch.testing.assert_close(logits.grad, LOGITS.softmax(1) - soft)


def test_least_loss_of_a_mixed_pair_is_the_entropy_of_the_weight():
    logits = torch.tensor([[math.log(0.7), math.log(0.3), -40.0]] * 2, dtype=torch.float64)
    loss = Mixup().mixed_loss(logits, torch.tensor([0, 1]), 0.7, torch.tensor([1, 0]))
    entropy = -0.7 * math.log(0.7) - 0.3 * math.log(0.3)
    assert loss[0].item() == pytest.approx(entropy)


def test_small_and_large_weights_are_the_same_draw():
    # why max(λ, 1 - λ) changes nothing: the other order of each pair, by the inverse permutation
    net = torch.nn.Linear(3, 4).double()
    x = torch.randn(6, 3, generator=rng(1), dtype=torch.float64)
    inverse = ORDER.argsort()
    once = Mixup().mixed_loss(net(fn.mix(x, 0.3, ORDER)), LABELS, 0.3, ORDER).mean()
    again = Mixup().mixed_loss(net(fn.mix(x, 0.7, inverse)), LABELS, 0.7, inverse).mean()
    torch.testing.assert_close(once, again)


def test_evidential_loss_of_both_labels():
    method = Mixup(loss="edl", gamma_c=10.0, beta=0.5)
    expected = 0.6 * fn.edl_loss(LOGITS, LABELS, 2.5, 0.5)
    expected += 0.4 * fn.edl_loss(LOGITS, LABELS[ORDER], 2.5, 0.5)
    torch.testing.assert_close(method.mixed_loss(LOGITS, LABELS, 0.6, ORDER), expected)
    torch.testing.assert_close(
        method.objective.probability(LOGITS), fn.calibrated_softmax(LOGITS, 2.5)
    )


def test_without_mixing_it_is_cross_entropy():
    loss = Mixup(alpha=0.0).mixed_loss(LOGITS, LABELS, 1.0, ORDER)
    torch.testing.assert_close(loss, F.cross_entropy(LOGITS, LABELS, reduction="none"))
    assert fn.mixup(LOGITS, 0.0, rng()).mixed.equal(LOGITS)


def test_it_memorises_less_than_cross_entropy():
    problem = blobs(size=120)
    settings = {"epochs": 25, "batch": 16, "lr": 0.1, "weight_decay": 0.0}
    plain = problem.train(CrossEntropy(**settings))
    mixed = problem.train(Mixup(**settings, decay_at=(0.5,), alpha=8.0))
    fitted = [(r.probabilities.argmax(1) == problem.task.y).float().mean() for r in (plain, mixed)]
    assert fitted[1] < fitted[0]
    assert mixed.history[-1]["test_accuracy"] >= plain.history[-1]["test_accuracy"]
    assert mixed.history[-1]["error_auroc"] > 0.9


def test_learning_rate_falls_at_both_milestones():
    problem = blobs(size=30)
    state = (method := Mixup(epochs=4, lr=0.1)).setup(run := problem.run())
    rates = []
    for epoch in range(4):
        run.begin(epoch)
        method.train(state, run)
        rates.append(state.learner.optimiser.param_groups[0]["lr"])
    assert rates == pytest.approx([0.1, 0.1, 0.01, 0.001])
