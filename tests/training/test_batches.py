"""Batches: every example its turn, whatever is fetched ahead."""

from __future__ import annotations

import threading
from collections import Counter
from dataclasses import dataclass, replace
from itertools import islice

import pytest
import torch
from torch import Tensor

from labelproof.data.examples import Resident
from labelproof.data.task import Strong
from labelproof.training.batches import Batch, Batches, Pinned, read_ahead
from labelproof.training.ranks import Ranks
from tiny import Problem, Slow, blobs, patterns

TEN = torch.arange(10)


def indices(batches: list[Batch]) -> list[list[int]]:
    return [batch.index.tolist() for batch in batches]


@pytest.fixture
def problem() -> Problem:
    return blobs(size=10)


def test_a_pass_gives_every_example_once_up_to_the_remainder(problem):
    batches = problem.run().batches(3)
    taken = indices(list(batches))
    assert [len(rows) for rows in taken] == [3, 3, 3]
    assert len(batches) == 3
    assert len({row for rows in taken for row in rows}) == 9


def test_over_many_passes_the_remainder_is_anyones(problem):
    seen = Counter(row for batch in islice(problem.run().batches(3, forever=True), 300)
                   for row in batch.index.tolist())  # fmt: skip
    assert set(seen) == set(range(10))
    assert all(60 < count < 100 for count in seen.values())  # 90 expected, never above 100


def test_a_set_smaller_than_a_batch_makes_one_smaller_batch(problem):
    batches = problem.run().batches(64)
    assert len(batches) == 1
    (batch,) = batches
    assert sorted(batch.index.tolist()) == list(range(10))


def test_the_order_changes_from_pass_to_pass(problem):
    first, second = islice(problem.run().batches(10, forever=True), 2)
    assert sorted(first.index.tolist()) == sorted(second.index.tolist()) == list(range(10))
    assert first.index.tolist() != second.index.tolist()


def test_passes_without_end_go_over_a_small_set_again_and_again(problem):
    batches = problem.run().batches(4, torch.tensor([7, 2]), forever=True)
    assert all(sorted(rows) == [2, 7] for rows in indices(list(islice(batches, 50))))


@pytest.mark.parametrize("forever", [False, True])
@pytest.mark.parametrize("fetched", [False, True])
def test_no_examples_no_batches(problem, forever, fetched):
    task = replace(problem.task, x=Slow(problem.task.x)) if fetched else problem.task
    none = torch.tensor([], dtype=torch.int64)
    batches = replace(problem, task=task).run().batches(4, none, forever=forever)
    assert len(batches) == 0
    assert list(batches) == []


def test_labels_and_inputs_belong_to_the_indices(problem):
    task = problem.task
    for batch in problem.run().batches(4, views=("plain", "plain")):
        expected = task.views.plain(task.x.take(batch.index))
        assert torch.equal(batch.y, task.y[batch.index])
        assert all(torch.equal(view, expected) for view in batch.views)
        assert len(batch.views) == 2


def test_only_chosen_examples_come(problem):
    chosen = torch.tensor([1, 4, 8, 9])
    taken = indices(list(problem.run().batches(2, chosen)))
    assert sorted(row for rows in taken for row in rows) == chosen.tolist()


def test_views_are_drawn_anew_and_differ(problem):
    (batch,) = problem.run().batches(10, views=("weak", "weak", "strong", "plain"))
    first, second, strong, plain = batch.views
    assert not torch.equal(first, second)
    assert not torch.equal(first, plain)
    assert (strong - plain).norm() > (first - plain).norm()


@pytest.mark.parametrize("views", [(), ("plain",), ("weak", "weak"), ("strong", "weak")])
def test_the_order_does_not_depend_on_the_views(problem, views):
    expected = indices(list(problem.run().batches(3)))
    assert indices(list(problem.run().batches(3, views=views))) == expected


def test_order_and_views_follow_from_seed_and_epoch(problem):
    def drawn(seed: int, epoch: int) -> Tensor:
        run = problem.run(seed)
        run.begin(epoch)
        return torch.cat([batch.views[0] for batch in run.batches(5)])

    assert torch.equal(drawn(0, 3), drawn(0, 3))
    assert not torch.equal(drawn(0, 3), drawn(0, 4))
    assert not torch.equal(drawn(0, 3), drawn(1, 3))


@pytest.mark.parametrize("make", [blobs, patterns])
def test_what_must_be_fetched_gives_the_same_batches(make):
    problem = make(size=30)
    slow = replace(problem, task=replace(problem.task, x=Slow(problem.task.x)))

    def two_interleaved(source: Problem) -> list[Batch]:
        run = source.run()
        labelled = run.batches(4, torch.arange(18), ("weak", "strong"))
        others = run.batches(4, torch.arange(18, 30), ("weak",), forever=True)
        return [batch for pair in zip(labelled, others, strict=False) for batch in pair]

    expected, fetched = two_interleaved(problem), two_interleaved(slow)
    assert len(expected) == len(fetched) == 8
    for ours, theirs in zip(expected, fetched, strict=True):
        assert torch.equal(ours.index, theirs.index)
        assert torch.equal(ours.y, theirs.y)
        assert all(map(torch.equal, ours.views, theirs.views))


@dataclass(frozen=True)
class Recording(Slow):
    """Says which rows were asked for, and fails on a bad one."""

    asked: tuple[list[int], ...] = ([],)

    def take(self, index: Tensor) -> Tensor:
        self.asked[0].append(int(index[0]))
        if index[0] == 5:
            raise OSError("cannot read example 5")
        return self.inner.take(index)


def test_reading_goes_a_few_batches_ahead_and_no_further():
    x = Recording(Resident(torch.arange(10.0)[:, None]), asked=([],))
    reader = read_ahead(x, iter(torch.arange(5)[:, None]), depth=2)
    row, raw = next(reader)
    assert (row.item(), raw.item()) == (0, 0.0)
    reader.close()  # waits for what was asked
    assert x.asked[0] == [0, 1, 2]


def test_an_input_that_cannot_be_read_is_said_when_its_turn_comes():
    x = Recording(Resident(torch.arange(10.0)[:, None]), asked=([],))
    reader = read_ahead(x, iter(torch.arange(10)[:, None]))
    assert [row.item() for row, _ in islice(reader, 5)] == [0, 1, 2, 3, 4]
    with pytest.raises(OSError, match="example 5"):
        next(reader)


def test_batches_are_a_record(problem):
    batches = problem.run().batches(4)
    assert isinstance(batches, Batches)
    assert torch.equal(batches.index, TEN)


def test_a_method_can_bring_its_own_strong_view():
    own, problem = Strong(small="cifar10_ninths", large="imagenet"), patterns(size=10)
    views = replace(problem.task.views, policy="cifar10_ninths", cutout=0)
    same = replace(problem, task=replace(problem.task, views=views))
    (batch,), (expected,) = (
        problem.run().batches(10, views=(own,)),
        same.run().batches(10, views=("strong",)),
    )
    assert torch.equal(batch.views[0], expected.views[0])
    (datas,) = problem.run().batches(10, views=("strong",))
    assert not torch.equal(batch.views[0], datas.views[0])
    assert replace(views, crop="resized").like(own).policy == "imagenet"
    assert problem.task.views.like(replace(own, cutout=True)).cutout == 4


def test_vectors_have_one_strong_view(problem):
    own = Strong(small="cifar10_ninths", large="imagenet")
    (batch,), (expected,) = (problem.run().batches(10, views=(v,)) for v in (own, "strong"))
    assert torch.equal(batch.views[0], expected.views[0])


def test_what_does_not_fit_on_a_gpu_is_pinned_ahead_by_every_process(monkeypatch):
    threads = []

    def pinned(tensor: Tensor) -> Tensor:
        threads.append(threading.current_thread())
        return tensor

    monkeypatch.setattr(Tensor, "pin_memory", pinned)
    x, rows = Resident(torch.arange(20.0).view(10, 2)), TEN.view(5, 2)
    found = [raw for _, raw in read_ahead(Pinned(x), iter(rows), Ranks(1, 2))]  # no exchange
    assert torch.equal(torch.cat(found), x.data)
    assert len(threads) == len(rows)
    assert threading.main_thread() not in threads
