"""SOP+: the two terms it adds, and what moves what."""

from __future__ import annotations

import math

import pytest
import torch
import torch.nn.functional as F

from labelproof import functional as fn
from labelproof.methods.sop import START, SOPPlus
from tiny import blobs

WEAK, STRONG = torch.randn(2, 6, 4, generator=torch.Generator().manual_seed(0)).double()
BOTH = torch.cat([WEAK, STRONG])
LABELS = torch.tensor([0, 1, 2, 3, 0, 1])


def factors(u: float = START, v: float = START) -> tuple[torch.Tensor, torch.Tensor]:
    rows = torch.full((6, 1), u).double(), torch.full((6, 4), v).double()
    return rows[0].requires_grad_(), rows[1].requires_grad_()


def test_consistency_is_the_divergence_of_the_views():
    method = SOPPlus()
    p, q = WEAK.softmax(1), STRONG.softmax(1)
    expected = torch.distributions.kl_divergence(
        torch.distributions.Categorical(p), torch.distributions.Categorical(q)
    )
    torch.testing.assert_close(method.apart(WEAK, STRONG), expected)
    assert method.apart(WEAK, WEAK).abs().max() < 1e-12


def test_consistency_moves_the_strong_view_alone():
    weak, strong = WEAK.clone().requires_grad_(), STRONG.clone().requires_grad_()
    method = SOPPlus(balance=0.0)
    losses = method.losses(torch.cat([weak, strong]), LABELS, *factors())
    losses[2].backward()
    assert weak.grad.abs().max() == 0
    torch.testing.assert_close(strong.grad, 0.9 * (STRONG.softmax(1) - WEAK.softmax(1)) / 6)


def test_balance_is_least_when_the_batch_is_spread_evenly():
    even = torch.eye(4).double() * 9
    everything = torch.zeros(4, 4).double()
    everything[:, 0] = 9.0
    u, v = torch.full((4, 1), START).double(), torch.full((4, 4), START).double()
    labels = torch.arange(4)
    spread = SOPPlus().losses(even.repeat(2, 1), labels, u, v)[2].item()
    lumped = SOPPlus().losses(everything.repeat(2, 1), labels, u, v)[2].item()
    assert spread == pytest.approx(0.0, abs=1e-12)
    # λ_B (-Σ 1/C ln mean - ln C), with the mean of each other class near 1e-4
    mean = fn.with_noise(everything.softmax(1), *fn.label_noise(labels, u, v)).mean(0)
    assert lumped == pytest.approx(0.1 * (-mean.log().mean().item() - math.log(4)))
    assert lumped > 0.3


def test_losses_at_the_start():
    losses = SOPPlus().losses(BOTH, LABELS, *factors())
    torch.testing.assert_close(losses[0], F.cross_entropy(WEAK, LABELS), atol=1e-6, rtol=0)
    errors = (WEAK.argmax(1) != LABELS).double().mean()
    torch.testing.assert_close(losses[1], 2 * errors, atol=1e-12, rtol=0)


def test_balance_moves_u_and_never_v():
    u, v = factors(0.5, 0.4)
    SOPPlus().losses(BOTH, LABELS, u, v)[2].backward()
    assert u.grad.abs().sum() > 0
    assert v.grad is None


def test_evidential_loss_calibrates_every_term():
    method = SOPPlus(loss="edl")
    losses = method.losses(BOTH, LABELS, *factors())
    probs = fn.calibrated_softmax(WEAK, 2.5)
    given = probs.gather(1, LABELS[:, None])
    torch.testing.assert_close(losses[0], -given.log().mean(), atol=1e-6, rtol=0)
    torch.testing.assert_close(losses[4], 0.5 / 4 * fn.edl_kl(WEAK, LABELS, 2.5).mean())
    q = fn.calibrated_softmax(STRONG, 2.5)
    torch.testing.assert_close(losses[3], 0.9 * (probs * (probs / q).log()).sum(1).mean())


def test_noise_settles_on_wrong_labels():
    problem = blobs()
    method = SOPPlus(epochs=15, batch=32, lr=0.05, lr_u=20.0, lr_v=20.0)
    result = problem.train(method)
    assert result.history[-1]["test_accuracy"] > 0.9
    assert result.history[-1]["error_auroc"] > 0.9
    noise = method.noise(result.state, problem.run())
    wrong = problem.audit.truth != problem.task.y
    assert noise[wrong].mean() > 5 * noise[~wrong].mean()
