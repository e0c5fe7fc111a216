"""CORES: regulariser, sieve, schedules and prior in closed form; CORES*: what flows where."""

from __future__ import annotations

import copy
from dataclasses import replace

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from labelproof.errors import BadInput
from labelproof.methods.cores import (
    CORES,
    frequencies,
    regularised_loss,
    sieve_score,
)
from labelproof.recipes.recipe import published, published_names
from labelproof.training.batches import Batch
from labelproof.training.learner import Learner
from tiny import Interrupting, blobs, interrupted, patterns, same_bits

TINY = CORES(epochs=8, batch=16, lr=0.1, beta=1.0, beta_from=2, beta_full=5, sieve_from=4)
STAR = replace(TINY, epochs=12, consistency=4, labelled=16, others=8, consistency_lr=0.05)
Y = torch.tensor([0, 1, 2, 3, 3])


def logits_of(rows: int = 5, classes: int = 4) -> Tensor:
    rng = torch.Generator().manual_seed(0)
    return 3 * torch.randn(rows, classes, generator=rng, dtype=torch.float64)


def test_without_the_regulariser_it_is_cross_entropy():
    prior = torch.full((4,), 0.25, dtype=torch.float64)
    loss = regularised_loss(logits_of(), Y, prior, beta=0.0)
    torch.testing.assert_close(loss, F.cross_entropy(logits_of(), Y, reduction="none"))


def test_the_regulariser_is_the_expected_cross_entropy():
    logits, prior = logits_of(), torch.tensor([0.1, 0.2, 0.3, 0.4], dtype=torch.float64)
    each = torch.stack(
        [F.cross_entropy(logits, torch.full((5,), c), reduction="none") for c in range(4)]
    )
    expected = F.cross_entropy(logits, Y, reduction="none") - 2.0 * prior @ each
    torch.testing.assert_close(regularised_loss(logits, Y, prior, beta=2.0), expected)
    floored = regularised_loss(logits, Y, prior, beta=2.0, floor=1e-8)
    torch.testing.assert_close(floored, expected, rtol=0, atol=1e-4)


@pytest.mark.parametrize("beta", [0.5, 1.0, 2.0])
def test_gradient_in_closed_form(beta):
    logits, prior = logits_of().requires_grad_(), torch.tensor([0.1, 0.2, 0.3, 0.4]).double()
    regularised_loss(logits, Y, prior, beta).sum().backward()
    probs, given = logits.detach().softmax(1), F.one_hot(Y, 4).double()
    torch.testing.assert_close(logits.grad, (probs - given) - beta * (probs - prior))


def test_the_floor_bounds_the_reward_of_confidence():
    sure = torch.tensor([[300.0, 0.0]], dtype=torch.float64)
    prior = torch.tensor([0.5, 0.5], dtype=torch.float64)
    loss = regularised_loss(sure, torch.tensor([0]), prior, beta=2.0, floor=1e-8)
    assert loss.item() == pytest.approx(-18.42, abs=0.01)


def test_the_score_is_the_mean_logit_less_the_given_one():
    logits = logits_of()
    by_hand = logits.mean(1) - logits[torch.arange(5), Y]
    torch.testing.assert_close(sieve_score(logits, Y), by_hand)
    torch.testing.assert_close(sieve_score(logits + 7.0, Y), by_hand)
    torch.testing.assert_close(sieve_score(logits, Y, floor=1e-8), by_hand, rtol=0, atol=1e-4)


def test_the_sieve_is_the_geometric_mean_of_the_probabilities():
    probs = logits_of().softmax(1)
    geometric = probs.prod(1) ** 0.25
    kept = sieve_score(probs.log(), Y) <= 0
    assert torch.equal(kept, probs[torch.arange(5), Y] >= geometric)
    flat = torch.zeros(1, 4, dtype=torch.float64)
    assert sieve_score(flat, torch.tensor([2])).item() == pytest.approx(0.0, abs=1e-15)


def test_the_floor_makes_the_sieve_finer_for_sure_predictions():
    logits = torch.tensor([[40.0, 5.0, -60.0]], dtype=torch.float64)
    second = torch.tensor([1])
    assert sieve_score(logits, second) < 0
    assert sieve_score(logits, second, floor=1e-8) > 0


def test_published_schedules():
    method = CORES()
    assert [method.beta_at(e) for e in (0, 9, 10, 39, 40, 99)] == [0, 0, 0, 2, 2, 2]
    assert method.beta_at(25) == pytest.approx(2 * 15 / 29)
    rates = [method.learning_rate(epoch) for epoch in (0, 45, 60)]
    assert rates == pytest.approx([0.1, 0.1 / 3, 0.01 / 3])


def test_published_schedule_of_the_second_phase():
    method = published("cores", "cifar10-instance-0.4-star")
    # the first phase is the released plan cut after 41 epochs, before its learning rate falls
    assert method.learning_rate(40) == pytest.approx(0.1 / 3)
    rates = [method.consistency_rate(41 + epoch) for epoch in (0, 60, 120, 860, 1600)]
    assert rates == pytest.approx([0.001, 0.1505, 0.3, 0.15, 0.0])


def test_frequencies():
    y = torch.tensor([0, 0, 0, 1, 1, 2])
    torch.testing.assert_close(frequencies(y, torch.zeros(3)), torch.tensor([3.0, 2.0, 1.0]) / 6)
    after = frequencies(y, torch.tensor([1.0, 2.0, 0.0]))
    torch.testing.assert_close(after, torch.tensor([2 / 3, 0.0, 1 / 3]))
    everything = frequencies(y, torch.tensor([3.0, 2.0, 1.0]))
    torch.testing.assert_close(everything, torch.tensor([3.0, 2.0, 1.0]) / 6)


def sieve_once(method: CORES, epoch: int):
    """One epoch of one batch; what the network said before it, and the state after."""
    problem = blobs()
    run = problem.run()
    method = replace(method, batch=240)
    state = method.setup(run)
    run.begin(epoch)
    (batch,) = run.batches(240)
    net = copy.deepcopy(state.learner.net)
    run.begin(epoch)
    logs = method.sieve(state, run)
    return state, batch, net, logs


def test_nothing_is_left_out_before_the_sieve_starts():
    state, _, _, logs = sieve_once(TINY, epoch=3)
    assert state.kept.all()
    assert logs["selected"] == 1
    torch.testing.assert_close(state.prior, torch.bincount(blobs().task.y) / 240)


def test_one_step_on_what_passes():
    state, batch, net, logs = sieve_once(TINY, epoch=4)
    logits = net(batch.views[0])
    keep = logits.gather(1, batch.y[:, None]).squeeze(1) >= logits.mean(1)
    assert 20 < keep.sum() < 220
    kept = torch.zeros(240, dtype=torch.bool)
    kept[batch.index] = keep
    assert torch.equal(state.kept, kept)
    assert logs["selected"] == pytest.approx(keep.float().mean().item())
    prior = torch.bincount(batch.y) / 240
    log_probs = logits.log_softmax(1)
    each = F.nll_loss(log_probs, batch.y, reduction="none") + (log_probs * prior).sum(1)  # β is 1
    each[keep].mean().backward()
    lr = 0.01 / 2  # half of the epochs are over, and it is divided by 1 + β
    wanted = [(p - lr * p.grad).detach() for p in net.parameters()]
    for ours, theirs in zip(state.learner.net.parameters(), wanted, strict=True):
        torch.testing.assert_close(ours.detach(), theirs)
    torch.testing.assert_close(state.prior, torch.bincount(batch.y[keep]) / keep.sum())


def test_a_uniform_prior_stays():
    state, *_ = sieve_once(replace(TINY, prior="uniform"), epoch=4)
    torch.testing.assert_close(state.prior, torch.full((3,), 1 / 3))


def test_a_batch_of_which_nothing_passes_is_no_step(monkeypatch):
    from labelproof.methods import cores

    monkeypatch.setattr(cores, "sieve_score", lambda logits, labels, floor: logits.sum(1) * 0 + 1)
    state, _, net, _ = sieve_once(TINY, epoch=4)
    assert not state.kept.any()
    for ours, before in zip(state.learner.net.parameters(), net.parameters(), strict=True):
        assert torch.equal(ours, before)


def test_confirmed_labels_pass():
    problem = blobs()
    fixed = problem.audit.truth != problem.task.y  # as if a person had insisted on all wrong ones
    problem = replace(problem, task=replace(problem.task, fixed=fixed))
    result = problem.train(TINY)
    assert result.state.kept[fixed].all()
    assert (result.clean[fixed] == 1).all()
    assert not result.state.kept.all()


def test_the_kept_labels_are_cleaner_and_ever_more_so():
    problem, run = blobs(), blobs().run()
    state = TINY.setup(run)
    right, purity = problem.audit.truth == problem.task.y, []
    for epoch in range(8):
        run.begin(epoch)
        TINY.sieve(state, run)
        purity.append(right[state.kept].float().mean().item())
    assert purity[3] == pytest.approx(0.6)
    assert purity[-1] > 0.8
    assert purity[-1] >= purity[4]


def test_clean_is_half_verdict_half_probability():
    problem = blobs()
    result = problem.train(TINY)
    assert result.history[-1]["test_accuracy"] > 0.85
    assert result.history[-1]["error_auroc"] > 0.85
    logits, y = problem.run().predict(result.state.learner.net), problem.task.y
    passed = logits.gather(1, y[:, None]).squeeze(1) >= logits.mean(1)
    assert torch.equal(result.clean >= 0.5, passed)
    given = result.probabilities.gather(1, y[:, None]).squeeze(1)
    torch.testing.assert_close(result.clean, passed / 2 + given / 2)


# ---- CORES* ----


class Fixed:
    """Stands for a learner whose network answers with the rows of its input."""

    def net(self, x: Tensor) -> Tensor:
        return x


def test_losses_of_the_second_phase():
    rows = [logits_of(rows, 4) for rows in (5, 3, 3)]
    x = Batch(torch.arange(5), Y, (rows[0],))
    u = Batch(torch.arange(3), Y[:3], (rows[1], rows[2].flip(1)))
    supervised, consistent = STAR.consistency_losses(Fixed(), x, u)
    torch.testing.assert_close(supervised, F.cross_entropy(rows[0], Y))
    expected = F.kl_div(rows[2].flip(1).log_softmax(1), rows[1].softmax(1), reduction="batchmean")
    torch.testing.assert_close(consistent, 0.4 * expected)
    assert len(STAR.consistency_losses(Fixed(), x, None)) == 1


def test_gradients_are_clipped_inside_and_not_outside():
    net = torch.nn.Linear(3, 1, bias=False)
    learner = Learner(net, torch.optim.SGD(net.parameters(), lr=1.0))

    def moved() -> float:
        before = net.weight.detach().clone()
        net.weight.grad = torch.full((1, 3), 100.0)
        learner.optimiser.step()
        return (net.weight.detach() - before).norm().item()

    with learner.clipped(5.0):
        assert moved() == pytest.approx(5.0, rel=1e-3)
    assert moved() == pytest.approx(100 * 3**0.5, rel=1e-3)


def test_the_second_phase_starts_anew_with_the_verdict_of_the_first():
    problem = blobs()
    run = problem.run()
    state = STAR.setup(run)
    state.kept[::3] = False
    old, kept = state.learner, state.kept.clone()
    STAR.start_anew(state, run)
    assert state.learner is not old
    assert torch.equal(state.kept, kept)
    group = state.learner.optimiser.param_groups[0]
    assert (group["momentum"], group["nesterov"], group["weight_decay"]) == (0.9, True, 5e-4)


def test_kept_and_left_out_go_their_ways(monkeypatch):
    run = blobs().run()
    state = STAR.setup(run)
    state.kept[:80] = False
    seen = []
    real = run.batches
    monkeypatch.setattr(run, "batches", lambda *a, **k: seen.append((a, k)) or real(*a, **k))
    run.begin(8)
    STAR.start_anew(state, run)
    STAR.consist(state, run)
    (size, kept, views), _ = seen[0]
    assert (size, views, kept.tolist()) == (16, ("strong",), list(range(80, 240)))
    (size, out, views), options = seen[1]
    assert (size, views, out.tolist()) == (8, ("weak", "strong"), list(range(80)))
    assert options == {"forever": True}


@pytest.mark.parametrize("kept", [True, False])
def test_a_sieve_that_keeps_all_or_nothing(kept):
    run = blobs(size=40).run()
    state = STAR.setup(run)
    state.kept[:] = kept
    run.begin(8)
    STAR.consist(state, run)
    assert torch.isfinite(run.predict(state.learner.net)).all()


@pytest.mark.parametrize("make", [blobs, patterns])
@pytest.mark.parametrize("stop", [6, 10])  # within either phase
def test_star_learns_and_resumes(make, stop, tmp_path):
    problem = make(size=75)
    whole = problem.train(STAR)
    assert interrupted(problem, STAR, tmp_path, Interrupting(after_epochs=stop, after_steps=1))
    assert same_bits(whole, problem.train(STAR, folder=tmp_path, resume=True))
    assert [line["phase"] for line in whole.history] == ["sieve"] * 8 + ["consistency"] * 4


def test_settings_that_contradict_each_other():
    with pytest.raises(BadInput, match="consistency"):
        CORES(epochs=5, consistency=5)
    with pytest.raises(BadInput, match="beta_full"):
        CORES(beta_from=10, beta_full=9)
    assert CORES(floor=0.0).floor == 0  # the paper's form


def test_published_settings_are_valid():
    for name in published_names("cores"):
        method = published("cores", name)
        assert method.sieve_from < method.sieve_epochs
