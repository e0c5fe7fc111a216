"""MOIT: the contrastive loss pair by pair, the two votes, the replaced labels, and MOIT+."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
import torch
import torch.nn.functional as F

from labelproof.errors import BadInput
from labelproof.methods.moit import MOIT, Pairs, balanced_selection, remember
from tiny import blobs, patterns

RNG = torch.Generator().manual_seed(0)
METHOD = MOIT(
    epochs=6, plus=2, batch=16, lr=0.05, memory=10, memory_from=1, correct_from=3, neighbours=15,
    plus_lr=0.01, boot_from=1,
)  # fmt: skip


def pairs_of(batch=4, classes=3, weight=(0.8, 0.6)):
    """Mixed views with partners drawn apart for each view."""
    embeddings = F.normalize(torch.randn(2 * batch, 5, generator=RNG, dtype=torch.float64), dim=1)
    partners = torch.cat([torch.randperm(batch, generator=RNG) for _ in range(2)])
    weights = torch.tensor(weight, dtype=torch.float64).repeat_interleave(batch)
    logits = torch.randn(2 * batch, classes, generator=RNG, dtype=torch.float64)
    return Pairs(logits, embeddings, partners, weights)


def contrast_by_loops(pairs, y, temperature):
    """The loss from its definition, an anchor and a pair at a time."""
    count, labels = len(pairs.embeddings), y.repeat(2).tolist()
    total = 0.0
    for i in range(count):
        scores = [
            (pairs.embeddings[i] @ pairs.embeddings[j]).item() / temperature for j in range(count)
        ]
        bottom = math.log(sum(math.exp(s) for j, s in enumerate(scores) if j != i))
        minor = y[pairs.partners[i]].item()
        for wanted, weight in ((labels[i], pairs.weight[i]), (minor, 1 - pairs.weight[i])):
            positive = [j for j in range(count) if j != i and labels[j] == wanted]
            if positive:
                mean = sum(scores[j] - bottom for j in positive) / len(positive)
                total -= weight.item() * mean
    return total / count


def test_the_contrastive_loss_is_its_definition():
    pairs, y = pairs_of(), torch.tensor([0, 1, 0, 2])
    state = METHOD.setup(blobs(size=20).run())
    method = replace(METHOD, memory=0)
    (loss,) = method.contrasts(state, pairs, y, epoch=0)
    assert loss.item() == pytest.approx(contrast_by_loops(pairs, y, 0.1))


def test_without_mixing_it_is_supervised_contrast():
    pairs, y = pairs_of(weight=(1.0, 1.0)), torch.tensor([0, 1, 0, 1])
    (loss,) = replace(METHOD, memory=0).contrasts(METHOD.setup(blobs(size=20).run()), pairs, y, 0)
    labels = y.repeat(2)
    similarity = pairs.embeddings @ pairs.embeddings.T / 0.1
    similarity.fill_diagonal_(-torch.inf)
    logs = similarity.log_softmax(1)
    positive = (labels[:, None] == labels) & ~torch.eye(8, dtype=torch.bool)
    expected = -torch.stack([logs[i][positive[i]].mean() for i in range(8)]).mean()
    torch.testing.assert_close(loss, expected)


def test_the_memory_holds_the_newest_and_leaves_the_anchor_out():
    state = METHOD.setup(blobs(size=20).run())
    assert len(state.memory) == 60
    first = torch.randn(40, 128, generator=RNG)
    slots = remember(state, first, torch.zeros(40, dtype=torch.long))
    assert slots.tolist() == list(range(40))
    second = torch.randn(30, 128, generator=RNG)
    slots = remember(state, second, torch.ones(30, dtype=torch.long))
    assert slots.tolist() == [*range(40, 60), *range(10)]
    assert torch.equal(state.memory[slots], second)
    assert state.place == 10


def test_an_anchor_meets_all_of_the_memory_but_itself():
    run = blobs(size=20).run()
    state = METHOD.setup(run)
    state.memory, state.remembered = state.memory[:8, :5].double(), state.remembered[:8]
    pairs, y = pairs_of(), torch.tensor([0, 1, 0, 2])
    among, remembered = METHOD.contrasts(state, pairs, y, epoch=1)
    torch.testing.assert_close(among, remembered)  # the memory is the batch itself


def test_classification_before_and_after_labels_are_replaced():
    pairs, y = pairs_of(), torch.tensor([0, 1, 0, 2])
    kept = torch.tensor([True, False, True, False])
    own = torch.randn(4, 3, generator=RNG, dtype=torch.float64).softmax(1)
    logs = pairs.logits.log_softmax(1)
    total, plain, strict = 0.0, 0.0, 0.0
    for row in range(8):
        i, partner, weight = row % 4, int(pairs.partners[row]), pairs.weight[row].item()
        mixed = -weight * logs[row, y[i]] - (1 - weight) * logs[row, y[partner]]
        plain += mixed.item() / 8
        total += mixed.item() / 8 if kept[i] else 0.0
        for example, part in ((i, weight), (partner, 1 - weight)):
            if kept[example]:
                strict -= part * logs[row, y[example]].item() / 8
            else:
                total -= part * (own[example] @ logs[row]).item() / 8
                strict -= part * (own[example] @ logs[row]).item() / 8
    assert METHOD.classification(pairs, y, kept, None).item() == pytest.approx(plain)
    assert METHOD.classification(pairs, y, kept, own).item() == pytest.approx(total)
    apart = replace(METHOD, strict_partner=True)
    assert apart.classification(pairs, y, kept, own).item() == pytest.approx(strict)


def test_each_class_keeps_as_many_as_the_lower_median_of_agreements():
    labels = torch.tensor([0] * 6 + [1] * 4 + [2] * 2 + [3] * 3)
    agree = torch.tensor([1, 1, 1, 1, 1, 0, 1, 1, 1, 0, 1, 0, 1, 1, 0], dtype=torch.bool)
    given = torch.linspace(0.9, 0.1, 15)
    kept = balanced_selection(given, agree, labels, 5)
    assert torch.bincount(labels[kept]).tolist() == [2, 2, 2, 2]  # agreements 5, 3, 1 and 2
    assert kept[[0, 1, 6, 7, 12, 13]].all()


def test_neighbours_find_planted_errors(monkeypatch):
    run = blobs(size=300, noise=0.0).run()
    truth = run.y.clone()
    flips = torch.randperm(300, generator=RNG)[:90]
    run.y[flips] = (run.y[flips] + 1) % 3
    state = METHOD.setup(run)
    centres = F.one_hot(truth, 128).float() + 0.05 * torch.randn(300, 128, generator=RNG)
    monkeypatch.setattr(type(state.learner.net), "head", lambda *_: centres)
    METHOD.vote(state, run)
    right = truth == run.y
    assert right[state.kept].float().mean() > 0.95
    assert state.clean[right].mean() > 0.95
    assert state.clean[~right].mean() < 0.05


def test_fine_tuning_starts_with_a_new_classifier_on_the_old_trunk():
    run = blobs(size=40).run()
    state = METHOD.setup(run)
    trunk = {k: v.clone() for k, v in state.learner.net.trunk.state_dict().items()}
    head = state.learner.net.heads["label"].weight.clone()
    METHOD.new_classifier(state, run)
    assert all(torch.equal(trunk[k], v) for k, v in state.learner.net.trunk.state_dict().items())
    assert not torch.equal(head, state.learner.net.heads["label"].weight)
    assert state.learner.optimiser.param_groups[0]["lr"] == 0.01


def test_parts_must_fit():
    with pytest.raises(BadInput, match="plus must be smaller"):
        MOIT(epochs=10, plus=10)


def test_predictions_count_from_the_epochs_that_were_set(monkeypatch):
    run = blobs(size=40).run()
    state = METHOD.setup(run)
    seen, classification = [], MOIT.classification

    def note(self, pairs, y, kept, own):
        seen.append(own is not None)
        return classification(self, pairs, y, kept, own)

    monkeypatch.setattr(MOIT, "classification", note)
    for epoch in (2, 3):
        run.begin(epoch)
        METHOD.train(state, run)
    assert seen == [False, False, True, True]  # two batches of 16 an epoch


def test_every_step_passes_the_plain_view_too_for_the_running_statistics():
    run = patterns(size=40).run()
    state = METHOD.setup(run)
    (norm, *_) = (m for m in state.learner.net.modules() if isinstance(m, torch.nn.BatchNorm2d))
    run.begin(0)
    METHOD.train(state, run)
    assert norm.num_batches_tracked == 2 * 3  # two steps; both mixed views and the plain one
    METHOD.new_classifier(state, run)
    state.kept[:] = True
    run.begin(4)
    METHOD.fine_tune(state, run)
    assert norm.num_batches_tracked == 2 * 3 + 2 * 2


def test_bootstrapping_joins_label_and_own_answer(monkeypatch):
    problem = blobs(size=16)
    still = replace(problem.task.views, jitter=0.0)
    run = replace(problem, task=replace(problem.task, views=still)).run()
    method = replace(METHOD, boot=0.3, boot_from=0, alpha=1e-3)  # next to nothing is mixed
    state, losses = method.setup(run), []
    monkeypatch.setattr(type(run), "step", lambda self, learner, loss: losses.append(loss.item()))
    run.begin(4)
    method.fine_tune(state, run)
    replace(method, boot_from=1).fine_tune(state, run)  # later: the given labels alone
    logits = run.predict(state.learner.net)
    targets = 0.7 * F.one_hot(run.y, 3) + 0.3 * F.one_hot(logits.argmax(1), 3)
    expected = [F.cross_entropy(logits, wanted).item() for wanted in (targets, run.y)]
    assert losses == pytest.approx(expected, rel=1e-3)
    assert expected[0] != pytest.approx(expected[1], rel=1e-2)
