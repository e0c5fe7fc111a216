"""Cross-entropy, and the evidential loss in its place."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F

from labelproof import functional as fn
from labelproof.errors import BadInput
from labelproof.methods.ce import CrossEntropy
from tiny import blobs

LOGITS = torch.randn(8, 5, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
LABELS = torch.arange(8) % 5


def test_the_default_is_cross_entropy_on_a_softmax():
    method = CrossEntropy()
    expected = F.cross_entropy(LOGITS, LABELS, reduction="none")
    torch.testing.assert_close(method.objective.of_labels(LOGITS, LABELS), expected)
    torch.testing.assert_close(method.objective.probability(LOGITS), LOGITS.softmax(1))


def test_the_evidential_loss_as_a_plug_in():
    method = CrossEntropy(loss="edl", gamma_c=10.0, beta=0.5)
    alpha = 1 + LOGITS.exp() / 2  # γ = 10 / C = 2
    others = alpha.scatter(1, LABELS[:, None], 1.0)
    flat = torch.distributions.Dirichlet(torch.ones(5, dtype=torch.float64))
    kl = torch.distributions.kl_divergence(torch.distributions.Dirichlet(others), flat)
    given = alpha.gather(1, LABELS[:, None]).squeeze(1)
    expected = alpha.sum(1).log() - given.log() + 0.5 * kl / 5
    torch.testing.assert_close(method.objective.of_labels(LOGITS, LABELS), expected)
    torch.testing.assert_close(
        method.objective.probability(LOGITS), alpha / alpha.sum(1, keepdim=True)
    )


@pytest.mark.parametrize("loss", ["ce", "edl"])
def test_clean_probability_is_that_of_the_given_label(loss):
    problem = blobs()
    method = CrossEntropy(epochs=6, batch=32, lr=0.05, loss=loss)
    result = problem.train(method)
    given = result.probabilities.gather(1, problem.task.y[:, None]).squeeze(1)
    torch.testing.assert_close(result.clean, given)
    assert result.history[-1]["test_accuracy"] > 0.8
    assert result.history[-1]["error_auroc"] > 0.8


def test_calibrated_probabilities_reach_the_user():
    result = blobs().train(CrossEntropy(epochs=2, loss="edl"))
    x = result.task.views.plain(result.task.x.take(torch.arange(4)))
    with torch.no_grad():
        logits = result.state.learner.net(x)
    expected = fn.calibrated_softmax(logits, 10 / 3)
    torch.testing.assert_close(result.probabilities[:4], expected)


def test_unknown_loss_is_refused():
    with pytest.raises(BadInput, match="loss must be one of 'ce', 'edl'"):
        CrossEntropy(loss="mse")


def test_the_learning_rate_falls_to_a_tenth_half_way():
    problem, method = blobs(size=40), CrossEntropy(epochs=4, batch=16, lr=0.1)
    run = problem.run()
    state = method.setup(run)
    rates = []
    for epoch in range(4):
        run.begin(epoch)
        method.train(state, run)
        rates.append(state.learner.optimiser.param_groups[0]["lr"])
    assert rates == pytest.approx([0.1, 0.1, 0.01, 0.01])


def test_several_shares_of_the_epochs_lower_the_learning_rate():
    assert CrossEntropy(epochs=120).milestones() == (60,)
    assert CrossEntropy(epochs=120, decay_at=(1 / 3, 2 / 3)).milestones() == (40, 80)
    with pytest.raises(BadInput, match="decay_at"):
        CrossEntropy(decay_at=1.5)
