"""PES: the new head, the split by agreement, class weights, batch sizes and losses by hand."""

from __future__ import annotations

import copy
from dataclasses import replace

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from labelproof import functional as fn
from labelproof.errors import BadInput
from labelproof.methods.pes import (
    PES,
    Mixed,
    agreement,
    batch_split,
    class_weights,
    last_block,
)
from labelproof.recipes.recipe import published
from labelproof.training.batches import Batch
from tiny import Interrupting, blobs, interrupted, patterns, same_bits

TINY = PES(epochs=8, early=2, renew=1, renew_lr=0.01, batch=32, lr=0.1, lambda_u=5.0, ramp=2.0)


def ready(method: PES = TINY, make=blobs):
    run = make().run()
    state = method.setup(run)
    run.begin(0)
    return run, state


def copies(module) -> dict[str, Tensor]:
    return {name: value.clone() for name, value in module.state_dict().items()}


def changed(before: dict[str, Tensor], module) -> set[str]:
    now = module.state_dict()
    return {name for name in before if not torch.equal(before[name], now[name])}


def test_a_new_head_changes_the_last_layer_alone():
    run, state = ready()
    before = copies(state.learner.net)
    TINY.renew_head(state, run)
    assert changed(before, state.learner.net) == {"heads.label.weight", "heads.label.bias"}


def test_the_head_is_trained_alone_but_batch_statistics_move():
    run, state = ready(make=patterns)
    net = state.learner.net
    before = copies(net)
    TINY.fit_head(state, run)
    moved = changed(before, net)
    assert {"heads.label.weight", "heads.label.bias"} <= moved
    rest = {name for name in moved if not name.startswith("heads")}
    assert rest == {name for name in before if "running" in name or "tracked" in name}
    assert all(p.grad is None for p in net.trunk.parameters())


def test_the_head_takes_a_step_of_adam():
    method = replace(TINY, batch=240)
    run, state = ready(method)
    (batch,) = run.batches(240)
    run.begin(0)
    net = copy.deepcopy(state.learner.net)
    adam = torch.optim.Adam(net.heads.parameters(), 0.01)
    F.cross_entropy(net(batch.views[0]), batch.y).backward()
    adam.step()
    method.fit_head(state, run)
    # the first step of Adam is the sign of the slope, which rounding decides where it is nearly 0
    pairs = zip(state.learner.net.heads.parameters(), net.heads.parameters(), strict=True)
    for ours, theirs in pairs:
        clear = theirs.grad.abs() > 1e-6
        assert clear.float().mean() > 0.9
        torch.testing.assert_close(ours[clear], theirs[clear])


@pytest.mark.parametrize("rebuild", [False, True])
def test_whether_the_new_head_is_trained_further(rebuild):
    problem, seen = blobs(), []
    method = replace(TINY, rebuild_optimiser=rebuild)
    run = problem.run()
    state = method.setup(run)
    epoch = 0
    for phase in method.plan():
        for i in range(phase.epochs):
            run.begin(epoch)
            if i == 0 and phase.enter:
                phase.enter(state, run)
            phase.epoch(state, run)
            seen.append(copies(state.learner.net))
            epoch += 1
    same_head = torch.equal(seen[2]["heads.label.weight"], seen[-1]["heads.label.weight"])
    assert same_head is not rebuild
    assert not torch.equal(seen[2]["trunk.layers.0.weight"], seen[-1]["trunk.layers.0.weight"])


def test_a_rebuilt_optimiser_forgets():
    run, state = ready()
    TINY.fit_given(state, run)
    TINY.settle_optimiser(state, run)
    assert state.learner.optimiser.state
    replace(TINY, rebuild_optimiser=True).settle_optimiser(state, run)
    assert not state.learner.optimiser.state


def test_class_weights_by_hand():
    labels = torch.tensor([0] * 100 + [1] * 50 + [2] * 10)
    weights = class_weights(labels, 4, 3.0)
    torch.testing.assert_close(weights, torch.tensor([1.6 / 3, 3.2 / 3, 3.0, 0.0]))
    assert class_weights(torch.arange(5), 5, 3.0).tolist() == [1.0] * 5


@pytest.mark.parametrize(
    ("labelled", "unlabelled", "expected"),
    [(40_000, 10_000, (103, 25)), (20_000, 30_000, (64, 64)), (50_000, 0, (128, 0))],
)
def test_batch_split_by_hand(labelled, unlabelled, expected):
    assert batch_split(labelled, unlabelled, 128) == expected


def test_agreement_is_above_a_half_where_the_prediction_is_the_label():
    probs = torch.tensor([[0.6, 0.3, 0.1], [0.6, 0.3, 0.1], [1.0, 0.0, 0.0], [1.0, 0.0, 0.0]])
    clean = agreement(probs, torch.tensor([0, 1, 0, 2]))
    torch.testing.assert_close(clean, torch.tensor([2 / 3, 1 / 3, 1.0, 0.0]))


class TwoFaced(torch.nn.Module):
    """Logits by the first feature of a view, and a note of the mode it was asked in."""

    def __init__(self) -> None:
        super().__init__()
        self.modes: set[bool] = set()

    def forward(self, x: Tensor) -> Tensor:
        self.modes.add(self.training)
        return torch.stack([x[:, 0], -x[:, 0], 0 * x[:, 0]], dim=1)


def test_the_split_sees_every_example_in_two_weak_views():
    problem = blobs()  # 240 examples are no multiple of two batches
    still = replace(problem.task.views, jitter=0.0)
    run = replace(problem, task=replace(problem.task, views=still)).run()
    state = TINY.setup(run)
    state.learner.net = TwoFaced()
    probs = TINY.two_view_probability(state.learner, run)
    x = run.task.views.plain(run.task.x.take(torch.arange(240)))
    torch.testing.assert_close(probs, TwoFaced()(x).softmax(1))
    assert state.learner.net.modes == {False}


def test_confident_is_where_prediction_and_label_agree(monkeypatch):
    run, state = ready()
    probs = torch.rand(240, 3).softmax(1)
    given = []
    monkeypatch.setattr(PES, "two_view_probability", lambda *_: probs)
    monkeypatch.setattr(PES, "mixmatch", lambda self, learner, kept, run: given.append(kept))
    logs = TINY.split_and_fit(state, run)
    agree = torch.tensor([int(p.argmax()) == int(y) for p, y in zip(probs, run.y, strict=True)])
    assert torch.equal(given[0], agree)
    assert logs["selected"] == pytest.approx(agree.float().mean().item())


def test_confirmed_labels_are_confident(monkeypatch):
    problem, given = blobs(), []
    fixed = torch.arange(240) % 2 == 0
    run = replace(problem, task=replace(problem.task, fixed=fixed)).run()
    wrong = F.one_hot((run.y + 1) % 3, 3).float()
    monkeypatch.setattr(PES, "two_view_probability", lambda *_: wrong)
    monkeypatch.setattr(PES, "mixmatch", lambda self, learner, kept, run: given.append(kept))
    state = TINY.setup(run)
    TINY.split_and_fit(state, run)
    assert torch.equal(given[0], fixed)
    assert torch.equal(state.clean, fixed.float())


class Fixed:
    """Stands for a learner whose network answers with given logits."""

    def __init__(self, logits: Tensor) -> None:
        self.logits = logits

    def net(self, x: Tensor) -> Tensor:
        return self.logits


def test_losses_against_torch():
    rng = torch.Generator().manual_seed(0)
    logits, other = (torch.randn(10, 4, generator=rng, dtype=torch.float64) for _ in range(2))
    targets = other.softmax(1)
    mixed = Mixed(torch.zeros(10, 1), targets, 6)
    weights = torch.tensor([0.5, 1.0, 3.0, 0.0], dtype=torch.float64)
    l_x, l_u = TINY.losses(Fixed(logits), mixed, weights, elapsed=3.0)
    torch.testing.assert_close(l_x, F.cross_entropy(logits[:6], targets[:6], weight=weights))
    torch.testing.assert_close(l_u, 5.0 * 0.5 * F.mse_loss(logits[6:].softmax(1), targets[6:]))
    plain = TINY.losses(Fixed(logits), mixed, torch.ones(4, dtype=torch.float64), elapsed=2.0)
    torch.testing.assert_close(plain[0], F.cross_entropy(logits[:6], targets[:6]))
    assert plain[1] == 0  # the ramp starts here
    assert len(replace(TINY, lambda_u=0.0).losses(Fixed(logits), mixed, weights, 9.0)) == 1


def test_given_labels_stay_and_guesses_are_sharpened(monkeypatch):
    run, state = ready()
    drawn = []
    monkeypatch.setattr(
        fn, "mixup", lambda x, alpha, *_: (drawn.append(alpha), x, 1.0, torch.arange(len(x)))[1:]
    )
    index = torch.arange(4)
    x, u = (Batch(index, run.y[index], tuple(torch.randn(2, 4, 6))) for _ in range(2))
    mixed = TINY.mix(state.learner, x, u, run)
    assert mixed.labelled == 8
    probs = torch.stack([state.learner.net(view).softmax(1) for view in u.views]).mean(0)
    squares = probs**2 / (probs**2).sum(1, keepdim=True)
    given = F.one_hot(run.y[index], 3).float()
    torch.testing.assert_close(mixed.targets, torch.cat([given, given, squares, squares]))
    # 7 epochs of the whole network: 0 to 3 are the first half, and the head's epoch is not one
    for epoch in (3, 4, 5):
        run.begin(epoch)
        TINY.mix(state.learner, x, u, run)
    assert drawn == [4.0, 4.0, 4.0, 0.75]


def test_learning_rate_is_a_cosine_without_the_epochs_of_the_head():
    run, state = ready()
    rates = {}
    for epoch in (0, 1, 3, 7):
        run.begin(epoch)
        TINY.prepare(state.learner, run)
        rates[epoch] = state.learner.optimiser.param_groups[0]["lr"]
    assert rates[0] == pytest.approx(0.1)
    assert rates[3] == pytest.approx(fn.cosine_decay(0.1, 2, 7, 0.001))
    assert rates[7] == pytest.approx(fn.cosine_decay(0.1, 6, 7, 0.001))


def test_no_label_to_trust_is_an_epoch_on_all(monkeypatch):
    run, state = ready(replace(TINY, rebuild_optimiser=True))
    wrong = F.one_hot((run.y + 1) % 3, 3).float()
    monkeypatch.setattr(PES, "two_view_probability", lambda *_: wrong)
    before = copies(state.learner.net)
    assert TINY.split_and_fit(state, run)["selected"] == 0
    assert changed(before, state.learner.net)


def test_clean_labels_are_nearly_all_kept():
    problem = blobs(noise=0.0)
    result = problem.train(TINY)
    assert result.history[-1]["selected"] > 0.9


def test_it_learns_and_finds_the_wrong_labels():
    result = blobs().train(TINY)
    assert result.history[-1]["test_accuracy"] > 0.85
    assert result.history[-1]["error_auroc"] > 0.85


def test_epochs_must_be_enough_for_the_phases():
    with pytest.raises(BadInput, match="early \\+ renew"):
        PES(epochs=25)
    assert PES().plan()[3].epochs == 280


SUPERVISED = replace(TINY, form="supervised", schedule="steps", renew_block=1, max_weight=1e6)


def test_the_supervised_form_learns_from_confident_labels_and_resumes(tmp_path):
    problem = blobs()
    whole = problem.train(SUPERVISED)
    assert whole.history[-1]["test_accuracy"] > 0.9
    assert whole.history[-1]["error_auroc"] > 0.85
    assert interrupted(problem, SUPERVISED, tmp_path, Interrupting(after_epochs=3, after_steps=1))
    assert same_bits(whole, problem.train(SUPERVISED, folder=tmp_path, resume=True))


def test_the_supervised_loss_is_weighted_cross_entropy(monkeypatch):
    problem = blobs(size=24)
    run, method = problem.run(), replace(SUPERVISED, batch=24)
    state, seen = method.setup(run), []
    monkeypatch.setattr(run, "step", lambda learner, loss: seen.append(loss.detach()))
    monkeypatch.setattr(run, "batches", lambda size, rows: [batch_of(problem, rows)])
    confident = torch.arange(24) % 4 != 0
    method.fit_confident(state.learner, confident, run)
    y = problem.task.y[confident]
    counts = torch.bincount(y, minlength=3).float()
    logits = state.learner.net(problem.task.x.take(confident.nonzero().squeeze(1)))
    expected = F.cross_entropy(logits, y, weight=counts.mean() / counts)
    torch.testing.assert_close(seen[0], expected.detach())


def batch_of(problem, rows):
    return Batch(rows, problem.task.y[rows], (problem.task.x.take(rows),))


def test_a_new_block_is_the_last_one_and_is_trained_with_the_head_alone():
    run = patterns(size=32).run()
    state = SUPERVISED.setup(run)
    net = state.learner.net
    assert last_block(net) is net.trunk.layers[4]  # the second batch normalisation
    with torch.no_grad():
        last_block(net).weight.fill_(7.0)
    SUPERVISED.renew_last_block(state, run)
    assert (last_block(net).weight == 1).all()
    before = {name: value.clone() for name, value in net.named_parameters()}
    run.begin(2)
    SUPERVISED.fit_block(state, run)
    moved = {name for name, value in net.named_parameters() if (value != before[name]).any()}
    assert moved == {name for name in before if ".layers.4." in name or name.startswith("heads")}


def test_time_passes_from_batch_to_batch_and_stands_still_for_the_new_head(monkeypatch):
    run, state = ready(replace(TINY, batch=80))
    times = []

    def note(self, learner, mixed, weights, elapsed: float):
        times.append(elapsed)
        return [learner.net(mixed.x).sum() * 0]

    monkeypatch.setattr(PES, "losses", note)
    run.begin(4)  # the third epoch was the head's
    replace(TINY, batch=80).mixmatch(state.learner, torch.arange(240) < 160, run)
    assert times == pytest.approx([3, 3 + 1 / 3, 3 + 2 / 3])


@pytest.mark.parametrize("data", ["cifar10", "cifar100"])
def test_the_supervised_recipes_lower_the_learning_rate_where_the_release_does(data):
    method = published("pes", f"{data}-supervised")
    run = blobs(size=20).run()
    state = method.setup(run)
    rates = []
    for epoch in (99, 100, 149, 150):  # released epochs; `early` of them is the renewal alone
        run.begin(epoch - 1 + method.renewing)
        method.prepare(state.learner, run)
        rates.append(state.learner.optimiser.param_groups[0]["lr"])
    assert rates == pytest.approx([0.1, 0.01, 0.01, 0.001])
