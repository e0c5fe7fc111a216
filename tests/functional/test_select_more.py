"""Which of two splits is taken, and what is said of values that are all the same."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from labelproof import functional as fn
from labelproof.functional import TwoGaussians, fit_two_gaussians


def margins(share_wrong: float, seed: int = 0) -> Tensor:
    """Margins about 4 for right labels and -4 for wrong ones."""
    rng = torch.Generator().manual_seed(seed)
    wrong = torch.arange(2000) < 2000 * share_wrong
    certainty = 4 + torch.randn(2000, generator=rng).double()
    return torch.where(wrong, -certainty, certainty)


@pytest.mark.parametrize("share", [0.1, 0.4])
def test_a_mirrored_split_that_keeps_most_labels_is_taken(share: float) -> None:
    m = margins(share)
    assert torch.equal(fn.mirrored_or_free(m, 0.5), fn.mirrored_gaussians(m))
    assert not torch.allclose(fn.mirrored_gaussians(m), fn.two_gaussians(m))


def test_free_gaussians_replace_a_mirrored_split_that_keeps_few() -> None:
    m = margins(0.7)
    assert (fn.mirrored_gaussians(m) > 0.5).double().mean() < 0.5
    assert torch.equal(fn.mirrored_or_free(m, 0.5), fn.two_gaussians(m))


def test_keeping_exactly_half_is_enough() -> None:
    m = torch.tensor([-3.0, -2.0, 2.0, 3.0]).double()
    assert ((fn.mirrored_gaussians(m) > 0.5).double().mean()) == 0.5
    assert torch.equal(fn.mirrored_or_free(m, 0.5), fn.mirrored_gaussians(m))


def test_labels_on_the_threshold_are_not_kept() -> None:
    m = torch.zeros(4).double()  # nothing to tell: every label has the same probability
    threshold = fn.mirrored_gaussians(m)[0].item()
    assert torch.equal(fn.mirrored_or_free(m, threshold), fn.two_gaussians(m))


def test_heavy_tails_are_scaled_instead_of_split() -> None:
    calm = margins(0.3)
    heavy = torch.cat([calm, torch.tensor([300.0, -300.0]).double()])
    assert fn.excess_kurtosis(calm) < 1.2 < fn.excess_kurtosis(heavy)
    assert torch.equal(fn.gaussians_or_scaled(calm, 1.2), fn.two_gaussians(calm))
    assert torch.equal(fn.gaussians_or_scaled(heavy, 1.2), fn.min_max(heavy))


def test_the_kurtosis_may_reach_its_limit() -> None:
    calm = margins(0.3)
    limit = fn.excess_kurtosis(calm)
    assert torch.equal(fn.gaussians_or_scaled(calm, limit), fn.two_gaussians(calm))


def test_equal_values_are_one_component_without_spread() -> None:
    found = fit_two_gaussians(torch.full((5,), 2.5))
    assert found == TwoGaussians(means=(2.5, 2.5), stds=(0.0, 0.0), weights=(0.0, 1.0))


def test_the_value_of_the_given_label_is_taken_from_each_row() -> None:
    values = torch.tensor([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]])
    assert fn.of_label(values, torch.tensor([2, 0])).tolist() == [3.0, 4.0]
    assert fn.of_label(values[:1], torch.tensor([1])).tolist() == [2.0]
