"""Divergence from the label, even selection and NT-Xent against scipy, torch and closed forms."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from scipy.spatial.distance import jensenshannon
from torch import Tensor

from labelproof import functional as fn
from labelproof.errors import BadInput


def random_probs(rows: int, classes: int, seed: int = 0) -> Tensor:
    rng = torch.Generator().manual_seed(seed)
    return (3 * torch.randn(rows, classes, generator=rng, dtype=torch.float64)).softmax(1)


def random_labels(rows: int, classes: int, seed: int = 1) -> Tensor:
    return torch.randint(classes, (rows,), generator=torch.Generator().manual_seed(seed))


def features(rows: int, width: int = 5, seed: int = 2) -> Tensor:
    rng = torch.Generator().manual_seed(seed)
    return torch.randn(rows, width, generator=rng, dtype=torch.float64)


@pytest.mark.parametrize("classes", [2, 10, 100])
def test_divergence_is_that_of_scipy(classes):
    probs, labels = random_probs(50, classes), random_labels(50, classes)
    one_hot = F.one_hot(labels, classes).double().numpy()
    expected = jensenshannon(probs.numpy(), one_hot, axis=1) ** 2
    np.testing.assert_allclose(fn.label_divergence(probs, labels), expected, rtol=1e-9)


@pytest.mark.parametrize(("classes", "value"), [(10, 0.5256), (100, 0.6651)])
def test_divergence_of_a_flat_prediction(classes, value):
    flat = torch.full((1, classes), 1 / classes)
    assert fn.label_divergence(flat, torch.zeros(1, dtype=torch.long)).item() == pytest.approx(
        value, abs=1e-4
    )


@pytest.mark.parametrize("dtype", [torch.float16, torch.float32, torch.float64])
def test_divergence_ends_at_0_and_ln_2(dtype):
    probs = torch.tensor([[1.0, 0.0], [0.0, 1.0], [1 - 2**-10, 2**-10]], dtype=dtype)
    sure, wrong, nearly = fn.label_divergence(probs, torch.zeros(3, dtype=torch.long)).tolist()
    assert sure == 0
    assert wrong == pytest.approx(math.log(2), rel=1e-6)
    assert 0 < nearly < 1e-3


def test_divergence_near_certainty_is_exact_in_single_precision():
    gap = 2.0**-20
    probs = torch.tensor([[1 - gap, gap]])
    double = fn.label_divergence(probs.double(), torch.zeros(1, dtype=torch.long))
    single = fn.label_divergence(probs, torch.zeros(1, dtype=torch.long))
    torch.testing.assert_close(single.double(), double, rtol=1e-5, atol=0)
    assert double.item() == pytest.approx(gap * math.log(2) / 2, rel=1e-5)


def test_divergence_ranks_as_cross_entropy_does():
    probs, labels = random_probs(200, 7), random_labels(200, 7)
    entropy = F.nll_loss(probs.log(), labels, reduction="none")
    assert torch.equal(fn.label_divergence(probs, labels).argsort(), entropy.argsort())


def by_loops(divergence: Tensor, labels: Tensor, quota: int) -> Tensor:
    kept = torch.zeros(len(labels), dtype=torch.bool)
    for c in set(labels.tolist()):
        own = sorted((divergence[i].item(), i) for i in range(len(labels)) if labels[i] == c)
        for _, i in own[:quota]:
            kept[i] = True
    return kept


@pytest.mark.parametrize("share", [0.0, 0.11, 0.3, 0.5, 0.83, 1.0])
def test_as_many_of_every_class_are_selected(share):
    labels = random_labels(120, 4)
    labels[labels == 3] = 2
    labels[:2] = 3  # a class of two
    divergence = torch.rand(120, generator=torch.Generator().manual_seed(0))
    kept = fn.uniform_selection(divergence, labels, 4, share)
    quota = math.floor(share * 120 / 4 + 1e-9)
    counts, all_counts = (torch.bincount(y, minlength=4) for y in (labels[kept], labels))
    assert counts.tolist() == [min(quota, n) for n in all_counts.tolist()]
    assert torch.equal(kept, by_loops(divergence, labels, quota))


def test_a_short_class_does_not_select_the_first_example_again():
    labels = torch.tensor([0, 0, 0, 0, 0, 0, 0, 1])
    divergence = torch.tensor([0.9, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7])
    kept = fn.uniform_selection(divergence, labels, 2, 0.75)  # three of each
    assert kept.nonzero().squeeze(1).tolist() == [1, 2, 3, 7]


def test_ties_are_broken_by_order_and_a_gap_in_the_classes_does_no_harm():
    labels = torch.tensor([5, 5, 0, 0, 0])
    kept = fn.uniform_selection(torch.zeros(5), labels, 2, 0.4)
    assert kept.tolist() == [True, False, True, False, False]


def test_nt_xent_of_collapsed_features():
    same = torch.ones(4, 8, dtype=torch.float64)
    losses = fn.nt_xent(same, 3 * same, 0.05)
    assert losses.shape == (8,)
    torch.testing.assert_close(losses, torch.full((8,), math.log(7), dtype=torch.float64))


def test_nt_xent_of_separated_pairs():
    axes = torch.eye(4, dtype=torch.float64)
    losses = fn.nt_xent(axes, axes, 0.05)
    expected = math.log1p(6 * math.exp(-1 / 0.05))
    torch.testing.assert_close(losses, torch.full((8,), expected, dtype=torch.float64))


def test_nt_xent_against_torch():
    first, second = features(6), features(6, seed=3)
    both = torch.cat([first, second])
    similarity = F.cosine_similarity(both[:, None], both[None], dim=2) / 0.2
    for i, loss in enumerate(fn.nt_xent(first, second, 0.2)):
        others = [j for j in range(12) if j != i]
        target = torch.tensor(others.index((i + 6) % 12))
        torch.testing.assert_close(loss, F.cross_entropy(similarity[i, others], target))


def test_nt_xent_slopes():
    pair = features(3).requires_grad_(), features(3, seed=3).requires_grad_()
    assert torch.autograd.gradcheck(lambda a, b: fn.nt_xent(a, b, 0.5), pair)


def test_nt_xent_of_one_pair_and_of_features_without_length():
    one = features(1).requires_grad_()
    loss = fn.nt_xent(one, features(1, seed=3), 0.05)
    assert loss.tolist() == [0, 0]
    rows = torch.cat([torch.zeros(1, 5, dtype=torch.float64), features(2)]).requires_grad_()
    fn.nt_xent(rows, features(3, seed=4), 0.05).sum().backward()
    assert torch.isfinite(rows.grad).all()
    assert (rows.grad[0] == 0).all()


def test_a_temperature_must_be_above_0():
    with pytest.raises(BadInput, match="above 0"):
        fn.nt_xent(features(2), features(2), 0.0)
