"""The random forest: what it has not seen, which data gets one, its arrays, and what it is for."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from sklearn.metrics import roc_auc_score
from sklearn.tree import DecisionTreeClassifier

from labelproof import NoisyLabelClassifier
from labelproof.errors import BadInput
from labelproof.judging.calibration import unseen_scores
from labelproof.judging.forest import (
    LEAF,
    MOST_CELLS,
    Forest,
    forest_in_time,
    grown,
    packed,
    tilt_of,
)
from labelproof.judging.unseen import Cheap, Unseen


def table(size: int = 400) -> tuple[torch.Tensor, torch.Tensor]:
    """Six columns; the class is which side of two thresholds a row is on, like a chessboard's."""
    rng = np.random.default_rng(0)
    x = rng.uniform(size=(size, 6))
    y = ((x[:, 0] > 0.6).astype(int) + 2 * (x[:, 1] > 0.3)).astype(int)
    return torch.from_numpy(x).float(), torch.from_numpy(y)


@pytest.mark.parametrize("drawn", [4000, 150])  # for a tree: all that there are, or some
def test_a_label_does_not_change_what_the_forest_says_of_its_example_and_its_copies(
    drawn, monkeypatch
):
    monkeypatch.setattr("labelproof.judging.forest.DRAWN", drawn)
    x, y = table()
    x[9], group = x[5], torch.arange(400)
    group[9] = 5
    said, _ = grown(x, y, 4, group)
    changed, _ = grown(x, torch.where(group == 5, (y + 1) % 4, y), 4, group)
    assert torch.equal(changed[group == 5], said[group == 5])
    assert not torch.equal(changed[group != 5], said[group != 5])
    assert (said.argmax(1) == y).float().mean() > 0.9


def test_it_says_distributions_also_of_a_class_with_one_example():
    x, y = table(60)
    lone = torch.where(torch.arange(60) == 7, 4, y)  # one example of a fifth class
    said, _ = grown(x, lone, 5, torch.arange(60))
    assert said.isfinite().all()
    assert torch.allclose(said.exp().sum(1), torch.ones(60).double())
    assert said[7, 4].exp() < 0.01  # the trees without it know no such class


def test_tables_get_one_and_long_or_many_vectors_do_not():
    assert forest_in_time(5000, 30, 3)
    assert not forest_in_time(1000, 512, 3)
    assert not forest_in_time(int(MOST_CELLS), 2, 2)
    assert not forest_in_time(20_000, 30, 100)


def test_labels_of_a_table_with_thresholds_are_judged_with_its_help():
    x, y = table(500)
    rng = np.random.default_rng(1)
    given, wrong = y.numpy().copy(), rng.random(500) < 0.25
    given[wrong] = (given[wrong] + rng.integers(1, 4, wrong.sum())) % 4
    model = NoisyLabelClassifier("ce", epochs=20, calibrate=True).fit(x.numpy(), given)
    assert len(model.calibration_.judgement.weights) == 4
    assert roc_auc_score(wrong, 1 - model.clean_proba_) > 0.97


def test_the_arrays_predict_what_the_trees_of_scikit_learn_do():
    """Also of columns with few values in single precision, where thresholds are hard to round."""
    rng = np.random.default_rng(0)
    steps = np.nextafter(np.float32(1), np.float32(2)) ** rng.integers(0, 9, (500, 2))
    x = np.concatenate([rng.normal(size=(500, 3)), steps], 1).astype(np.float32)
    y = rng.integers(0, 5, 500)
    y[x[:, 4] > 1] = 2
    trees = [
        DecisionTreeClassifier(max_features="sqrt", min_samples_leaf=LEAF, random_state=n).fit(
            x[n::7], y[n::7]
        )
        for n in range(7)
    ]
    expected = np.full((500, 5), 1 / 5)
    for tree in trees:
        expected[:, tree.classes_] += tree.predict_proba(x)
    found = packed(trees, torch.zeros(5))
    assert found.depth == max(tree.get_depth() for tree in trees)
    said = found(torch.from_numpy(x)).exp()
    torch.testing.assert_close(said, torch.from_numpy(expected / 8).float(), rtol=1e-5, atol=1e-6)
    wide = torch.cat([torch.from_numpy(x), torch.ones(500, 3)], 1)  # more numbers than columns
    torch.testing.assert_close(found(wide).exp(), said)


def test_rare_classes_are_predicted_as_often_as_hits_are_counted():
    labels = torch.tensor([0] * 90 + [1] * 10)
    tilt = tilt_of(labels, 3)
    assert tilt[0] == 0
    assert tilt[1].item() == pytest.approx(np.log(9) / 2)  # decides where p(1) = p(0) / 3
    assert tilt[2].item() == pytest.approx(np.log(90) / 2)
    x, y = table(80)
    _, trees = grown(x, torch.where(y == 0, 0, 1), 2, torch.arange(80))
    assert trees is not None
    assert torch.equal(trees.tilt, tilt_of(torch.where(y == 0, 0, 1), 2))


def test_too_many_leaves_judge_and_do_not_predict(monkeypatch):
    x, y = table(80)
    before, _ = grown(x, y, 4, torch.arange(80))
    monkeypatch.setattr("labelproof.judging.forest.MOST_KEPT", 100)
    said, trees = grown(x, y, 4, torch.arange(80))
    assert torch.equal(said, before)
    assert trees is None


@pytest.mark.parametrize(
    ("name", "value", "words"),
    [
        ("onward", 10**6, "does not fit together"),
        ("roots", -1, "does not fit together"),
        ("leaf", 10**6, "does not fit together"),
        ("column", 100, "does not fit together"),
        ("onward", 0, "has no end"),
    ],
)
def test_a_saved_forest_that_points_outside_is_refused(name, value, words):
    x, y = table(80)
    _, trees = grown(x, y, 4, torch.arange(80))
    assert trees is not None
    tensors = trees.tensors()
    again = Forest.revive(tensors)
    assert torch.equal(again(x), trees(x))
    broken = dict(tensors)
    inner = (trees.onward[:, 0] != torch.arange(len(trees.column))).nonzero()[-1].item()
    broken[f"forest:{name}"] = tensors[f"forest:{name}"].clone()
    broken[f"forest:{name}"][0 if name == "roots" else inner] = value
    if words == "has no end":  # a node that leads back to the first one
        broken["forest:onward"] = torch.zeros_like(tensors["forest:onward"])
        broken["forest:onward"][0] = 1
    with pytest.raises(BadInput, match=words):
        Forest.revive(broken)


def test_the_judge_is_told_which_view_is_the_forest():
    views = tuple(np.log(np.full((90, 3), share)) for share in (0.2, 0.3))
    for cut, place in ((True, 2), (False, None)):
        said = Unseen(scores=torch.zeros(90, 3), cheap=Cheap(views=views, cut=cut), folds=[])
        heard = unseen_scores(None, torch.ones(90, 3), said, joins=True)  # there is nothing to join
        assert heard.forest == place
        assert np.array_equal(heard.views[1:], np.stack(views))
        assert heard.together is None
        assert torch.equal(heard.own, torch.ones(90, 3))


def test_trees_that_leave_all_examples_out_or_none_are_not_grown(monkeypatch):
    monkeypatch.setattr("labelproof.judging.forest.TREES", 40)
    _, forest = grown(torch.eye(3), torch.tensor([0, 1, 1]), 2, torch.arange(3))
    drawn = np.random.default_rng(0).poisson(1, (40, 3))
    left_out = (drawn == 0).sum(1)
    assert len(forest.roots) == ((left_out > 0) & (left_out < 3)).sum() > 20
