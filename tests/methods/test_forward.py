"""Forward correction: its loss, its minimiser, and its two networks."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F

from labelproof.errors import BadInput
from labelproof.methods.loss_correction import Forward, forward_loss
from tiny import blobs

T = torch.tensor([[0.7, 0.2, 0.1], [0.0, 0.9, 0.1], [0.3, 0.0, 0.7]], dtype=torch.float64)
LOGITS = torch.randn(6, 3, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
LABELS = torch.arange(6) % 3
LOPSIDED = (0.6, 0.4, 0.0, 0.0, 0.6, 0.4, 0.4, 0.0, 0.6)


def corrupted(size: int = 240):
    """Blobs whose labels move on to the next class as `LOPSIDED` says."""
    problem = blobs(size=size)
    truth, rng = problem.audit.truth, torch.Generator().manual_seed(1)
    moves = torch.rand(size, generator=rng) < 0.4
    return problem.with_labels(torch.where(moves, (truth + 1) % 3, truth))


def test_without_noise_it_is_cross_entropy():
    loss = forward_loss(LOGITS, LABELS, torch.eye(3).double())
    expected = F.cross_entropy(LOGITS, LABELS, reduction="none")
    torch.testing.assert_close(loss, expected, atol=1e-9, rtol=0)


def test_the_formula_and_its_slope():
    loss = forward_loss(LOGITS, LABELS, T)
    expected = -(LOGITS.softmax(1) @ T)[torch.arange(6), LABELS].log()
    torch.testing.assert_close(loss, expected)
    logits = LOGITS.clone().requires_grad_()
    assert torch.autograd.gradcheck(lambda z: forward_loss(z, LABELS, T), logits)


def test_its_minimiser_is_the_true_posterior():
    truth = torch.tensor([[0.6, 0.3, 0.1]], dtype=torch.float64)
    given = truth @ T  # how often each label is seen
    logits = torch.zeros(1, 3, dtype=torch.float64, requires_grad=True)
    optimiser = torch.optim.LBFGS([logits], max_iter=200, tolerance_grad=1e-10)

    def risk() -> torch.Tensor:
        optimiser.zero_grad()
        total = (given.squeeze(0) * forward_loss(logits.expand(3, 3), torch.arange(3), T)).sum()
        total.backward()
        return total

    optimiser.step(risk)
    torch.testing.assert_close(logits.detach().softmax(1), truth, atol=1e-4, rtol=0)


def test_it_undoes_lopsided_noise_and_knows_its_matrix():
    problem = corrupted()
    result = problem.train(Forward(epochs=30, batch=16, lr=0.02, weight_decay=5e-3))
    assert result.history[-1]["test_accuracy"] > 0.85
    assert result.history[-1]["error_auroc"] > 0.85
    matrix = result.state.transition
    expected = torch.tensor(LOPSIDED).reshape(3, 3)
    assert (matrix - expected).abs().max() < 0.25
    assert matrix[0, 1] > matrix[1, 0] + 0.1  # rows are true classes, columns given labels


def test_a_declared_matrix_is_used_as_it_is():
    problem = corrupted()
    method = Forward(epochs=10, batch=16, lr=0.05, transition=LOPSIDED, clean_by="bayes")
    result = problem.train(method)
    assert [line["phase"] for line in result.history] == ["train"] * 10
    assert result.state.transition.flatten().tolist() == pytest.approx(LOPSIDED)
    assert result.history[-1]["test_accuracy"] > 0.9
    assert result.history[-1]["error_auroc"] > 0.9
    given = problem.task.y
    p = result.probabilities
    joint = p.gather(1, given[:, None]).squeeze(1) * 0.6
    total = (p @ torch.tensor(LOPSIDED).reshape(3, 3)).gather(1, given[:, None]).squeeze(1)
    torch.testing.assert_close(result.clean, joint / total)


def test_held_out_labels_choose_the_epoch_that_estimates():
    method = Forward(epochs=8, batch=16, lr=0.05)
    problem = corrupted(size=100)
    state = method.setup(run := problem.run())
    losses = []
    for epoch in range(4):
        run.begin(epoch)
        method.fit_given(state, run)
        held = run.predict(state.first.net)[state.held]
        losses.append(F.cross_entropy(held, run.y[state.held]).item())
    assert len(state.held) == 10
    assert state.best_loss == pytest.approx(min(losses))


def test_the_second_network_starts_anew():
    method = Forward(epochs=4, batch=16)
    state = method.setup(run := corrupted(size=40).run())
    weights = torch.nn.utils.parameters_to_vector
    first, second = weights(state.first.net.parameters()), weights(state.learner.net.parameters())
    run.begin(0)
    method.fit_given(state, run)
    assert not torch.equal(first, weights(state.first.net.parameters()))
    assert torch.equal(second, weights(state.learner.net.parameters()))


def test_settings():
    assert Forward(epochs=2).estimation == 1
    assert Forward(epochs=240).estimation == 120
    with pytest.raises(BadInput, match="at least 2"):
        Forward(epochs=1)
    with pytest.raises(BadInput, match="3 x 3 numbers"):
        Forward(transition=(1.0, 0.0, 0.0, 1.0)).setup(blobs(size=9).run())


def test_without_held_out_labels_the_last_epoch_estimates():
    method = Forward(epochs=8, batch=16, lr=0.05, hold_out=0.0)
    state = method.setup(run := corrupted(size=100).run())
    for epoch in range(3):
        run.begin(epoch)
        method.fit_given(state, run)
    assert len(state.held) == 0
    for name, value in state.best.state_dict().items():
        assert torch.equal(value, state.first.net.state_dict()[name])
