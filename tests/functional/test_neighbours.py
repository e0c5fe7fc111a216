"""Neighbours and their votes against another library."""

import numpy as np
import pytest
import torch
from sklearn.neighbors import NearestNeighbors

from labelproof.functional import contrast
from labelproof.functional.contrast import label_votes, nearest_by_angle

FEATURES = torch.randn(60, 7, generator=torch.Generator().manual_seed(0))


@pytest.mark.parametrize("with_self", [True, False])
@pytest.mark.parametrize("block", [1, 500, 2**24])
def test_neighbours_are_those_of_another_library(with_self, block, monkeypatch):
    monkeypatch.setattr(contrast, "BLOCK", block)
    finder = NearestNeighbors(n_neighbors=9, metric="cosine").fit(FEATURES.numpy())
    expected = finder.kneighbors(FEATURES.numpy() if with_self else None, return_distance=False)
    found = nearest_by_angle(FEATURES, 9, with_self=with_self)
    assert [set(row) for row in found.tolist()] == [set(row) for row in expected.tolist()]


def test_no_more_neighbours_than_there_are():
    assert nearest_by_angle(FEATURES[:4], 9).shape == (4, 3)
    assert nearest_by_angle(FEATURES[:4], 9, with_self=True).shape == (4, 4)
    assert nearest_by_angle(FEATURES[:1], 9).tolist() == [[0]]


def test_length_and_rotation_of_features_do_not_matter():
    turn = torch.linalg.qr(torch.randn(7, 7, generator=torch.Generator().manual_seed(1))).Q
    scale = torch.rand(60, 1, generator=torch.Generator().manual_seed(2)) + 0.5
    first, other = nearest_by_angle(FEATURES, 5), nearest_by_angle(scale * FEATURES @ turn, 5)
    assert torch.equal(first.sort(1).values, other.sort(1).values)


def test_votes_are_shares_of_labels():
    labels = torch.tensor([0, 2, 2, 1])
    near = torch.tensor([[1, 2, 3], [0, 2, 3], [1, 1, 1], [0, 0, 2]])
    expected = np.array([[0, 1, 2], [1, 1, 1], [0, 0, 3], [2, 0, 1]]) / 3
    np.testing.assert_allclose(label_votes(labels, near, 3).numpy(), expected, rtol=1e-6)
