"""JPL: slopes against the closed forms, who is selected, and the turns of the later stages."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
import torch.nn.functional as F

from labelproof.errors import BadInput
from labelproof.methods.jpl import JPL, complements, log_other, negative_plus, positive_plus
from tiny import blobs

RNG = torch.Generator().manual_seed(0)
LOGITS = 2 * torch.randn(9, 5, generator=RNG, dtype=torch.float64)
LABELS = torch.arange(9) % 5
OTHERS = (LABELS + 2) % 5
METHOD = JPL(epochs=10, final=3, batch=16, lr=0.05, final_lr=0.05)


def slope(loss, *arguments):
    logits = LOGITS.clone().requires_grad_()
    loss(logits, *arguments).sum().backward()
    return logits.grad


def test_slope_of_the_negative_loss_is_the_closed_form():
    p = LOGITS.softmax(1)
    other = p.gather(1, OTHERS[:, None])
    expected = torch.where(F.one_hot(OTHERS, 5) > 0, other * (1 - other), -other * p)
    torch.testing.assert_close(slope(negative_plus, OTHERS[:, None]), expected)


def test_the_negative_loss_is_below_plain_negative_learning():
    plain = -(1 - LOGITS.softmax(1).gather(1, OTHERS[:, None]).squeeze(1)).log()
    assert (negative_plus(LOGITS, OTHERS[:, None]) <= plain).all()


@pytest.mark.parametrize("powers", [0, 1, 3])
def test_slope_of_the_positive_loss_is_one_less_a_power(powers):
    p = LOGITS.softmax(1).gather(1, LABELS[:, None]).squeeze(1)
    own = slope(positive_plus, LABELS, powers).gather(1, LABELS[:, None]).squeeze(1)
    torch.testing.assert_close(own, -(1 - p ** (2 ** (powers + 1))))


def test_one_less_a_probability_is_exact_where_it_nearly_is_nothing():
    logits = torch.tensor([[50.0, 0.0, 0.0], [800.0, 0.0, 0.0], [0.0, 0.0, 0.0]]).double()
    expected = torch.tensor([2.0, 2.0, 2 / 3]).double().log() - torch.tensor([50.0, 800.0, 0.0])
    torch.testing.assert_close(log_other(logits)[:, 0], expected)
    logits.requires_grad_()
    negative_plus(logits, torch.zeros(3, 1, dtype=torch.long)).sum().backward()
    assert logits.grad.isfinite().all()


def test_complements_are_uniform_over_the_others():
    drawn = complements(torch.full((40_000,), 2), 5, 3, torch.Generator().manual_seed(1))
    share = torch.bincount(drawn.flatten(), minlength=5) / drawn.numel()
    assert share[2] == 0
    expected = torch.tensor([0.25] * 4)
    torch.testing.assert_close(share[[0, 1, 3, 4]], expected, rtol=0, atol=0.01)


def test_who_gets_the_positive_loss():
    rows = torch.tensor([[0.6, *[0.4 / 9] * 9], [0.4, 0.35, *[0.25 / 8] * 8]])
    logits = rows.log().repeat(2000, 1)
    given = torch.zeros(4000, dtype=torch.long)
    chosen = METHOD.positives(logits, given, torch.Generator().manual_seed(0)).view(2000, 2)
    assert chosen[:, 0].mean().item() == pytest.approx(0.6, abs=0.04)
    assert chosen[:, 1].sum() == 0
    assert METHOD.positives(logits, given + 1, torch.Generator()).sum() == 0
    loose = replace(METHOD, agree=False)
    assert loose.positives(logits, given + 1, torch.Generator()).sum() > 0


def test_clean_is_the_mean_of_the_last_ten_epochs():
    run = blobs(size=20).run()
    state = METHOD.setup(run)
    state.history[:, :4] = torch.tensor([0.2, 0.4, 0.6, 0.9])
    state.history[3] = 0.1
    METHOD.sort_out(state, run)
    assert state.clean[0].item() == pytest.approx(0.525)
    assert state.kept[0]
    assert not state.kept[3]


def test_later_stages_learn_new_networks_on_clean_labels_and_then_on_all():
    run = blobs(size=60).run()
    state = METHOD.setup(run)
    before = state.learner
    state.kept[::3] = False
    METHOD.start_anew(state, run)
    assert state.learner is not before
    run.begin(4)
    METHOD.learn_clean(state, run)
    METHOD.relabel(state, run)
    given = F.one_hot(run.y, 3).float()
    assert torch.equal(state.targets[state.kept], given[state.kept])
    probs = run.predict(state.learner.net).softmax(1)
    torch.testing.assert_close(state.targets[~state.kept], probs[~state.kept])


def test_rates_of_a_later_stage():
    method = replace(METHOD, epochs=24, final=10)
    run = blobs(size=32).run()
    state = method.setup(run)
    rates = []
    for epoch in range(4, 14):
        run.begin(epoch)
        method.learn_clean(state, run)
        rates.append(state.learner.optimiser.param_groups[0]["lr"])
    assert rates == pytest.approx([0.05] * 4 + [0.005] * 2 + [0.0005] * 4)


def test_the_filter_tells_right_from_wrong_labels():
    problem = blobs(size=200)
    result = problem.train(replace(METHOD, epochs=8, final=0))
    wrong = problem.audit.truth != problem.task.y
    assert result.clean[~wrong].mean() > result.clean[wrong].mean() + 0.2


def test_stages_must_fit():
    with pytest.raises(BadInput, match="twice final"):
        JPL(epochs=10, final=5)


def test_clean_labels_of_every_class_have_the_same_weight(monkeypatch):
    run = blobs(size=60, noise=0.0).run()
    state = METHOD.setup(run)
    state.kept = torch.arange(60) < torch.where(run.y == 0, 60, 30)  # 20, 10 and 10 of a class
    seen = []
    monkeypatch.setattr(JPL, "epoch_on", lambda self, state, run, rows, w, first: seen.append(w))
    METHOD.learn_clean(state, run)
    assert seen[0].tolist() == pytest.approx([1.0, 2.0, 2.0])
    state.kept &= run.y != 2
    METHOD.learn_clean(state, run)
    assert seen[1].tolist() == pytest.approx([1.0, 2.0, 0.0])


def test_later_stages_learn_targets_by_weighted_cross_entropy(monkeypatch):
    problem = blobs(size=16)
    still = replace(problem.task.views, jitter=0.0)
    run = replace(problem, task=replace(problem.task, views=still)).run()
    state, losses = METHOD.setup(run), []
    state.targets = torch.rand(16, 3, generator=torch.Generator().manual_seed(0)).softmax(1)
    monkeypatch.setattr(type(run), "step", lambda self, learner, loss: losses.append(loss.item()))
    run.begin(4)
    METHOD.epoch_on(state, run, None, torch.tensor([1.0, 2.0, 5.0]), 4)
    each = F.cross_entropy(run.predict(state.learner.net), state.targets, reduction="none")
    weight = torch.tensor([1.0, 2.0, 5.0])[run.y]
    assert losses == pytest.approx([((weight * each).sum() / weight.sum()).item()], rel=1e-4)


def test_the_positive_loss_is_a_mean_over_the_batch_or_over_those_that_get_it(monkeypatch):
    run = blobs(size=16).run()
    state, parts = METHOD.setup(run), []
    monkeypatch.setattr(type(run), "step", lambda self, learner, *losses: parts.append(losses[1]))
    monkeypatch.setattr(JPL, "positives", lambda self, logits, given, rng: (given == 0).float())
    for over in ("batch", "chosen"):
        run.begin(0)
        replace(METHOD, batch=16, positive_over=over).filter(state, run)
    share = (run.y == 0).float().mean()
    assert 0 < share < 1
    torch.testing.assert_close(parts[0], parts[1] * share)
