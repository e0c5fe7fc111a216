"""Evidential deep learning: risks against sampling, the divergence, the links, the annealing."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F

from labelproof import functional as fn
from labelproof.methods import edl
from labelproof.methods.edl import EDL
from labelproof.recipes.recipe import published
from tiny import blobs

LOGITS = 2 * torch.randn(6, 4, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
LABELS = torch.arange(6) % 4
LINKS = {
    "exp": lambda o: (o / 10).clamp(-10, 10).exp(),
    "softplus": F.softplus,
    "relu": torch.relu,
}


def dirichlet(method: EDL) -> torch.distributions.Dirichlet:
    return torch.distributions.Dirichlet(1 + LINKS[method.evidence](LOGITS))


@pytest.mark.parametrize("evidence", LINKS)
def test_evidence_and_mean(evidence):
    method = EDL(evidence=evidence)
    alpha = dirichlet(method).concentration
    torch.testing.assert_close(1 + method.log_evidence(LOGITS).exp(), alpha)
    torch.testing.assert_close(method.probability(LOGITS), dirichlet(method).mean)


@pytest.mark.parametrize("evidence", ["softplus", "relu"])
def test_no_evidence_is_full_uncertainty(evidence):
    nothing = torch.full((1, 4), -500.0)
    method = EDL(evidence=evidence)
    assert method.probability(nothing).tolist() == [[0.25] * 4]
    vacuity, _, _ = fn.dirichlet_uncertainty(method.log_evidence(nothing), gamma=1.0)
    assert vacuity.item() == 1.0


def test_expected_losses_by_sampling():
    method = EDL(evidence="softplus")
    torch.manual_seed(0)
    draws = dirichlet(method).sample((50_000,))  # (draws, B, C)
    z = method.log_evidence(LOGITS)
    target = F.one_hot(LABELS, 4)
    squared = (target - draws).square().sum(2).mean(0)
    torch.testing.assert_close(edl.squared_risk(z, LABELS), squared, rtol=0.01, atol=0)
    log_loss = -(target * draws.clamp(min=1e-300).log()).sum(2).mean(0)
    torch.testing.assert_close(edl.digamma_risk(z, LABELS), log_loss, rtol=0.02, atol=0)
    log_mean = -(target * draws.mean(0).log()).sum(1)
    torch.testing.assert_close(edl.log_risk(z, LABELS), log_mean, rtol=0.01, atol=0)
    # Jensen: the expected loss is above the loss of the expectation
    assert (edl.digamma_risk(z, LABELS) > edl.log_risk(z, LABELS)).all()


@pytest.mark.parametrize("evidence", LINKS)
def test_the_divergence_is_of_evidence_for_other_classes(evidence):
    method = EDL(evidence=evidence, risk="log")
    z = method.log_evidence(LOGITS)
    alpha = dirichlet(method).concentration.scatter(1, LABELS[:, None], 1.0)
    flat = torch.distributions.Dirichlet(torch.ones(4).double())
    kl = torch.distributions.kl_divergence(torch.distributions.Dirichlet(alpha), flat)
    torch.testing.assert_close(
        method.loss(z, LABELS, 0.3), edl.log_risk(z, LABELS) + 0.3 * kl, atol=1e-9, rtol=1e-7
    )


@pytest.mark.parametrize("evidence", LINKS)
@pytest.mark.parametrize("risk", ["squared", "log", "digamma"])
def test_slopes(evidence, risk):
    method = EDL(evidence=evidence, risk=risk)
    logits = LOGITS.clone().requires_grad_()
    assert torch.autograd.gradcheck(
        lambda o: method.loss(method.log_evidence(o), LABELS, 0.5), logits
    )


@pytest.mark.parametrize("evidence", LINKS)
def test_extreme_outputs_stay_finite(evidence):
    method = EDL(evidence=evidence)
    logits = torch.tensor([[1e4, -1e4, 0.0], [-1e4, -1e4, -1e4]], requires_grad=True)
    loss = method.loss(method.log_evidence(logits), torch.tensor([1, 0]), 1.0)
    loss.sum().backward()
    assert loss.isfinite().all()
    assert logits.grad.isfinite().all()


def test_the_loss_of_dpc_is_a_special_case():
    method = EDL(scale=1.0, risk="log")
    loss = method.loss(method.log_evidence(LOGITS), LABELS, 1.0)
    torch.testing.assert_close(loss, fn.edl_loss(LOGITS, LABELS, gamma=1.0, beta=4.0))


def test_the_divergence_is_annealed(monkeypatch):
    weights = []
    loss = EDL.loss

    def note(self, log_evidence, labels, weight):
        weights.append(weight)
        return loss(self, log_evidence, labels, weight)

    monkeypatch.setattr(EDL, "loss", note)
    blobs(size=64).train(EDL(epochs=4, batch=32, anneal=2.0, divergence=0.6))
    assert weights == pytest.approx([0.0, 0.15, 0.3, 0.45, 0.6, 0.6, 0.6, 0.6])


def test_adam_where_asked():
    state = published("edl", "mnist").setup(blobs(size=9).run())
    assert isinstance(state.learner.optimiser, torch.optim.Adam)
    assert state.learner.optimiser.param_groups[0]["weight_decay"] == 5e-3


@pytest.mark.parametrize("evidence", ["exp", "softplus"])  # relu can lose a whole class
def test_it_learns(evidence):
    method = EDL(epochs=10, batch=16, lr=0.05, evidence=evidence, scale=1.0, divergence=0.1)
    problem = blobs()
    result = problem.train(method)
    assert result.history[-1]["test_accuracy"] > 0.85
    assert result.history[-1]["error_auroc"] > 0.85
    given = result.probabilities.gather(1, problem.task.y[:, None]).squeeze(1)
    torch.testing.assert_close(result.clean, given)
