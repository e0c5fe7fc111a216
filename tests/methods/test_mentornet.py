"""MentorNet: curricula in closed form, the moving percentile, dropping, and the learned mentor."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
import torch.nn.functional as F

from labelproof import metrics
from labelproof.errors import BadInput
from labelproof.methods.mentornet import (
    Mentor,
    MentorNet,
    kept,
    predefined,
    smallest_of_each,
)
from labelproof.recipes.recipe import published
from labelproof.training.estimate import estimate
from tiny import blobs

METHOD = MentorNet(epochs=6, batch=16, lr=0.05, percentile=0.6)
LEARNED = MentorNet(
    epochs=12, batch=16, lr=0.05, kind="dd", burn_in=18, scout=2, record=4, tried=0.4,
    mentor_steps=300, mentor_lr=0.02,
)  # fmt: skip
DIFFERENCE = torch.tensor([-5.0, -0.1, 0.0, 0.25, 1.0, 3.0])


def test_the_predefined_curriculum_on_a_grid():
    for percent in (0, 18):
        assert predefined(DIFFERENCE, percent, 1.0).tolist() == [1] * 6
    for percent in (19, 89):
        assert predefined(DIFFERENCE, percent, 1.0).tolist() == [1, 1, 1, 0, 0, 0]
    assert predefined(DIFFERENCE, 90, 1.0).tolist() == [1, 1, 1, 0.75, 0, 0]
    assert predefined(DIFFERENCE, 99, 2.0).tolist() == [1, 1, 1, 0.875, 0.5, 0]


def test_the_level_follows_the_nearest_percentile_of_each_batch():
    state = METHOD.setup(blobs(size=20).run())
    losses = torch.tensor([4.0, 1.0, 3.0, 2.0, 10.0])
    METHOD.weights(state, losses, 50)
    assert state.level == pytest.approx(0.5 * 3.0)  # 0.6 of the way through five is the third
    METHOD.weights(state, losses + 1, 50)
    assert state.level == pytest.approx(0.5 * 1.5 + 0.5 * 4.0)


def test_weights_carry_no_gradient_and_burn_in_is_one():
    state = METHOD.setup(blobs(size=20).run())
    losses = torch.tensor([0.1, 5.0], requires_grad=True)
    assert not METHOD.weights(state, losses.detach(), 50).requires_grad
    burning = replace(METHOD, kind="self_paced", burn_in=20)
    assert burning.weights(state, losses.detach(), 18).tolist() == [1, 1]
    assert burning.weights(state, losses.detach(), 19).tolist() == [1, 0]
    state.level = 1.0
    assert burning.curriculum(state, torch.tensor([0.5, 1.0, 1.5]), 19).tolist() == [1, 1, 0]


@pytest.mark.parametrize(
    ("share", "count"), [(0.0, 128), (0.05, 121), (0.5, 64), (0.9, 12), (1, 1)]
)
def test_dropping_keeps_exactly_so_many(share, count):
    mask = kept(128, share, torch.Generator().manual_seed(0))
    assert mask.sum() == count
    assert set(mask.tolist()) <= {0.0, 1.0}


def test_the_schedule_of_dropping():
    method = MentorNet(drop=(0.5, 17, 0.05, 78, 0.9, 5))
    assert [method.dropped(p) for p in (0, 16, 17, 94, 95, 99)] == [0.5, 0.5, 0.05, 0.05, 0.9, 0.9]


def test_a_learned_curriculum_stays_at_the_end_of_its_burn_in():
    method = replace(LEARNED, drop=(0.5, 17, 0.05, 78, 0.9, 5))
    assert [method.told(p) for p in (0, 17, 18, 60, 99)] == [0, 17, 18, 18, 18]
    assert method.dropped(method.told(99)) == 0.05  # the last entry is never reached, as released
    assert METHOD.told(99) == 99


def test_the_mentor_learns_differences_from_one_percentile_of_all_records(monkeypatch):
    run = blobs(size=60).run()
    method = replace(LEARNED, mentor_steps=3)
    state = method.setup(run)
    method.choose(state, run)
    state.records = torch.arange(96.0).reshape(4, 24)
    seen, forward = [], Mentor.forward

    def note(self, loss, difference, percent):
        seen.extend((loss - difference).tolist())
        return forward(self, loss, difference, percent)

    monkeypatch.setattr(Mentor, "forward", note)
    method.teach_mentor(state, run)
    assert seen == pytest.approx([0.9 * 95] * len(seen), rel=1e-5)


def test_recipes_have_the_percentiles_of_the_released_script():
    for data in ("cifar10", "cifar100"):
        rates = [
            published("mentornet", f"{data}-symmetric-{rate}").percentile
            for rate in (0.2, 0.4, 0.8)
        ]
        assert rates == [0.75, 0.75, 0.5]
    assert published("mentornet", "webvision").drop == (0.0, 100.0)  # as self-paced is released


def test_all_weights_one_and_nothing_dropped_is_cross_entropy():
    plain = replace(METHOD, kind="self_paced", burn_in=100, drop=(0.0, 100))
    run = blobs(size=32).run()
    state = plain.setup(run)
    reference = plain.setup(blobs(size=32).run())
    run.begin(0)
    plain.study(state, run)
    again = blobs(size=32).run()
    again.begin(0)
    reference.learner.net.train()
    for batch in again.batches(16):
        kept(16, 0.0, again.rng)  # the same draws
        again.step(
            reference.learner, F.cross_entropy(reference.learner.net(batch.views[0]), batch.y)
        )
    for ours, theirs in zip(
        state.learner.net.parameters(), reference.learner.net.parameters(), strict=True
    ):
        torch.testing.assert_close(ours, theirs)


def test_weight_decay_is_scaled_by_the_data_used():
    run = blobs(size=32).run()
    method = replace(METHOD, kind="self_paced", burn_in=100, drop=(0.5, 100), weight_decay=0.01)
    state = method.setup(run)
    run.begin(0)
    method.study(state, run)
    assert state.learner.optimiser.param_groups[0]["weight_decay"] == pytest.approx(0.005)


def test_the_mentor_is_tried_on_small_losses_with_so_many_labels_made_wrong():
    losses = torch.tensor([0.3, 0.1, 0.2, 9.0, 0.5, 0.4])
    labels = torch.tensor([0, 0, 0, 0, 1, 1])
    assert smallest_of_each(losses, labels, 0.5).tolist() == [1, 2, 5]
    run = blobs(size=60).run()
    state = LEARNED.setup(run)
    LEARNED.choose(state, run)
    assert len(state.tried) == 24
    changed = state.tried_labels != run.y[state.tried]
    assert changed.sum() == round(0.4 * 24)


def test_confirmed_labels_are_the_ones_it_is_tried_on():
    problem = blobs(size=60)
    fixed = torch.zeros(60, dtype=torch.bool)
    fixed[::4] = True
    run = replace(problem, task=replace(problem.task, fixed=fixed)).run()
    state = LEARNED.setup(run)
    LEARNED.choose(state, run)
    assert torch.equal(state.tried, fixed.nonzero().squeeze(1))


def test_a_mentor_taught_on_separable_losses_tells_them_apart():
    run = blobs(size=60).run()
    state = LEARNED.setup(run)
    LEARNED.choose(state, run)
    wrong = state.tried_labels != run.y[state.tried]
    rng = torch.Generator().manual_seed(0)
    noise = 0.5 * torch.randn(state.records.shape, generator=rng)
    state.records = (torch.where(wrong, 3.0, 0.5) + noise).abs()
    LEARNED.teach_mentor(state, run)
    state.level = state.records.quantile(0.9).item()
    weights = LEARNED.curriculum(state, state.records[0], 99)
    assert metrics.error_auroc(wrong, -weights) > 0.95


def test_settings_that_do_not_fit():
    with pytest.raises(BadInput, match="record must be above 0"):
        MentorNet(kind="dd")
    with pytest.raises(BadInput, match="add up"):
        MentorNet(drop=(0.5, 17, 0.05, 80))


@pytest.mark.parametrize(("method", "first"), [(METHOD, 0), (LEARNED, 6)])
def test_percents_of_training_are_of_the_students_epochs(method, first, monkeypatch):
    run = blobs(size=32).run()  # two batches
    state = method.setup(run)
    percents = []

    def note(self, state, losses, percent: int):
        percents.append(percent)
        return torch.ones_like(losses)

    monkeypatch.setattr(MentorNet, "weights", note)
    for epoch in (0, 3, 5):
        run.begin(first + epoch)
        method.study(state, run)
    assert percents == [0, 8, 50, 58, 83, 91]


def test_a_new_student_has_no_memory_of_losses():
    run = blobs(size=20).run()
    state = LEARNED.setup(run)
    before, state.level = state.learner, 3.0
    run.begin(2)
    LEARNED.start_anew(state, run)
    assert state.learner is not before
    assert state.level == 0.0


def test_without_a_scout_labels_are_chosen_at_once():
    run, method = blobs(size=60).run(), replace(LEARNED, scout=0)
    state = method.setup(run)
    method.plan()[1].enter(state, run)
    assert len(state.tried) == 24
    assert state.records.shape == (4, 24)


def test_the_time_of_a_learned_curriculum_can_be_told_in_advance():
    problem = blobs(size=60)
    found = estimate(problem.task, LEARNED, problem.trunk, torch.device("cpu"))
    assert list(found.phases) == ["scout", "record", "student"]
