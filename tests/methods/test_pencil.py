"""PENCIL: losses and label gradients against closed forms, and what each stage may change."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
import torch.nn.functional as F

from labelproof.errors import BadInput
from labelproof.methods.pencil import PENCIL, correction, entropy
from tiny import blobs

RNG = torch.Generator().manual_seed(0)
LOGITS = 3 * torch.randn(7, 4, generator=RNG, dtype=torch.float64)
ROWS = 3 * torch.randn(7, 4, generator=RNG, dtype=torch.float64)
GIVEN = torch.arange(7) % 4
METHOD = PENCIL(epochs=6, warmup=2, joint=2, batch=16, lr=0.05, last_lr=0.05, label_lr=1600.0)


def test_correction_is_the_divergence_of_the_prediction_from_the_label():
    expected = F.kl_div(ROWS.log_softmax(1), LOGITS.softmax(1), reduction="none").sum(1)
    torch.testing.assert_close(correction(LOGITS, ROWS), expected)
    assert not torch.allclose(correction(LOGITS, ROWS), correction(ROWS, LOGITS))


def test_entropy():
    expected = torch.distributions.Categorical(logits=LOGITS).entropy()
    torch.testing.assert_close(entropy(LOGITS), expected)


@pytest.mark.parametrize(("alpha", "beta"), [(0.4, 0.1), (0.0, 0.5), (0.7, 0.0)])
def test_slope_of_the_labels_is_the_closed_form(alpha, beta):
    rows = ROWS.clone().requires_grad_()
    torch.stack(
        replace(METHOD, alpha=alpha, beta=beta).losses(LOGITS, rows, GIVEN)
    ).sum().backward()
    distribution, given = ROWS.softmax(1), F.one_hot(GIVEN, 4)
    towards = (distribution - LOGITS.softmax(1)) / 4 + alpha * (distribution - given)
    torch.testing.assert_close(rows.grad, towards / 7)


def test_losses_by_hand():
    first, second, third = METHOD.losses(LOGITS, ROWS, GIVEN)
    assert first.item() == pytest.approx(correction(LOGITS, ROWS).mean().item() / 4)
    assert second.item() == pytest.approx(0.4 * F.cross_entropy(ROWS, GIVEN).item())
    assert third.item() == pytest.approx(0.1 * entropy(LOGITS).mean().item() / 4)


def test_the_released_second_softmax_bounds_the_pull_to_the_given_label():
    far = torch.tensor([[-50.0, 50.0]])
    released = replace(METHOD, double_softmax=True).losses(far, far, torch.tensor([0]))[1]
    assert released.item() == pytest.approx(
        0.4 * F.cross_entropy(far.softmax(1), torch.tensor([0]))
    )
    assert METHOD.losses(far, far, torch.tensor([0]))[1].item() == pytest.approx(0.4 * 100)


def trained(method, stages):
    """The state after so many stages of a plan."""
    run = blobs(size=64).run()
    state = method.setup(run)
    epoch = 0
    for phase in method.plan()[:stages]:
        for _ in range(phase.epochs):
            run.begin(epoch)
            phase.epoch(state, run)
            epoch += 1
        if phase.leave:
            phase.leave(state, run)
    return state, run


def test_labels_start_nearly_certain_and_change_in_the_second_stage_alone():
    first, run = trained(METHOD, 1)
    start = 10 * F.one_hot(run.y, 3).float()
    assert torch.equal(first.labels, start)
    assert (start.softmax(1).max(1).values > 0.999).all()
    second, _ = trained(METHOD, 2)
    assert not torch.equal(second.labels, start)
    third, _ = trained(METHOD, 3)
    assert torch.equal(third.labels, second.labels)


def test_a_huge_step_takes_the_prediction_at_once():
    method = replace(METHOD, joint=1, epochs=5, label_lr=1e6, alpha=0.0)
    state, run = trained(method, 2)
    moved = (state.labels - 10 * F.one_hot(run.y, 3)).abs().amax(1) > 1
    assert moved.float().mean() > 0.9


def test_the_last_stage_never_stands_still():
    method = replace(METHOD, epochs=13, joint=2)
    run = blobs(size=32).run()
    state = method.setup(run)
    rates = []
    for epoch in range(4, 13):
        run.begin(epoch)
        method.fine_tune(state, run)
        rates.append(state.learner.optimiser.param_groups[0]["lr"])
    assert rates == pytest.approx([0.05] * 3 + [0.005] * 3 + [0.0005] * 3)


def test_confirmed_labels_keep_their_distribution():
    problem = blobs(size=64)
    wrong = problem.audit.truth != problem.task.y
    problem = replace(problem, task=replace(problem.task, fixed=wrong))
    state = problem.train(METHOD).state
    start = 10 * F.one_hot(problem.task.y, 3).float()
    assert torch.equal(state.labels[wrong], start[wrong])


def test_stages_must_fit():
    with pytest.raises(BadInput, match="must fit into epochs"):
        PENCIL(epochs=10, warmup=6, joint=5)
    assert PENCIL(epochs=10, warmup=6, joint=4).plan()[2].epochs == 0  # nothing to fine-tune
