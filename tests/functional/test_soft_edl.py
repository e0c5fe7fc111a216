"""L_edl of soft targets against L_edl taken once for every class."""

from __future__ import annotations

import itertools
from functools import partial

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from labelproof import functional as fn
from labelproof.functional.dirichlet import flat_divergences

CLASSES = [2, 3, 10, 15, 16, 17, 100]  # the total starts below and above where its series holds
GAMMAS = [0.0, 0.1, 2.5]


def random(*shape: int, scale: float = 1.0, seed: int = 0) -> Tensor:
    rng = torch.Generator().manual_seed(seed)
    return scale * torch.randn(*shape, generator=rng, dtype=torch.float64)


def one_by_one(logits: Tensor, gamma: float, beta: float) -> Tensor:
    """(B, C): a column for every class, by the loss of hard labels."""
    rows, classes = logits.shape
    labels = torch.arange(classes).repeat(rows)
    each = fn.edl_loss(logits.repeat_interleave(classes, 0), labels, gamma, beta)
    return each.view(rows, classes)


def extreme(classes: int) -> Tensor:
    """Logits of ±1000 in many places, ties, lone large ones, and none that stands out."""
    rows = [torch.zeros(classes)]
    rows += [torch.full((classes,), value) for value in (1000.0, -1000.0, 40.0)]
    for first, last in itertools.product((1000.0, -1000.0, 999.0, 2.7), repeat=2):
        for rest in (0.0, -1000.0, 1000.0):
            row = torch.full((classes,), rest)
            row[0], row[-1] = first, last
            rows.append(row)
    return torch.stack(rows).double()


def value_and_slope(losses: Tensor, weights: Tensor, logits: Tensor) -> tuple[Tensor, Tensor]:
    value = (weights * losses).sum(1)
    (slope,) = torch.autograd.grad(value.sum(), logits)
    return value, slope


def assert_same_as_one_by_one(
    logits: Tensor, targets: Tensor, gamma: float, beta: float, tolerance: float
) -> None:
    leaf = logits.clone().requires_grad_()
    expected, slope = value_and_slope(one_by_one(leaf, gamma, beta), targets, leaf)
    ours = fn.soft_edl_loss(leaf, targets, gamma, beta)
    (ours_slope,) = torch.autograd.grad(ours.sum(), leaf)
    assert ours.dtype == expected.dtype
    torch.testing.assert_close(ours, expected, rtol=tolerance, atol=tolerance)
    torch.testing.assert_close(ours_slope, slope, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("classes", CLASSES)
@pytest.mark.parametrize("gamma", GAMMAS)
@pytest.mark.parametrize("beta", [0.0, 0.5])
@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float64, 1e-11), (torch.float32, 2e-5)])
def test_it_is_the_loss_of_every_class_weighted(classes, gamma, beta, dtype, tolerance):
    for scale in (1.0, 8.0):
        logits = random(5, classes, scale=scale)
        targets = random(5, classes, scale=2.0, seed=1).softmax(1)
        assert_same_as_one_by_one(logits.to(dtype), targets.to(dtype), gamma, beta, tolerance)


@pytest.mark.parametrize("classes", [2, 3, 10, 100])
@pytest.mark.parametrize("gamma", [0.0, 2.5])
@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float64, 1e-11), (torch.float32, 2e-5)])
def test_it_holds_for_logits_of_a_thousand(classes, gamma, dtype, tolerance):
    logits = extreme(classes).to(dtype)
    even = torch.full_like(logits, 1 / classes)
    assert_same_as_one_by_one(logits, even, gamma, 0.5, tolerance)
    last = torch.zeros_like(logits)
    last[:, -1] = 1
    assert_same_as_one_by_one(logits, last, gamma, 0.5, tolerance)


def test_every_divergence_is_that_without_its_class():
    for classes in (2, 3, 20):
        z = torch.cat([extreme(classes), random(8, classes, scale=5.0)]).requires_grad_()
        labels = torch.arange(classes)[:, None].expand(-1, len(z))
        expected = torch.stack([fn.edl_kl(z, column, gamma=0) for column in labels], 1)
        weights = random(*z.shape, seed=2)  # of either sign
        value, slope = value_and_slope(expected, weights, z)
        ours, ours_slope = value_and_slope(flat_divergences(z), weights, z)
        torch.testing.assert_close(flat_divergences(z), expected, rtol=1e-12, atol=1e-11)
        torch.testing.assert_close(ours, value, rtol=1e-11, atol=1e-9)
        torch.testing.assert_close(ours_slope, slope, rtol=1e-11, atol=1e-11)


@pytest.mark.parametrize("classes", [2, 5, 17])
def test_gradients_in_double(classes):
    logits = random(3, classes, scale=3.0).requires_grad_()
    targets = random(3, classes, seed=1).softmax(1).requires_grad_()
    loss = partial(fn.soft_edl_loss, gamma=2.5, beta=0.5)
    assert torch.autograd.gradcheck(loss, (logits, targets))
    assert torch.autograd.gradgradcheck(flat_divergences, (logits,))


def test_under_function_transforms():
    logits, targets = random(6, 5, scale=3.0), random(6, 5, seed=1).softmax(1)
    slopes = torch.func.vmap(torch.func.grad(lambda o, t: fn.soft_edl_loss(o, t, 2.0, 0.5)))
    leaf = logits.clone().requires_grad_()
    (expected,) = torch.autograd.grad(fn.soft_edl_loss(leaf, targets, 2.0, 0.5).sum(), leaf)
    torch.testing.assert_close(slopes(logits, targets), expected)


logit_rows = st.integers(2, 20).flatmap(
    lambda c: st.lists(st.floats(-1000, 1000, width=32), min_size=c, max_size=c)
)


@settings(max_examples=40, deadline=None, derandomize=True)
@given(logit_rows, st.sampled_from(GAMMAS), st.sampled_from(["float32", "float64"]))
def test_any_row_has_a_loss_and_a_slope(row, gamma, dtype):
    logits = torch.tensor([row], dtype=getattr(torch, dtype))
    even = torch.full_like(logits, 1 / len(row))
    assert_same_as_one_by_one(logits, even, gamma, 0.5, 1e-4 if dtype == "float32" else 1e-10)
    assert (flat_divergences(logits.double()) >= 0).all()


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_half_precision_logits_give_single_precision_losses(dtype):
    logits, targets = random(4, 10).to(dtype), random(4, 10, seed=1).softmax(1).float()
    ours = fn.soft_edl_loss(logits, targets, 1.0, 0.5)
    assert ours.dtype == torch.float32
    torch.testing.assert_close(ours, fn.soft_edl_loss(logits.float(), targets, 1.0, 0.5))


def test_no_divergence_is_computed_when_its_weight_is_zero(monkeypatch):
    logits, targets = random(4, 10), random(4, 10, seed=1).softmax(1)
    monkeypatch.setattr("labelproof.functional.losses.flat_divergences", None)
    expected = fn.soft_cross_entropy(logits, targets)
    torch.testing.assert_close(fn.soft_edl_loss(logits, targets, 0.0, 0.0), expected)


def test_nothing_is_made_that_grows_with_the_square_of_the_classes():
    made: list[int] = []

    def note(made_now: Tensor) -> Tensor:
        made.append(made_now.numel())
        return made_now

    logits = random(2, 1000).float().requires_grad_()
    targets = torch.full((2, 1000), 1e-3)
    with torch.autograd.graph.saved_tensors_hooks(note, lambda kept: kept):
        fn.soft_edl_loss(logits, targets, 0.01, 0.5).sum().backward()
    assert made
    assert max(made) <= logits.numel()


@pytest.mark.parametrize("classes", CLASSES)
@pytest.mark.parametrize("scale", [1.0, 3.0, 300.0])  # small evidence, both kinds, large evidence
def test_mixed_rows_have_the_loss_of_both_labels(classes, scale):
    leaf = random(40, classes, scale=scale).requires_grad_()
    first, second = torch.arange(40) % classes, torch.arange(40).flip(0) % classes
    for gamma, beta in itertools.product(GAMMAS, (0.0, 0.5)):
        both = [fn.edl_loss(leaf, labels, gamma, beta) for labels in (first, second)]
        expected = 0.7 * both[0] + 0.3 * both[1]
        ours = fn.mixed_edl_loss(leaf, first, second, 0.7, gamma, beta)
        torch.testing.assert_close(ours, expected, rtol=1e-11, atol=1e-11)
        slopes = [torch.autograd.grad(loss.sum(), leaf)[0] for loss in (ours, expected)]
        torch.testing.assert_close(*slopes, rtol=1e-8, atol=1e-9)


def test_mixed_rows_in_single_precision_and_without_a_second_derivative():
    leaf = random(20, 10).float().requires_grad_()
    labels = torch.arange(20) % 10, torch.arange(20) // 2
    ours = fn.mixed_edl_loss(leaf, *labels, 0.6, 1.0, 0.5)
    assert ours.dtype == torch.float32
    torch.testing.assert_close(
        ours.double(),
        fn.mixed_edl_loss(leaf.double(), *labels, 0.6, 1.0, 0.5),
        rtol=1e-6,
        atol=1e-6,
    )
    with pytest.raises(RuntimeError, match="no second derivative"):
        torch.autograd.grad(ours.sum(), leaf, create_graph=True)
