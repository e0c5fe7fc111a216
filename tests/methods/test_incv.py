"""INCV: the noise rate from agreement, disjoint folds, who is selected, and the exchange."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
import torch.nn.functional as F

from labelproof.errors import BadInput
from labelproof.methods.incv import INCV, fold_rate, largest, main_rate, noise_of_agreement
from tiny import blobs, patterns

METHOD = INCV(epochs=8, validation=4, rounds=2, batch=16, lr=0.02, ramp=2)


@pytest.mark.parametrize("rate", [0.0, 0.2, 0.5, 0.8])
@pytest.mark.parametrize("classes", [10, 100])
def test_noise_rate_is_found_again_from_the_agreement_it_causes(rate, classes):
    agreement = (1 - rate) ** 2 + rate**2 / (classes - 1)
    assert noise_of_agreement(agreement, classes) == pytest.approx(rate, abs=0.002)


def test_noise_rate_of_impossible_agreements():
    assert noise_of_agreement(0.01, 10) == pytest.approx(0.9)
    assert noise_of_agreement(1.0, 10) == 0.0
    assert noise_of_agreement(0.4, 2) == pytest.approx(0.5)


def test_nothing_to_discard_discards_nothing():
    losses = torch.arange(5.0)
    among = torch.tensor([True, True, False, True, False])
    assert largest(losses, among, 0).tolist() == []
    assert largest(losses, among, 2).tolist() == [3, 1]


def test_halves_are_disjoint_and_cover_what_remains():
    run = blobs(size=41).run()
    state = METHOD.setup(run)
    state.selected[:5] = True
    state.discarded = state.discarded.clone()
    state.discarded[5:9] = True
    METHOD.start_fold(state, run, 0)
    assert (state.half[:9] == -1).all()
    assert sorted(torch.bincount(state.half[9:]).tolist()) == [16, 16]
    training = METHOD.training_half(state, held_out=1)
    assert not (state.half[training] == 1).any()
    assert set(range(5)) <= set(training.tolist())


def perfect(run, truth):
    """Logits of a classifier that knows the truth."""
    return 10 * F.one_hot(truth, run.task.num_classes).float()


def test_an_oracle_selects_exactly_the_right_labels():
    problem = blobs(size=120)
    run = problem.run()
    state = METHOD.setup(run)
    METHOD.start_fold(state, run, 0)
    for held_out in (1, 0):
        METHOD.select(state, perfect(run, problem.audit.truth), run, held_out)
    right = problem.audit.truth == problem.task.y
    assert torch.equal(state.selected, right)
    assert not (state.discarded & state.selected).any()
    assert state.noise == pytest.approx(0.25, abs=0.12)  # 1 - sqrt(agreement), roughly, of one half


def test_only_symmetric_noise_discards():
    problem = blobs(size=120)
    run = problem.run()
    method = replace(METHOD, noise="asymmetric")
    state = method.setup(run)
    method.start_fold(state, run, 0)
    for held_out in (1, 0):
        method.select(state, perfect(run, problem.audit.truth), run, held_out)
    assert not state.discarded.any()


def test_selection_grows_and_folds_start_from_the_same_weights():
    run = blobs(size=80).run()
    state = METHOD.setup(run)
    sizes = []
    for epoch in range(4):
        run.begin(epoch)
        METHOD.validate(state, run)
        sizes.append(int(state.selected.sum()))
    assert sizes == sorted(sizes)
    METHOD.start_fold(state, run, 1)
    for name, value in state.learners[0].net.state_dict().items():
        assert torch.equal(value, state.start[name])


def test_when_a_fold_ends_with_its_best_epoch():
    state = METHOD.setup(blobs(size=20).run())
    state.noise = 0.2
    assert [METHOD.takes_best(state, done) for done in range(5)] == [True] * 4 + [False]
    state.noise = 0.5
    assert [METHOD.takes_best(state, done) for done in range(4)] == [True, True, False, False]
    state.noise = 0.6
    assert METHOD.takes_best(state, 1)
    state.noise = 0.7
    assert [METHOD.takes_best(state, done) for done in range(3)] == [True, False, False]


def test_share_kept_of_a_batch():
    state = METHOD.setup(blobs(size=20).run())
    state.noise = 0.5
    method = INCV()
    assert method.kept_share(state, 0, 10) == 1.0
    assert method.kept_share(state, 5, 10) == pytest.approx(1 - 0.1 * 0.5)
    assert method.kept_share(state, 50, 10) == pytest.approx(0.9)
    asymmetric = INCV(noise="asymmetric")
    assert asymmetric.kept_share(state, 50, 10) == pytest.approx(0.5)


def test_candidates_join_late_and_not_in_larger_numbers_than_half_a_batch():
    state = METHOD.setup(blobs(size=100).run())
    state.noise = 0.2
    state.selected[:80] = True
    method = INCV(batch=16)
    assert method.candidates(state, 40)[0] == 0
    assert method.candidates(state, 41)[0] == 20 * 16 // 80
    state.selected[20:] = False
    assert method.candidates(state, 41)[0] == 8


def test_each_network_learns_what_the_other_trusts():
    run = blobs(size=16).run()
    state = METHOD.setup(run)
    (batch,) = run.batches(16)
    first, second = state.learners
    x, y = batch.views[0], batch.y
    for learner in state.learners:
        learner.net.train()
    losses_1 = F.cross_entropy(first.net(x), y, reduction="none")
    losses_2 = F.cross_entropy(second.net(x), y, reduction="none")
    chosen = losses_2.argsort()[:8]
    expected = torch.autograd.grad(losses_1[chosen].mean(), first.net.heads["label"].weight)[0]
    before = first.net.heads["label"].weight.detach().clone()
    first.optimiser = torch.optim.SGD(first.net.parameters(), lr=1.0)
    METHOD.teach(state.learners, run, batch, None, 0.5)
    moved = before - first.net.heads["label"].weight.detach()
    torch.testing.assert_close(moved, expected, rtol=1e-3, atol=1e-5)


def test_losses_are_judged_in_eval_mode_and_the_step_sees_the_chosen_rows_alone():
    run = patterns(size=16).run()
    state = METHOD.setup(run)
    (batch,) = run.batches(16)
    x, y = batch.views[0], batch.y
    first, second = state.learners
    with torch.no_grad():
        judged = F.cross_entropy(second.net.eval()(x), y, reduction="none").argsort()[:8]
    norm = first.net.trunk.layers[1]
    maps = first.net.trunk.layers[0](x[judged]).detach()
    mean = 0.5 * norm.running_mean + 0.5 * maps.mean((0, 2, 3))  # momentum 0.5
    METHOD.teach(state.learners, run, batch, None, 0.5)
    assert norm.num_batches_tracked == 1
    torch.testing.assert_close(norm.running_mean, mean)


def test_rates():
    assert [fold_rate(1.0, e / 50) for e in (0, 20, 21, 31, 41)] == [1.0, 1.0, 0.5, 0.25, 0.1]
    rates = [main_rate(1.0, e / 200) for e in (0, 80, 120, 160, 180)]
    assert rates == pytest.approx([1.0, 0.1, 0.01, 1e-3, 5e-4])


def test_folds_share_the_epochs_and_must_leave_some():
    assert (INCV().fold_epochs, INCV().select_epochs, INCV().main_epochs) == (50, 400, 200)
    short = INCV(epochs=9, validation=5)
    assert (short.fold_epochs, short.select_epochs, short.main_epochs) == (1, 4, 5)
    assert INCV(epochs=3, validation=1).select_epochs == 0
    with pytest.raises(BadInput, match="validation must leave epochs"):
        INCV(epochs=400)


def test_folds_take_turns_and_each_begins_anew(monkeypatch):
    method = INCV(epochs=12, validation=8, rounds=2, batch=16, lr=0.02)
    run = blobs(size=40).run()
    state = method.setup(run)
    begun, held, ended = [], [], []
    start = INCV.start_fold

    def note(self, state, run, fold: int) -> None:
        begun.append((run.epoch, fold))
        start(self, state, run, fold)

    def half(self, state, held_out: int):
        held.append(held_out)
        return torch.arange(16)

    def end(self, state, logits, run, held_out: int) -> None:
        ended.append((run.epoch, held_out))

    monkeypatch.setattr(INCV, "start_fold", note)
    monkeypatch.setattr(INCV, "select", end)
    monkeypatch.setattr(INCV, "training_half", half)
    for epoch in range(8):
        run.begin(epoch)
        method.validate(state, run)
    assert method.fold_epochs == 2
    assert begun == [(0, 0), (2, 1), (4, 2), (6, 3)]
    assert held == [1, 1, 0, 0, 1, 1, 0, 0]
    assert ended == [(1, 1), (3, 0), (5, 1), (7, 0)]


def test_clean_is_the_mean_of_the_verdict_and_of_both_networks():
    run = blobs(size=20).run()
    state = METHOD.setup(run)
    state.selected[:10] = True
    METHOD.score(state, run)
    first, second = (run.predict(each.net).softmax(1) for each in state.learners)
    given = ((first + second) / 2)[torch.arange(20), run.y]
    torch.testing.assert_close(state.clean, (state.selected.float() + given) / 2)


def test_without_a_ramp_the_whole_share_is_left_out_at_once():
    state = METHOD.setup(blobs(size=20).run())
    state.noise = 0.5
    assert replace(INCV(), ramp=0).kept_share(state, 0, 10) == pytest.approx(0.9)


def test_an_epoch_tells_what_was_selected_and_how_much_noise_was_found():
    run = blobs(size=40).run()
    state = METHOD.setup(run)
    state.selected[:30], state.noise = True, 0.25
    run.begin(4)
    assert METHOD.train(state, run) == {"selected": 0.75, "noise": 0.25}
