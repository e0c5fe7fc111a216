"""The same input twice with two labels: at most one is right, and which one is said."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest
import torch

from labelproof import NoisyLabelClassifier
from labelproof.data.examples import Resident
from labelproof.judging.crossfit import copies, copies_together, folds

sys.path.insert(0, str(Path(__file__).parents[1] / "estimator"))
from noisy_blobs import noisy_blobs

COPIES = 30


@pytest.mark.parametrize("count", [2, 5])
def test_copies_lie_in_one_fold(count: int) -> None:
    x = torch.randn(100, 3, generator=torch.Generator().manual_seed(0))
    x[60:] = x[:40]
    before = folds(torch.arange(100) % 4, count, seed=1)
    fold = copies_together(before, copies(Resident(x)))
    assert torch.equal(fold[60:], before[:40])
    assert torch.equal(fold[:60], before[:60])


def test_folds_stay_where_everything_is_one_copy() -> None:
    fold = folds(torch.arange(50) % 2, 2, seed=0)
    assert copies_together(fold, copies(Resident(torch.ones(50, 2)))) is fold


def test_of_two_conflicting_copies_the_wrong_label_is_the_suspect() -> None:
    data = noisy_blobs(240, noise=0.1, words=True)
    right = data.truth[:COPIES]
    wrong = np.where(right == "bee", "cow", "bee")
    X = np.concatenate([data.X, data.X[:COPIES]])
    y = np.concatenate([right, data.y[COPIES:], wrong])
    paper = {
        "start": "warm-up", "selector": "mirror", "steps": 0, "draws": 2, "join_at": 0.0,
        "lr": 0.1, "lr_unit": "one", "schedule": "step", "weight_decay": 5e-4, "prior": "uniform",
        "batch": 30, "warmup": 3, "epochs": 8,
    }  # fmt: skip
    model = NoisyLabelClassifier(settings=paper).fit(X, y)
    first, second = slice(0, COPIES), slice(len(data.X), None)
    same = model.suggested_labels_[first] == model.suggested_labels_[second]
    assert same.mean() > 0.85
    assert np.mean(model.clean_proba_[first] > model.clean_proba_[second]) > 0.85
    suspect = model.label_table_.suspect.numpy()
    assert suspect[first].mean() < 0.15
    assert suspect[second].mean() > 0.7
