"""The random forest as a view: what it has not seen, which data gets one, and what it is for."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from sklearn.metrics import roc_auc_score

from labelproof import NoisyLabelClassifier
from labelproof.judging.forest import MOST_CELLS, forest, forest_in_time


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
    said = forest(x, y, 4, group)
    changed = forest(x, torch.where(group == 5, (y + 1) % 4, y), 4, group)
    assert torch.equal(changed[group == 5], said[group == 5])
    assert not torch.equal(changed[group != 5], said[group != 5])
    assert (said.argmax(1) == y).float().mean() > 0.9


def test_it_says_distributions_also_of_a_class_with_one_example():
    x, y = table(60)
    lone = torch.where(torch.arange(60) == 7, 4, y)  # one example of a fifth class
    said = forest(x, lone, 5, torch.arange(60))
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
