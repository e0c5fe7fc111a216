"""MLNT: synthetic labels, the imagined step and its derivatives, teacher, mentor and ramp."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from sklearn.neighbors import NearestNeighbors

from labelproof import functional as fn
from labelproof.errors import BadInput
from labelproof.judging.link import kind_of_scores, log_evidence
from labelproof.methods.mlnt import (
    MLNT,
    derivatives,
    follow,
    nearest,
    neighbour_labels,
    with_slopes,
)
from labelproof.nets.plain import MLP
from labelproof.recipes.recipe import chosen_net, is_ours, own_data, published, published_names
from labelproof.training.learner import called_with
from tiny import Interrupting, blobs, interrupted, patterns, same_bits


def prepared(make=blobs, size=32, **settings):
    """A method, its state as at the first step of the student, a run and a batch, in double."""
    method = MLNT(batch=16, **{"synthetic": 3, "meta_lr": 0.3, **settings})
    state = method.setup(run := make(size=size).run())
    method.begin(state, run)
    for net in (state.student.net, state.teacher):
        net.double().train()
    with torch.no_grad():
        for weight in state.teacher.parameters():
            weight.add_(0.1 * torch.randn(weight.shape, generator=run.rng))
    batch = next(iter(run.batches(16)))
    return method, state, run, replace(batch, views=(batch.views[0].double(),))


def meta_of(method, state, run, batch):
    """The meta loss of one draw of labels, the same at every call."""
    x = batch.views[0]
    run.rng.manual_seed(7)
    with torch.no_grad():
        target = method.objective.probability(called_with(state.teacher, {}, x))
    logits = called_with(state.student.net, dict(state.student.net.named_parameters()), x)
    return method.meta_loss(state, batch, logits, target, run)


# ---- synthetic labels ----


def test_neighbours_are_the_nearest_other_rows_of_the_batch():
    features = torch.randn(40, 5, generator=torch.Generator().manual_seed(1))
    found = NearestNeighbors(n_neighbors=11).fit(features.numpy())
    expected = found.kneighbors(features.numpy(), return_distance=False)[:, 1:]
    assert np.array_equal(nearest(features, 10).numpy(), expected)


def test_copies_of_an_example_are_its_neighbours_but_it_is_not_its_own():
    near = nearest(torch.ones(6, 3), 10)
    assert near.shape == (6, 5)
    assert all(i not in row for i, row in enumerate(near.tolist()))


@pytest.mark.parametrize("rho", [0.0, 0.3, 0.5, 1.0])
def test_so_many_labels_are_those_of_a_neighbour(rho):
    rng = torch.Generator().manual_seed(2)
    near = nearest(torch.randn(33, 4, generator=rng), 10)
    labels = torch.arange(33)  # tells from whom a label was taken
    for _ in range(5):
        out = neighbour_labels(labels, near, rho, rng)
        changed = (out != labels).nonzero().squeeze(1).tolist()
        assert len(changed) == int(rho * 33)
        assert all(out[i] in near[i] for i in changed)


def test_label_sets_differ_and_all_neighbours_are_drawn():
    rng = torch.Generator().manual_seed(3)
    near = nearest(torch.randn(16, 4, generator=rng), 10)
    sets = [neighbour_labels(torch.arange(16), near, 0.5, rng) for _ in range(300)]
    assert not torch.equal(sets[0], sets[1])
    taken = {int(out[0]) for out in sets}
    assert taken == {0, *near[0].tolist()}


@pytest.mark.parametrize("size", [1, 2, 10])
def test_a_batch_smaller_than_its_neighbours(size):
    near = nearest(torch.randn(size, 4), 10)
    assert near.shape == (size, size - 1)
    out = neighbour_labels(torch.arange(size), near, 1.0, torch.Generator())
    assert ((out != torch.arange(size)).sum() == size) == (size > 1)


# ---- the imagined step ----


@pytest.mark.parametrize("order", ["first", "second"])
def test_derivatives_through_a_step_on_a_quadratic_loss(order):
    rng = torch.Generator().manual_seed(4)
    root = torch.randn(5, 5, generator=rng, dtype=torch.double)
    hessian, centre = root @ root.T, torch.randn(5, generator=rng, dtype=torch.double)
    theta = torch.randn(5, generator=rng, dtype=torch.double, requires_grad=True)
    method = MLNT(meta_lr=0.1, order=order)
    moved = method.imagined_step({"theta": theta}, 0.5 * theta @ hessian @ theta)["theta"]
    (slope,) = derivatives(0.5 * ((moved - centre) ** 2).sum(), [theta])
    step = theta - 0.1 * hessian @ theta
    factor = torch.eye(5, dtype=torch.double) - (0.1 * hessian if order == "second" else 0)
    torch.testing.assert_close(moved, step)
    torch.testing.assert_close(slope, factor.T @ (step - centre))


@pytest.mark.parametrize("make", [blobs, patterns])
@pytest.mark.parametrize("loss", ["ce", "edl"])
def test_slopes_of_the_meta_loss_are_those_of_its_values(make, loss):
    method, state, run, batch = prepared(make, loss=loss)
    weights = list(state.student.net.parameters())
    slopes = derivatives(meta_of(method, state, run, batch), weights)
    along = [torch.randn(w.shape, generator=run.rng, dtype=torch.double) for w in weights]
    values = []
    for shift in (1e-8, -2e-8):  # to either side, too near for a ReLU to turn
        with torch.no_grad():
            for weight, direction in zip(weights, along, strict=True):
                weight += shift * direction
        values.append(meta_of(method, state, run, batch).item())
    expected = sum((s * a).sum() for s, a in zip(slopes, along, strict=True)).item()
    assert (values[0] - values[1]) / 2e-8 == pytest.approx(expected, rel=1e-4, abs=1e-9)


def test_one_step_at_a_time_is_the_whole_graph_at_once():
    method, state, run, batch = prepared()
    net, x = state.student.net, batch.views[0]
    weights = dict(net.named_parameters())
    slopes = derivatives(meta_of(method, state, run, batch), [*weights.values()])
    run.rng.manual_seed(7)
    near = nearest(state.features[batch.index], 10)
    target = state.teacher(x).softmax(1)
    whole = 0
    for _ in range(3):
        labels = neighbour_labels(batch.y, near, 0.5, run.rng)
        inner = F.cross_entropy(net(x), labels)
        steps = torch.autograd.grad(inner, [*weights.values()], create_graph=True)
        moved = {n: w - 0.3 * g for (n, w), g in zip(weights.items(), steps, strict=True)}
        log_probs = torch.func.functional_call(net, moved, (x,)).log_softmax(1)
        whole = whole + F.kl_div(log_probs, target, reduction="none").mean() / 3
    expected = torch.autograd.grad(whole, [*weights.values()])
    assert all(torch.allclose(a, b, atol=1e-12) for a, b in zip(slopes, expected, strict=True))
    assert meta_of(method, state, run, batch).item() == pytest.approx(whole.item())


def test_first_order_has_the_same_value_and_other_slopes():
    second = prepared(order="second")
    first = (replace(second[0], order="first"), *second[1:])
    values = [meta_of(*first), meta_of(*second)]
    assert values[0].item() == pytest.approx(values[1].item())
    weights = list(second[1].student.net.parameters())
    slopes = [derivatives(value, weights)[0] for value in values]
    assert not torch.allclose(*slopes, rtol=0.01)


def test_without_a_step_it_is_the_distance_from_the_teacher():
    method, state, run, batch = prepared(meta_lr=0.0)
    log_probs = state.student.net(batch.views[0]).log_softmax(1)
    target = state.teacher(batch.views[0]).softmax(1)
    expected = F.kl_div(log_probs, target, reduction="none").mean()
    assert meta_of(method, state, run, batch).item() == pytest.approx(expected.item())
    follow(state.teacher, state.student.net, 0.0)  # a teacher equal to the student
    same = meta_of(method, state, run, batch)
    assert same.item() == pytest.approx(0, abs=1e-12)
    slopes = derivatives(same, list(state.student.net.parameters()))
    assert all(slope.abs().max() < 1e-12 for slope in slopes)


@pytest.mark.parametrize("loss", ["ce", "edl"])
def test_the_distance_is_a_mean_over_elements_or_examples(loss):
    rng = torch.Generator().manual_seed(5)
    logits, target = torch.randn(8, 4, generator=rng), torch.rand(8, 4, generator=rng).softmax(1)
    method = MLNT(loss=loss)
    log_probs = method.objective.probability(logits).log()
    element = F.kl_div(log_probs, target, reduction="none").mean()
    example = F.kl_div(log_probs, target, reduction="batchmean")
    torch.testing.assert_close(method.distance(logits, target).mean(), element)
    by_example = replace(method, kl_mean="example")
    torch.testing.assert_close(by_example.distance(logits, target).mean(), example)
    torch.testing.assert_close(example, 4 * element)


def test_a_scalar_that_carries_slopes():
    weights = [torch.randn(3, requires_grad=True), torch.randn(2, 2, requires_grad=True)]
    slopes = [torch.randn(3), torch.randn(2, 2)]
    scalar = with_slopes(torch.tensor(1.5), weights, slopes)
    assert scalar.item() == pytest.approx(1.5)
    for found, expected in zip(torch.autograd.grad(scalar, weights), slopes, strict=True):
        torch.testing.assert_close(found, expected)


def test_curvature_of_the_evidential_loss_is_finite_for_large_logits():
    method, logits = MLNT(loss="edl"), torch.tensor([[300.0, -300.0, 0.0]]).requires_grad_()
    (slope,) = derivatives(
        method.objective.of_labels(logits, torch.tensor([1])).sum(), [logits], again=True
    )
    (curvature,) = derivatives((slope * torch.tensor([1.0, 2.0, 3.0])).sum(), [logits])
    assert slope.isfinite().all()
    assert curvature.isfinite().all()


# ---- teacher, mentor, schedule ----


def test_the_teacher_nears_a_student_that_stands_still():
    state = MLNT().setup(blobs(size=8).run())
    gap = [(t - s).clone() for t, s in zip(*both(state), strict=True)]
    for _ in range(7):
        follow(state.teacher, state.student.net, 0.9)
    for first, teacher, student in zip(gap, *both(state), strict=True):
        torch.testing.assert_close(teacher - student, 0.9**7 * first, atol=1e-6, rtol=1e-5)


def both(state):
    return state.teacher.parameters(), state.student.net.parameters()


def test_the_first_teacher_of_a_student_is_a_copy():
    state = MLNT().setup(run := patterns(size=12).run())
    assert not torch.equal(*(next(iter(weights)) for weights in both(state)))
    MLNT().begin(state, run)
    for teacher, student in zip(*both(state), strict=True):
        assert torch.equal(teacher, student)


def test_weight_and_decay_follow_the_ramp():
    method = MLNT(ramp=20.0, meta_weight=2.0)
    weights = [method.ramped_weight(epoch) for epoch in (0, 10, 20, 90)]
    assert weights == pytest.approx([2 * math.exp(-5), 2 * math.exp(-1.25), 2, 2])
    late = [method.teacher_decay(epoch, 10_000) for epoch in (0, 19.9, 20, 90)]
    assert late == [0.99] * 2 + [0.999] * 2


def test_the_teacher_is_the_mean_of_the_first_steps_and_forgets_the_start():
    method = MLNT(decay=0.9, late_decay=0.999, ramp=1.0)
    assert [method.teacher_decay(5.0, step) for step in (0, 1, 3, 9_999)] == [0, 0.5, 0.75, 0.999]
    assert method.teacher_decay(0.5, 50) == 0.9


def test_mentor_and_student_each_have_the_whole_schedule_and_the_mentor_then_rests():
    method = MLNT(epochs=4, mentor_epochs=2, batch=16, synthetic=2, ramp=1.0, decay_at=0.5)
    problem = patterns(size=48)
    state = method.setup(run := problem.run())
    rates, copies = [], []
    for epoch, phase in enumerate(["mentor", "mentor", "meta", "meta"]):
        run.begin(epoch)
        if epoch == 2:
            mentor = {k: v.clone() for k, v in state.mentor.net.state_dict().items()}
            torch.testing.assert_close(state.teacher.state_dict(), mentor)
            method.begin(state, run)
            torch.testing.assert_close(state.features, run.features(state.mentor.net))
        (method.fit_mentor if phase == "mentor" else method.meta)(state, run)
        learner = state.mentor if phase == "mentor" else state.student
        rates.append(learner.optimiser.param_groups[0]["lr"])
        copies.append(next(state.student.net.parameters()).clone())
    assert rates == pytest.approx([0.2, 0.02, 0.2, 0.02])
    assert torch.equal(copies[0], copies[1])
    assert not torch.equal(copies[1], copies[2])
    for name, value in state.mentor.net.state_dict().items():
        assert torch.equal(value, mentor[name])


def test_running_statistics_take_each_batch_once():
    method = MLNT(epochs=3, mentor_epochs=1, batch=16, synthetic=3, ramp=1.0)
    state = patterns(size=64).train(method).state
    for net in (state.student.net, state.teacher):
        (first, second) = (v for k, v in net.state_dict().items() if "num_batches" in k)
        assert first == second == 8  # two epochs of four batches
    assert not torch.equal(*(n.trunk.layers[1].running_mean for n in nets(state)))


def nets(state):
    return state.student.net, state.teacher


def test_imagined_steps_leave_the_statistics_of_the_network_alone():
    method, state, run, batch = prepared(patterns)
    before = {k: v.clone() for k, v in state.student.net.named_buffers()}
    meta_of(method, state, run, batch).backward()
    for name, buffer in state.student.net.named_buffers():
        assert torch.equal(buffer, before[name])


def test_without_weight_the_student_is_trained_as_usual():
    method = MLNT(epochs=2, mentor_epochs=1, batch=16, meta_weight=0.0, lr=0.05)
    state = method.setup(run := blobs(size=48).run())
    method.begin(state, run)
    net, plain = state.student.net, method.setup(blobs(size=48).run()).student
    run.begin(1)
    method.meta(state, run)
    run.begin(1)
    for batch in run.batches(16):
        run.step(plain, F.cross_entropy(plain.net(batch.views[0]), batch.y))
    for found, expected in zip(net.parameters(), plain.net.parameters(), strict=True):
        torch.testing.assert_close(found, expected)


def test_the_teacher_predicts_and_scores():
    problem = blobs(size=48)
    result = problem.train(MLNT(epochs=3, mentor_epochs=1, batch=16, synthetic=2, ramp=1.0))
    x = problem.task.x.take(torch.arange(48))
    expected = result.state.teacher(x).softmax(1).detach()
    torch.testing.assert_close(result.probabilities, expected)
    given = expected.gather(1, problem.task.y[:, None]).squeeze(1)
    torch.testing.assert_close(result.clean, given)
    assert not torch.allclose(expected, result.state.student.net(x).softmax(1))


def test_evidence_is_that_of_the_teacher():
    method = MLNT(epochs=2, mentor_epochs=1, batch=16, synthetic=1, loss="edl")
    problem = blobs(size=32)
    state = problem.train(method).state
    x = problem.task.x.take(torch.arange(32))
    with torch.no_grad():
        expected = state.teacher(x) - math.log(10 / 3)
        torch.testing.assert_close(log_evidence(method, state, x), expected)
    assert kind_of_scores(method, state, x) == "logits"
    torch.testing.assert_close(method.predict(state, x), fn.calibrated_softmax(expected, 1.0))


def test_dropout_and_frozen_weights():
    problem = replace(blobs(size=40), trunk=frozen_trunk)
    state = problem.train(MLNT(epochs=3, mentor_epochs=1, batch=16, synthetic=2, ramp=1.0)).state
    first, *rest = state.student.net.parameters()
    fresh = MLNT().setup(problem.run()).student.net.parameters()
    changes = [not torch.equal(now, then) for now, then in zip([first, *rest], fresh, strict=True)]
    assert changes == [False] + [True] * len(rest)


def frozen_trunk():
    trunk = MLP(6, hidden=16, dropout=0.3, batch_norm=True)
    trunk.layers[0].weight.requires_grad_(False)
    return trunk


def test_a_mentor_must_leave_epochs_to_the_student():
    with pytest.raises(BadInput, match="mentor_epochs must be smaller than epochs"):
        MLNT(epochs=5, mentor_epochs=5)


# ---- settings ----


def test_recipes():
    assert set(published_names("mlnt")) == {
        "cifar10-default",
        *(f"cifar10n-{labels}" for labels in ("aggre", "rand1", "rand2", "rand3", "worst")),
        "cifar100n",
    }
    method = published("mlnt", "cifar10-default")
    assert (method.epochs, method.mentor_epochs, method.batch) == (240, 120, 128)
    assert (method.lr, method.momentum, method.weight_decay) == (0.2, 0.9, 1e-4)
    assert [method.learning_rate(epoch, 120) for epoch in (79, 80)] == pytest.approx([0.2, 0.02])
    assert (method.synthetic, method.rho, method.neighbours, method.meta_lr) == (10, 0.5, 10, 0.2)
    assert (method.ramp, method.decay, method.late_decay) == (20, 0.99, 0.999)
    assert (method.order, method.kl_mean, method.loss) == ("second", "element", "ce")
    assert not is_ours("mlnt", "cifar10-default")
    for name in published_names("mlnt")[1:]:
        assert is_ours("mlnt", name)
        assert chosen_net("auto", "mlnt", "images", name) == "resnet34"
        assert published("mlnt", name) == method
    assert own_data("mlnt", "vectors").synthetic <= 5
    assert own_data("mlnt", "images").synthetic <= 5


ROUNDS = MLNT(epochs=11, mentor_epochs=2, rounds=2, batch=32, lr=0.05, synthetic=2, ramp=2.0)


def test_rounds_share_the_epochs_of_the_students():
    assert MLNT(epochs=12, mentor_epochs=2, rounds=3).lengths == [4, 3, 3]
    assert [phase.epochs for phase in ROUNDS.plan()] == [2, 5, 4]
    assert [ROUNDS.place(epoch) for epoch in (2, 6, 7, 10)] == [
        (0, 0, 5), (0, 4, 5), (1, 0, 4), (1, 3, 4)
    ]  # fmt: skip
    with pytest.raises(BadInput, match="rounds need as many epochs"):
        MLNT(epochs=4, mentor_epochs=2, rounds=3)


def test_a_new_round_begins_with_the_teacher_as_mentor_and_a_sieve():
    run = blobs(size=30).run()
    state = ROUNDS.setup(run)
    with torch.no_grad():
        for weight in state.teacher.parameters():
            weight.mul_(30)  # sure of everything
    before = state.teacher.state_dict()["heads.label.weight"].clone()
    ROUNDS.begin_again(state, run)
    assert torch.equal(state.mentor.net.state_dict()["heads.label.weight"], before)
    given = run.predict(state.mentor.net).softmax(1).gather(1, run.y[:, None]).squeeze(1)
    assert torch.equal(state.kept, given >= 0.01)
    assert 0 < state.kept.sum() < 30
    student, teacher = state.student.net.state_dict(), state.teacher.state_dict()
    assert all(torch.equal(student[name], teacher[name]) for name in student)
    assert not torch.equal(student["heads.label.weight"], before)


def test_the_mentor_joins_the_target_in_later_rounds():
    problem = blobs(size=30)
    state = ROUNDS.setup(problem.run())
    x = problem.task.x.take(torch.arange(8))
    with torch.no_grad():
        mentor, teacher = state.mentor.net(x).softmax(1), state.teacher(x).softmax(1)
    torch.testing.assert_close(ROUNDS.target(state, x, 0.0), teacher)
    torch.testing.assert_close(ROUNDS.target(state, x, 0.75), 0.75 * mentor + 0.25 * teacher)


def test_two_rounds_learn_and_resume(tmp_path):
    problem = blobs()
    whole = problem.train(ROUNDS)
    assert whole.history[-1]["test_accuracy"] > 0.85
    assert interrupted(problem, ROUNDS, tmp_path, Interrupting(after_epochs=8, after_steps=1))
    assert same_bits(whole, problem.train(ROUNDS, folder=tmp_path, resume=True))
