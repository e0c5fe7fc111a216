"""ProMix: selection, agreement, corrections and losses, each by hand."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
import torch
import torch.nn.functional as F

from labelproof.functional.mix import low_frequency_mask
from labelproof.methods.promix import (
    KEPT,
    REST,
    ProMix,
    fmixed,
    seen_by,
    smallest_of_classes,
)
from tiny import blobs, patterns

METHOD = ProMix(epochs=6, warmup=2, batch=16, lr=0.05, ramp=2.0, agree=2, sure_above=0.9)
RNG = torch.Generator


def test_as_many_small_losses_of_every_given_class():
    labels = torch.tensor([0, 0, 0, 0, 1, 1, 1, 3])
    losses = torch.tensor([0.4, 0.1, 0.3, 0.2, 9.0, 7.0, 8.0, 5.0])
    kept = smallest_of_classes(losses, labels, 1.2)  # the ceiling is 2
    assert kept.tolist() == [False, True, False, True, False, True, True, True]
    assert smallest_of_classes(losses, labels, 0.0).sum() == 3  # one of each class at least


def test_the_base_is_a_share_of_an_even_class():
    run = blobs(size=90).run()
    state = METHOD.setup(run)
    for learner, kept in zip(state.learners, METHOD.base_selection(state, run), strict=True):
        losses = F.cross_entropy(run.predict(learner.net), run.y, reduction="none")
        for label in range(3):
            own = (run.y == label).nonzero().squeeze(1)
            best = own[losses[own].argsort()[:15]]  # ceil(0.5 · 90 / 3)
            assert set(best.tolist()) == set((kept & (run.y == label)).nonzero().flatten().tolist())


def test_confident_labels_join_the_base():
    probs = torch.tensor([[0.95, 0.05], [0.05, 0.95], [0.85, 0.15], [0.1, 0.9]])
    base, y = torch.tensor([False, False, False, True]), torch.tensor([0, 0, 0, 0])
    assert METHOD.kept(probs, base, y).tolist() == [True, False, False, True]


def test_agreement_fills_a_batch_with_the_surest_first():
    first = torch.tensor([[0.99, 0.01], [0.05, 0.95], [0.93, 0.07], [0.97, 0.03], [0.92, 0.08]])
    second = torch.tensor([[0.98, 0.02], [0.03, 0.97], [0.04, 0.96], [0.95, 0.05], [0.5, 0.5]])
    kept = torch.tensor([True, False, False, False, False])
    full = replace(METHOD, fill=0.8)  # four of five: room for three, two agree
    assert full.agreed((first, second), kept).tolist() == [False, True, False, True, False]
    narrow = replace(METHOD, fill=0.4)  # room for one: 0.95 + 0.97 is tied with 0.97 + 0.95
    assert narrow.agreed((first, second), kept).sum() == 1
    none = replace(METHOD, fill=0.2)
    assert not none.agreed((first, second), kept).any()


def test_labels_are_added_in_the_last_epochs_alone():
    run = blobs(size=32).run()
    probs = torch.tensor([[0.95, 0.03, 0.02], [0.02, 0.96, 0.02]])
    base, y = torch.tensor([False, True]), torch.tensor([2, 1])
    run.begin(3)
    kept, labels = METHOD.chosen((probs, probs), base, y, 0, run)
    assert kept.tolist() == [False, True]
    assert labels.tolist() == [2, 1]
    run.begin(4)  # the last two of six
    kept, labels = replace(METHOD, fill=1.0).chosen((probs, probs), base, y, 0, run)
    assert kept.tolist() == [True, True]
    assert labels.tolist() == [0, 1]


def test_weights_rise_and_the_rest_is_dropped_after_its_rise():
    method = replace(METHOD, epochs=600, ramp=50.0, agree=250)
    assert method.weights(10).views == pytest.approx(0.2)
    assert method.weights(50).views == 1.0
    assert method.weights(50).rest == pytest.approx(0.05)
    assert method.weights(99).rest == pytest.approx(0.099)
    assert method.weights(100).rest == 0.0


def test_losses_by_hand():
    run = blobs(size=24).run()
    method = replace(METHOD, alpha=1e-9)  # mixup leaves a row as it is
    state = method.setup(run)
    learner = state.learners[0]
    learner.net.eval()
    (batch,) = run.batches(24, views=("weak", "strong"))
    seen = seen_by(learner, batch)
    kept = torch.arange(24) < 15
    shares = torch.tensor([[0.5, 0.3, 0.2], [0.2, 0.2, 0.6]])
    out = method.losses(learner, batch, seen, kept, batch.y, shares, run)
    shift, rest = 0.8 * shares.log()
    y = batch.y[kept]
    own = [F.cross_entropy(logits[kept] + shift, y) for logits in (seen.main, seen.pseudo)]
    torch.testing.assert_close(torch.stack(out["one"]), torch.stack(own))
    strong = [
        F.cross_entropy(logits[kept] + shift, y)
        for logits in (seen.main_strong, seen.pseudo_strong)
    ]
    # strong and mixed of the main head, then of the pseudo head; unmixed rows are the weak view
    torch.testing.assert_close(
        torch.stack(out["views"]), torch.stack([strong[0], own[0], strong[1], own[1]])
    )
    guess = (seen.main.detach() - rest).softmax(1) ** 2
    guess = (guess / guess.sum(1, keepdim=True))[~kept]
    weak = -(guess * (seen.pseudo[~kept] + rest).log_softmax(1)).sum(1).mean()
    torch.testing.assert_close(out["rest"][0], weak)
    other = -(guess * (seen.pseudo_strong[~kept] + rest).log_softmax(1)).sum(1).mean()
    torch.testing.assert_close(out["both"][0], other)
    total = torch.stack(method.total(out, method.weights(1))).sum()  # w = 1/2, β = 0.025
    expected = sum(own) + 0.5 * (sum(strong) + sum(own)) + 0.025 * (weak + 0.5 * other)
    torch.testing.assert_close(total, expected)


def test_the_rest_never_reaches_the_main_head():
    run = blobs(size=24).run()
    state = METHOD.setup(run)
    learner = state.learners[0]
    (batch,) = run.batches(24, views=("weak", "strong"))
    nobody = torch.zeros(24, dtype=torch.bool)
    seen = seen_by(learner, batch)
    out = METHOD.losses(learner, batch, seen, nobody, batch.y, state.shares[0], run)
    assert not out["one"]
    assert not out["views"]
    (out["rest"][0] + out["both"][0]).backward()
    assert learner.net.heads["label"].weight.grad is None
    assert learner.net.heads["pseudo"].weight.grad.abs().sum() > 0


def test_class_shares_run_apart():
    method = replace(METHOD, shares_momentum=0.9)
    shares = torch.full((2, 2), 0.5)
    probs = torch.tensor([[0.9, 0.1], [0.7, 0.3], [0.2, 0.8]])
    method.count_classes(shares, probs, torch.tensor([True, True, False]))
    torch.testing.assert_close(shares[KEPT], torch.tensor([0.53, 0.47]))
    torch.testing.assert_close(shares[REST], torch.tensor([0.47, 0.53]))
    before = shares.clone()
    method.count_classes(shares, probs, torch.ones(3, dtype=torch.bool))
    assert torch.equal(shares[REST], before[REST])


@pytest.mark.parametrize("size", [(8, 8), (9, 7), (32, 32)])
def test_a_mask_has_its_share_of_pixels_in_blobs(size):
    pixels, borders = size[0] * size[1], []
    for seed in range(20):
        mask = low_frequency_mask(size, 0.4, RNG().manual_seed(seed))
        assert mask.shape == size
        assert mask.sum() == round(0.4 * pixels)
        borders.append(((mask[1:] != mask[:-1]).sum() + (mask[:, 1:] != mask[:, :-1]).sum()).item())
    scattered = 2 * 0.4 * 0.6 * (2 * pixels - sum(size))  # borders of pixels drawn one by one
    assert sum(borders) / 20 < scattered / 2


def test_a_mask_has_the_spectrum_it_should():
    size, total = 16, torch.zeros(16, 9)
    frequency = (torch.fft.fftfreq(16)[:, None] ** 2 + torch.fft.rfftfreq(16) ** 2).sqrt()
    for seed in range(300):
        rng = RNG().manual_seed(seed)
        noise = torch.view_as_complex(torch.randn(16, 9, 2, generator=rng))
        image = torch.fft.irfft2(noise / frequency.clamp(min=1 / 16) ** 3, s=(16, 16))
        mask = low_frequency_mask((size, size), 0.25, RNG().manual_seed(seed))
        assert torch.equal(mask.bool(), image >= image.flatten().sort().values[-64])
        total += torch.fft.rfft2(mask - mask.mean()).abs() ** 2
    assert total[1, 0] > 10 * total[4, 0] > 10 * total[8, 0]


def test_fmix_cuts_two_images_together():
    x = torch.arange(4.0)[:, None, None, None].expand(4, 3, 8, 8)
    inputs, goal = fmixed(x, torch.eye(4), 1.0, RNG().manual_seed(3))
    for row in range(4):
        values = inputs[row].unique()
        assert row in values
        assert len(values) <= 2
        share = (inputs[row] == row).float().mean().item()
        weight = goal[row, row].item()
        assert weight == 1 or abs(share - weight) <= 0.5 / 64 + 1e-6
        assert goal[row].sum().item() == pytest.approx(1)


def test_vectors_are_not_cut_and_images_are():
    for problem, views in ((blobs(size=20), 1), (patterns(size=20), 2)):
        run = problem.run()
        state = METHOD.setup(run)
        (batch,) = run.batches(20, views=("weak",))
        targets = F.one_hot(batch.y, run.task.num_classes).float()
        shift = torch.zeros(run.task.num_classes)
        learner = state.learners[0]
        losses = METHOD.mixed(learner, "label", batch.views[0], targets, shift, run)
        assert len(losses) == views
        assert METHOD.mixed(learner, "label", batch.views[0][:1], targets[:1], shift, run) == []


def test_the_learning_rate_is_a_cosine_to_a_thousandth():
    run = blobs(size=32).run()
    run.begin(3)
    floor = 0.05 * 0.001
    assert METHOD.learning_rate(run) == pytest.approx(floor + (0.05 - floor) * 0.5)
    run.begin(2)
    expected = floor + (0.05 - floor) * 0.5 * (1 + math.cos(math.pi / 3))
    assert METHOD.learning_rate(run) == pytest.approx(expected)


def test_confirmed_labels_are_kept():
    problem = blobs(size=60)
    wrong = problem.audit.truth != problem.task.y
    run = replace(problem, task=replace(problem.task, fixed=wrong)).run()
    state = METHOD.setup(run)
    for kept in METHOD.base_selection(state, run):
        assert kept[wrong].all()
    assert (state.clean[wrong] == 1).all()


def test_the_warm_up_trains_the_main_heads_with_the_penalty_on_request():
    run = blobs(size=32).run()
    for weight in (0.0, 1.0):
        method = replace(METHOD, confidence_penalty=weight, batch=32)
        state = method.setup(run)
        before = state.learners[0].net.heads["pseudo"].weight.clone()
        run.begin(0)
        method.warm_up(state, run)
        assert torch.equal(before, state.learners[0].net.heads["pseudo"].weight)
