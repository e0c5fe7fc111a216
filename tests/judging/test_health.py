"""The health of the data: what was planted is found, and little else."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from scipy.stats import binomtest
from sklearn.datasets import load_digits

from labelproof.judging.groups import Whole, by_group
from labelproof.judging.health import (
    NEAR,
    Neighbours,
    indistinct_classes,
    leaks,
    merged_classes,
    near_duplicates,
    near_limit,
    neighbours,
    outliers,
    rare_classes,
    robust_scores,
    separation,
    split_classes,
    spread_around,
    telling,
    wilson,
    without_class,
)
from labelproof.judging.numbers import logit, sigmoid
from labelproof.judging.regions import counting, failing, harmful, in_order, sorted_by_class


def _vectors(size: int = 300, seed: int = 0) -> tuple[torch.Tensor, torch.Tensor]:
    rng = torch.Generator().manual_seed(seed)
    labels = torch.arange(size) % 3
    centres = 4 * torch.eye(3, 16)
    return centres[labels] + torch.randn(size, 16, generator=rng), labels


def test_near_duplicates_within_and_leaks_into_test() -> None:
    x, _ = _vectors()
    x[7] = x[100] * 1.001 + 1e-3
    near = neighbours(x)
    pairs = near_duplicates(near)
    assert [(a, b) for a, b, _ in pairs] == [(7, 100)]
    test, _ = _vectors(60, seed=1)
    test[5] = x[40] + 1e-4
    found = leaks(neighbours(test, x, 1), near_limit(near))
    assert [(a, b) for a, b, _ in found] == [(5, 40)]


def test_neighbours_against_scikit_learn() -> None:
    from sklearn.neighbors import NearestNeighbors

    x, _ = _vectors()
    ours = neighbours(x, count=5)
    distance, index = NearestNeighbors(n_neighbors=6, metric="cosine").fit(x).kneighbors(x)
    assert np.allclose(ours.distance.numpy(), distance[:, 1:], atol=1e-5)
    assert (ours.index.numpy() == index[:, 1:]).mean() > 0.99


def test_outliers_are_found_and_few_others() -> None:
    x, _ = _vectors()
    x[[3, 50]] = -6 * torch.eye(16)[[10, 12]]
    found = [row for row, _ in outliers(neighbours(x))]
    assert set(found[:2]) == {3, 50}
    assert len(found) <= 6


def test_what_datalab_finds_is_found() -> None:
    datalab = pytest.importorskip("cleanlab").Datalab
    x, y = load_digits(return_X_y=True)
    rng = np.random.default_rng(0)
    keep = (y != 3) | (rng.random(len(y)) < 0.05)
    x, y = x[keep][:800].astype(np.float32), y[keep][:800]
    x[:10] = x[20:30] + 0.02 * rng.normal(size=(10, 64))
    x[40:50] = 40 * np.eye(64, dtype=np.float32)[:10]
    lab = datalab({"y": y.tolist()}, label_name="y", verbosity=0)
    lab.find_issues(features=x, issue_types={"outlier": {}, "near_duplicate": {},
                                             "class_imbalance": {}})  # fmt: skip
    theirs = lab.get_issues()
    near = neighbours(torch.from_numpy(x))
    ours = {
        "near_duplicate": {row for a, b, _ in near_duplicates(near) for row in (a, b)},
        "outlier": {row for row, _ in outliers(near)},
        "class_imbalance": set(
            np.flatnonzero(np.isin(y, [k for k, _ in rare_classes(torch.from_numpy(y), 10)]))
        ),
    }
    for kind, found in ours.items():
        there = set(np.flatnonzero(theirs[f"is_{kind}_issue"]).tolist())
        assert len(there) >= 4
        assert there <= found
    assert {*range(10), *range(20, 30)} <= ours["near_duplicate"]
    assert set(range(40, 50)) <= ours["outlier"]


def test_rows_sorted_by_class_are_told_from_rows_in_order() -> None:
    datalab = pytest.importorskip("cleanlab").Datalab
    x, y = load_digits(return_X_y=True)
    x, y = x[:600].astype(np.float32), y[:600]
    rng = np.random.default_rng(0)
    mixed = rng.permutation(600)
    for order, sorted_ in ((mixed[np.argsort(y[mixed], kind="stable")], True), (mixed, False)):
        lab = datalab({"y": y[order].tolist()}, label_name="y", verbosity=0)
        lab.find_issues(features=x[order], issue_types={"non_iid": {}})
        near, labels = neighbours(torch.from_numpy(x[order])), torch.from_numpy(y[order])
        found = sorted_by_class(labels)
        assert bool(lab.get_issues()["is_non_iid_issue"].any()) == sorted_ == bool(found)
        assert not in_order(near, labels)
    assert sorted_by_class(torch.arange(10).repeat_interleave(60)) == 600
    assert sorted_by_class(torch.zeros(50, dtype=torch.long)) == 0
    assert len(in_order(neighbours(torch.from_numpy(x[np.argsort(y)])))) > 300  # of no class


def test_rows_that_follow_each_other_within_their_classes_are_in_an_order() -> None:
    rng = np.random.default_rng(0)
    labels = torch.arange(3).repeat_interleave(150)
    walk = rng.normal(size=(450, 6)).cumsum(0)  # recorded one after the other
    x = torch.tensor(np.eye(3, 6)[labels] * 30 + walk)
    assert len(in_order(neighbours(x), labels)) > 300
    mixed = torch.cat([part[rng.permutation(150)] for part in x.split(150)])
    assert not in_order(neighbours(mixed), labels)


def test_columns_that_count_rows_are_known() -> None:
    rng = np.random.default_rng(0)
    labels = torch.arange(2).repeat_interleave(100)
    row = np.arange(200)
    late = np.where(row < 100, row, row - 100) + 3 * rng.random(200)  # counts within each class
    days = row // 4  # several rows a day
    x = np.stack([rng.normal(size=200), np.exp(row / 30), days, -days, late, row % 2], 1)
    assert counting(torch.tensor(x), labels).tolist() == [False, True, True, True, True, False]


def test_a_slow_drift_is_an_order_too() -> None:
    rng = np.random.default_rng(1)
    x = rng.normal(size=(400, 6)) + np.linspace(0, 2.5, 400)[:, None] * np.eye(6)[0]
    assert in_order(neighbours(torch.tensor(x)))
    assert not in_order(neighbours(torch.tensor(x[np.random.default_rng(5).permutation(400)])))


def test_regions_where_the_model_fails() -> None:
    rng = np.random.default_rng(0)
    x = np.repeat(np.eye(4), 50, axis=0) + 0.05 * rng.normal(size=(200, 4))
    given = torch.full((200,), 0.9)
    given[50:100] = 0.05  # labels of a whole group that the model never expects
    given[[3, 160]] = 0.05  # single wrong labels are none
    found = failing(neighbours(torch.tensor(x)), given)
    assert {row for row, _ in found} == set(range(50, 100))
    assert all(local == pytest.approx(0.05) for _, local in found)


def test_a_list_no_better_than_chance_is_none() -> None:
    wrong, rows = torch.full((100,), 0.1), torch.arange(0, 40)
    assert telling(rows, wrong, 0.1).tolist() == []
    wrong[:40] = 0.2  # 20% of 40: from 10.5% on
    assert telling(rows, wrong, 0.1).tolist() == rows.tolist()
    assert telling(rows, wrong, 0.11).tolist() == []
    assert telling(rows[:0], wrong, 0.0).tolist() == []


def test_what_no_class_fits() -> None:
    spread = torch.full((200,), 0.1) + 0.01 * torch.rand(200)
    spread[[4, 9]] = torch.tensor([0.8, 0.9])
    spread[11] = 0.6  # unusual, but not spread far
    assert [row for row, _ in without_class(spread, 3)] == [9, 4]
    assert without_class(spread, 2) == []  # it may as well be either
    usual = torch.linspace(0.7, 0.95, 200)
    assert without_class(usual, 3) == []


def test_how_far_labels_of_neighbours_are_spread() -> None:
    index = torch.tensor([[1, 2, 3], [0, 2, 3], [0, 1, 3], [0, 1, 2]])
    near = Neighbours(index=index, distance=torch.zeros(4, 3))
    found = spread_around(near, torch.tensor([0, 1, 2, 2]), 3)
    shares = torch.tensor([1 / 3, 4 / 3, 7 / 3]).double() / 4  # around the first
    expected = -(shares * shares.log()).sum() / torch.tensor(3.0).double().log()
    assert found[0].item() == pytest.approx(expected.item())
    assert found[2].item() == pytest.approx(1.0)  # one label of each class


def test_classes_that_are_two_or_one() -> None:
    x, labels = _vectors(600)
    x[labels == 2] += torch.where(torch.arange(200) % 2 == 0, 9.0, -9.0)[:, None] * torch.eye(16)[5]
    assert [code for code, _ in split_classes(x, labels, 3)] == [2]
    x, labels = _vectors(600)
    wrong = (labels == 1) & (torch.arange(600) < 180)
    labels[wrong] = 0  # so class 0 has a second group, which only looks like a class of its own
    x[:, 1] *= 3
    assert [code for code, _ in split_classes(x, labels, 3)] == [0]
    assert split_classes(x, labels, 3, ~wrong) == []
    rng = torch.Generator().manual_seed(0)
    assert separation(torch.randn(4000, 2, generator=rng)) == pytest.approx(2.65, abs=0.15)
    mixed = torch.tensor([[0.6, 0.4, 0.0], [0.35, 0.65, 0.0], [0.3, 0.0, 0.7]])
    assert merged_classes(mixed) == [(0, 1, pytest.approx(0.35))]


def test_classes_that_no_model_can_tell_apart_may_be_one() -> None:
    rng = torch.Generator().manual_seed(0)
    truth = torch.arange(900) % 3
    scores = torch.randn(900, 4, generator=rng) + 5 * torch.eye(4)[truth]
    scores[:, 3] = scores[:, 2] + 0.3 * torch.randn(900, generator=rng)
    labels = torch.where((truth == 2) & (torch.rand(900, generator=rng) < 0.3), 3, truth)
    (found,) = indistinct_classes(scores.log_softmax(1), labels)
    assert found[:2] == (2, 3)
    assert 0.4 < found[2] <= 0.5
    mixed = (truth == 0) & (torch.arange(900) < 270)  # three of ten labels of a class are wrong
    assert indistinct_classes(scores[:, :3].log_softmax(1), torch.where(mixed, 1, truth)) == []
    few = (truth == 2) & (torch.arange(900) < 57)  # 19 examples are too few to say
    assert indistinct_classes(scores.log_softmax(1), torch.where(few, 3, truth)) == []


def test_the_halves_of_a_class_do_not_depend_on_earlier_draws() -> None:
    rows, found = torch.randn(300, 40, generator=torch.Generator().manual_seed(0)), set()
    for seed in range(5):
        torch.manual_seed(seed)
        found.add(separation(rows))
    assert len(found) == 1


def test_rare_classes_and_shares() -> None:
    labels = torch.tensor([0] * 500 + [1] * 490 + [2] * 10)
    assert rare_classes(labels, 3) == [(2, 10)]
    low, high = wilson(0.1, 100)
    assert (low, high) == pytest.approx((0.0552, 0.1744), abs=1e-3)  # Wilson, in closed form
    assert wilson(0.0, 0) == (0.0, 1.0)


def test_groups() -> None:
    groups = ["phone"] * 50 + ["scan"] * 50
    clean = torch.cat([torch.full((50,), 0.6), torch.full((50,), 0.95)])
    labels = torch.cat([torch.zeros(50), torch.arange(50) % 2]).long()
    right = torch.cat([torch.full((50,), 0.7), torch.full((50,), 0.9)])
    found = by_group(groups, clean, clean < 0.7, labels, 2, right)
    assert [one.accuracy for one in found] == pytest.approx([0.7, 0.9])
    rounded = by_group(groups, clean, clean < 0.7, labels, 2, torch.full((100,), 1.0001))
    assert [one.accuracy for one in rounded] == [1.0, 1.0]
    assert by_group(groups, clean, clean < 0.7, labels, 2)[0].accuracy is None
    assert [(one.name, one.size, one.suspects) for one in found] == [
        ("phone", 50, 50),
        ("scan", 50, 0),
    ]
    assert found[0].low < 0.4 < found[0].high
    assert found[0].unusual == pytest.approx(0.25)


@pytest.mark.parametrize(("count", "of"), [(10, 100), (0, 30), (30, 30), (3, 7)])
def test_shares_have_the_interval_of_wilson(count: int, of: int) -> None:
    low, high = wilson(count / of, of)
    theirs = binomtest(count, of).proportion_ci(method="wilson")
    assert (low, high) == pytest.approx((theirs.low, theirs.high), abs=1e-6)


def near_by_hand(index: list[int], distance: list[float]) -> Neighbours:
    """One neighbour of each example."""
    return Neighbours(
        index=torch.tensor(index)[:, None], distance=torch.tensor(distance).double()[:, None]
    )


def test_pairs_are_listed_once_the_nearest_first() -> None:
    near = near_by_hand([1, 0, 3, 2, 0], [0.02, 0.02, 0.01, 0.01, 0.3])
    pairs = [(0, 1, pytest.approx(0.02)), (2, 3, pytest.approx(0.01))]
    assert near_duplicates(near, 0.02) == pairs[::-1]
    assert near_duplicates(near, 0.015) == pairs[1:]
    test = near_by_hand([5, 7, 9], [0.02, 0.01, 0.3])
    assert leaks(test, 0.02) == [(1, 7, pytest.approx(0.01)), (0, 5, pytest.approx(0.02))]
    assert near_limit(near_by_hand([1, 0, 0], [0.1, 0.2, 0.3])) == pytest.approx(0.2 * NEAR)
    assert near_limit(near_by_hand([1, 0, 0], [0.1, 0.2, 0.3]), 0.5) == pytest.approx(0.1)
    assert near_limit(near_by_hand([1, 0], [0.0, 0.0])) == 1e-6


def test_robust_scores_by_hand() -> None:
    found = robust_scores(torch.tensor([1.0, 2.0, 3.0, 4.0, 100.0]).double())
    assert (1.4826 * found).tolist() == pytest.approx([-2.0, -1.0, 0.0, 1.0, 97.0])


def test_distances_over_decades_have_outliers_beyond_the_upper_fence() -> None:
    distance = torch.logspace(-4, 0, 201).double()  # quartiles 0.001 and 0.1
    near = near_by_hand([0] * 201, distance.tolist())
    found = [row for row, _ in outliers(near)]
    beyond = (distance > 0.1 + 1.7 * 0.099).nonzero().squeeze(1).tolist()
    assert found == beyond[::-1]  # the farthest first
    assert all(score < 2.2 for _, score in outliers(near))  # none by the log scale


def test_classes_are_listed_from_the_worst() -> None:
    mixed = torch.tensor(
        [[0.7, 0.3, 0.0, 0.0], [0.3, 0.7, 0.0, 0.0], [0.0, 0.0, 0.6, 0.4], [0.0, 0.25, 0.4, 0.35]]
    )
    mixed[1, 3] = 0.25  # what they exchange must be above a quarter
    assert [(a, b) for a, b, _ in merged_classes(mixed)] == [(2, 3), (0, 1)]
    labels = torch.tensor([0] * 386 + [1] * 8 + [2] * 2 + [3] * 4)
    assert rare_classes(labels, 4) == [(2, 2), (3, 4), (1, 8)]
    assert rare_classes(torch.tensor([0] * 290 + [1] * 10), 3) == [(2, 0)]  # a tenth is enough


def test_twenty_examples_are_needed_to_split_a_class() -> None:
    rng = torch.Generator().manual_seed(0)
    side = torch.where(torch.arange(40) % 2 == 0, 9.0, -9.0)
    x = torch.randn(40, 4, generator=rng) + side[:, None] * torch.eye(4)[0]
    x[20:] *= 2  # the second class spreads as its halves lie farther apart
    x[20:, 0] += 9.0 * side[20:].sign()
    labels = torch.arange(2).repeat_interleave(20)
    found = split_classes(x, labels, 2)
    assert {code for code, _ in found} == {0, 1}
    assert found[0][1] > found[1][1] > 4
    assert [code for code, _ in split_classes(x[1:], labels[1:], 2)] == [1]


def test_regions_are_listed_from_the_worst() -> None:
    near = near_by_hand([1, 0, 3, 2, 5, 4], [0.1] * 6)
    given = torch.tensor([0.9, 0.9, 0.2, 0.1, 0.05, 0.05])  # a mean of 11/30, a third of it 11/90
    assert failing(near, given) == [
        (4, pytest.approx(0.05)),
        (5, pytest.approx(0.05)),
    ]
    given[2] = 0.1
    assert [row for row, _ in failing(near, given)] == [4, 5, 2, 3]


def test_a_group_is_stated_no_surer_than_all_labels() -> None:
    clean = torch.cat([torch.full((500,), 0.7), torch.full((500,), 0.99)])
    labels, groups = torch.arange(1000) % 2, ["a"] * 500 + ["b"] * 500
    more = {"groups": groups, "clean": clean, "suspect": clean < 0.5, "labels": labels}
    sure = Whole(rate=0.155, low=0.08, high=0.27, ambiguous=False)
    noisy, quiet = by_group(**more, classes=2, whole=sure)
    assert noisy.wrong == pytest.approx(0.3)
    assert 0.08 < noisy.low < 0.3 < noisy.high < 0.6
    assert (quiet.low, quiet.wrong) == (0.0, pytest.approx(0.01))
    width = logit(np.array([noisy.low, noisy.high, 0.08, 0.27]))
    assert width[1] - width[0] > width[3] - width[2]
    wide = by_group(**more, classes=2, whole=Whole(low=0.01, high=0.8, ambiguous=False))
    assert [one.name for one in wide] == ["a", "b"]
    assert wide[0].wrong is None
    assert wide[0].high > 0.8
    unclear = by_group(**more, classes=2, whole=Whole(low=0.0, high=0.5, ambiguous=True))
    assert (unclear[0].low, unclear[1].low) == (0.0, 0.0)
    assert unclear[1].high >= 0.5
    open_ = by_group(**more, classes=2, whole=Whole(ambiguous=False))
    assert [(one.wrong, one.low, one.high) for one in open_] == [(None, 0.0, 1.0)] * 2
    unknown = by_group(**more, classes=2)
    assert [(one.wrong, one.low, one.high) for one in unknown] == [(None, 0.0, 1.0)] * 2


def test_the_interval_of_a_group_by_hand() -> None:
    clean = torch.cat([torch.full((50,), 0.6), torch.full((50,), 0.999), torch.full((4,), 0.01)])
    labels = torch.arange(104) % 2
    groups = ["a"] * 50 + ["b"] * 50 + ["c"] * 4
    whole = Whole(rate=0.2, low=0.15, high=0.3, ambiguous=False)
    worst, usual, best = by_group(groups, clean, clean < 0.5, labels, 2, whole=whole)
    half = 1.645 * (0.675**2 + 1 / 20) ** 0.5
    ends = sigmoid(logit(np.array([0.4])) + np.array([-half, half]))
    assert (usual.low, usual.high) == pytest.approx(tuple(ends), abs=1e-6)
    assert best.low == 0.0
    assert worst.high > 0.99
    assert usual.classes == [0.5, 0.5]


def test_value_of_examples_is_cleanlabs() -> None:
    rng = np.random.default_rng(0)
    labels = rng.integers(0, 3, 200)
    x = rng.normal(size=(200, 6)) + 2 * np.eye(6)[labels]
    valuation = pytest.importorskip("cleanlab.data_valuation")
    values = 2 * valuation.data_shapley_knn(labels, features=x, k=10) - 1
    found = harmful(neighbours(torch.from_numpy(x)), torch.from_numpy(labels))
    assert {row for row, _ in found} == set(np.flatnonzero(values < -1e-12).tolist())
    assert found[0][0] == values.argmin()
    for row, value in found:
        assert value == pytest.approx(200 * values[row])
