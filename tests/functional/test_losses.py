"""Losses against cross-entropy, torch.distributions and numbers worked out by hand."""

from __future__ import annotations

import math

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import polygamma
from torch import Tensor
from torch.distributions import Categorical, Dirichlet, kl_divergence

from labelproof import functional as fn
from labelproof.errors import BadInput

ALL_CLASSES = [2, 3, 4, 10, 15, 16, 17, 50, 1000]


def example(classes: int, rows: int = 6, scale: float = 3.0) -> tuple[Tensor, Tensor]:
    rng = torch.Generator().manual_seed(classes)
    logits = scale * torch.randn(rows, classes, generator=rng, dtype=torch.float64)
    return logits, torch.randint(classes, (rows,), generator=rng)


def dirichlet_kl(logits: Tensor, labels: Tensor, gamma: float) -> Tensor:
    """The divergence by the library's own Dirichlet, good for moderate logits in double."""
    alpha = 1 + logits.exp() / (gamma or 1.0)
    alpha = alpha.scatter(1, labels[:, None], 1.0)
    return kl_divergence(Dirichlet(alpha), Dirichlet(torch.ones_like(alpha)))


@pytest.mark.parametrize(
    ("classes", "nll", "kl"),
    [
        (4, 1.386294, 0.117737),
        (10, 2.302585, 1.137645),
        (50, 3.912023, 26.685979),
        (100, 4.605170, 81.033557),
    ],
)
def test_values_at_zero_logits(classes, nll, kl):
    logits, labels = torch.zeros(1, classes, dtype=torch.float64), torch.tensor([1])
    assert fn.edl_nll(logits, labels, 10 / classes).item() == pytest.approx(nll, abs=6e-7)
    assert fn.edl_kl(logits, labels, 10 / classes).item() == pytest.approx(kl, abs=6e-7)
    total = fn.edl_loss(logits, labels, 10 / classes, 0.5).item()
    assert total == pytest.approx(nll + 0.5 * kl / classes, abs=1e-6)


def test_figure_1_tells_two_logit_vectors_apart():
    logits = torch.tensor([[0.0, 2.0, 0.0, 0.0], [-2.0, 0.0, -2.0, -2.0]])
    plain = fn.calibrated_softmax(logits, 0)[:, 1]
    assert plain.tolist() == pytest.approx([0.711, 0.711], abs=1e-3)
    assert fn.calibrated_softmax(logits, 1.0)[:, 1].tolist() == pytest.approx(
        [0.583, 0.370], abs=1e-3
    )
    assert fn.calibrated_softmax(logits, 2.5)[:, 1].tolist() == pytest.approx(
        [0.485, 0.307], abs=1e-3
    )


@pytest.mark.parametrize("classes", ALL_CLASSES)
@pytest.mark.parametrize("gamma", [0.0, 0.01, 1.0, 5.0])
def test_probabilities_are_the_definition(classes, gamma):
    logits, labels = example(classes)
    mass = logits.exp() + gamma
    probs = mass / mass.sum(1, keepdim=True)
    torch.testing.assert_close(fn.calibrated_softmax(logits, gamma), probs)
    torch.testing.assert_close(fn.calibrated_log_softmax(logits, gamma), probs.log())
    nll = -probs.log()[torch.arange(len(labels)), labels]
    torch.testing.assert_close(fn.edl_nll(logits, labels, gamma), nll)


def test_probabilities_sum_to_one_and_forget_nothing_but_absence():
    logits = torch.tensor([[1000.0, -1000.0, 0.0], [-1000.0] * 3, [-50.0, -60.0, -70.0]])
    probs = fn.calibrated_softmax(logits, 1.0)
    torch.testing.assert_close(probs.sum(1), torch.ones(3))
    assert probs[0].tolist() == [1.0, 0.0, 0.0]
    torch.testing.assert_close(probs[1:], torch.full((2, 3), 1 / 3))
    assert not torch.allclose(fn.calibrated_softmax(logits + 60.0, 1.0), probs)


@pytest.mark.parametrize("classes", [2, 10, 100])
def test_without_gamma_the_likelihood_is_cross_entropy(classes):
    logits, labels = example(classes, scale=30.0)
    expected = F.cross_entropy(logits, labels, reduction="none")
    torch.testing.assert_close(fn.edl_nll(logits, labels, 0), expected)
    torch.testing.assert_close(fn.edl_loss(logits, labels, 0.0, 0.0), expected)


@pytest.mark.parametrize("classes", ALL_CLASSES)
@pytest.mark.parametrize("gamma", [0.0, 0.1, 1.0, 10.0])
def test_kl_is_the_divergence_between_dirichlets(classes, gamma):
    logits, labels = example(classes, rows=4)
    logits = logits.clamp(-19, 19)
    expected = dirichlet_kl(logits, labels, gamma)
    ours = fn.edl_kl(logits, labels, gamma)
    torch.testing.assert_close(ours, expected, rtol=1e-9, atol=1e-7)


def test_kl_and_slope_around_the_cut():
    # evidence that puts parameters just below and just above where the series takes over
    evidence = torch.linspace(10, 22, 121, dtype=torch.float64)
    logits = torch.zeros(121, 3, dtype=torch.float64)
    logits[:, 1] = evidence.log()
    logits.requires_grad_()
    labels = torch.zeros(121, dtype=torch.long)
    ours, theirs = fn.edl_kl(logits, labels, 1.0), dirichlet_kl(logits, labels, 1.0)
    torch.testing.assert_close(ours, theirs, rtol=1e-12, atol=1e-12)
    (slope,) = torch.autograd.grad(ours.sum(), logits)
    h = logits.detach().exp().numpy()
    h[:, 0] = 0
    total = h.sum(1, keepdims=True)
    expected = h * (h * polygamma(1, 1 + h) - total * polygamma(1, 3 + total))
    torch.testing.assert_close(slope, torch.as_tensor(expected), rtol=1e-11, atol=1e-11)


@pytest.mark.parametrize("classes", [2, 10, 20])
@pytest.mark.parametrize("gamma", [0.0, 0.5])
def test_gradients_in_double(classes, gamma):
    logits, labels = example(classes, rows=3)
    logits.requires_grad_()
    for loss in (
        lambda o: fn.calibrated_log_softmax(o, gamma),
        lambda o: fn.edl_loss(o, labels, gamma, 0.5),
        lambda o: torch.stack(fn.dirichlet_uncertainty(o, gamma)),
    ):
        assert torch.autograd.gradcheck(loss, (logits,))
    assert torch.autograd.gradgradcheck(lambda o: fn.edl_kl(o, labels, gamma), (logits,))


def test_kl_under_function_transforms():
    logits, labels = example(5)

    def one(row: Tensor, label: Tensor) -> Tensor:
        return fn.edl_kl(row, label, 2.0)

    slopes = torch.func.vmap(torch.func.grad(one))(logits, labels)
    leaf = logits.clone().requires_grad_()
    (expected,) = torch.autograd.grad(fn.edl_kl(leaf, labels, 2.0).sum(), leaf)
    torch.testing.assert_close(slopes, expected)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("classes", [2, 10, 100])
@pytest.mark.parametrize("size", [30.0, 1000.0])
def test_slope_for_one_huge_wrong_logit(dtype, classes, size):
    logits = torch.zeros(1, classes, dtype=dtype)
    logits[0, 1] = size
    logits.requires_grad_()
    fn.edl_loss(logits, torch.tensor([0]), 10 / classes, 0.5).sum().backward()
    assert logits.grad[0, 1].item() == pytest.approx(1 + 0.5 * (classes - 1) / classes, rel=1e-6)


def test_calibration_weakens_the_push_on_other_classes():
    # eq. 3: the plain gradient exceeds the calibrated one by γ C e / (Σe Σ(e + γ))
    logits, labels = example(10)
    gamma, e = 1.0, logits.exp()
    slopes = []
    for g in (0.0, gamma):
        leaf = logits.clone().requires_grad_()
        slopes.append(torch.autograd.grad(fn.edl_nll(leaf, labels, g).sum(), leaf)[0])
    total = e.sum(1, keepdim=True)
    expected = gamma * 10 * e / (total * (total + 10 * gamma))
    others = torch.ones_like(e, dtype=torch.bool).scatter(1, labels[:, None], False)
    difference = (slopes[0] - slopes[1])[others]
    assert (difference > 0).all()
    torch.testing.assert_close(difference, expected[others])


logit_rows = st.integers(2, 20).flatmap(
    lambda c: st.lists(st.floats(-1000, 1000, width=32), min_size=c, max_size=c)
)


@settings(max_examples=60, deadline=None, derandomize=True)
@given(logit_rows, st.sampled_from([0.0, 0.1, 1.0, 5.0]), st.sampled_from(["float32", "float64"]))
def test_kl_is_never_negative_and_ignores_the_given_class(row, gamma, dtype):
    logits = torch.tensor([row], dtype=getattr(torch, dtype), requires_grad=True)
    label = torch.tensor([len(row) // 2])
    kl = fn.edl_kl(logits, label, gamma)
    (slope,) = torch.autograd.grad(kl.sum(), logits)
    assert kl.item() >= 0
    assert math.isfinite(kl.item())
    assert slope.isfinite().all()
    assert slope[0, label].item() == 0
    other = logits.detach().clone()
    other[0, label] = -row[int(label)] + 1
    assert torch.equal(fn.edl_kl(other, label, gamma), kl.detach())


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_half_precision_logits_give_single_precision_losses(dtype):
    logits, labels = example(10)
    half = logits.to(dtype)
    for loss in (fn.edl_nll, fn.edl_kl):
        ours = loss(half, labels, 1.0)
        assert ours.dtype == torch.float32
        torch.testing.assert_close(
            ours.double(), loss(half.double(), labels, 1.0), rtol=2e-6, atol=2e-6
        )


def test_autocast_changes_nothing():
    rng = torch.Generator().manual_seed(0)
    layer = torch.nn.Linear(8, 100)
    inputs, labels = torch.randn(16, 8, generator=rng), torch.randint(100, (16,), generator=rng)
    with torch.autocast("cpu", torch.bfloat16):
        logits = 20 * layer(inputs)
        assert logits.dtype == torch.bfloat16
        loss = fn.edl_loss(logits, labels, 0.1, 0.5)
        probs = fn.calibrated_softmax(logits, 0.1)
        scores = (fn.neg_entropy(probs), fn.prior_penalty(probs), fn.sharpen(probs, 0.5))
        loss.mean().backward()
    assert {t.dtype for t in (loss, probs, *scores)} == {torch.float32}
    expected = fn.edl_loss(logits.double(), labels, 0.1, 0.5)
    torch.testing.assert_close(loss.double(), expected, rtol=3e-6, atol=3e-6)
    assert layer.weight.grad.isfinite().all()


def test_no_kl_is_computed_when_its_weight_is_zero(monkeypatch):
    logits, labels = example(4)
    expected = fn.edl_nll(logits, labels, 2.5)
    monkeypatch.setattr("labelproof.functional.losses.edl_kl", None)
    assert torch.equal(fn.edl_loss(logits, labels, 2.5, 0), expected)


@pytest.mark.parametrize("gamma", [-1.0, math.nan, math.inf])
def test_gamma_must_be_a_weight(gamma):
    with pytest.raises(BadInput, match="gamma must be 0"):
        fn.calibrated_softmax(torch.zeros(1, 3), gamma)


def test_negative_entropy():
    probs = torch.tensor([[0.25] * 4, [1.0, 0.0, 0.0, 0.0], [0.5, 0.5, 0.0, 0.0]])
    probs.requires_grad_()
    ours = fn.neg_entropy(probs)
    assert ours.tolist() == pytest.approx([-math.log(4), 0.0, -math.log(2)])
    ours.sum().backward()
    assert probs.grad.isfinite().all()
    # where probabilities are positive the slope is ln p + 1
    assert probs.grad[0].tolist() == pytest.approx([math.log(0.25) + 1] * 4)


def test_prior_penalty():
    even = torch.tensor([[0.9, 0.1], [0.1, 0.9]])
    assert fn.prior_penalty(even).item() == pytest.approx(0, abs=1e-6)
    skewed = torch.tensor([[0.9, 0.1], [0.7, 0.3]])
    by_hand = 0.5 * math.log(0.5 / 0.8) + 0.5 * math.log(0.5 / 0.2)
    assert fn.prior_penalty(skewed).item() == pytest.approx(by_hand)
    never = torch.tensor([[1.0, 0.0], [1.0, 0.0]], requires_grad=True)
    penalty = fn.prior_penalty(never)
    penalty.backward()
    assert math.isfinite(penalty.item())
    assert penalty > 10
    assert never.grad.isfinite().all()


def test_soft_cross_entropy():
    logits, labels = example(7, scale=20.0)
    targets = F.softmax(example(7)[0].flip(0), dim=1)
    expected = F.cross_entropy(logits, targets, reduction="none")
    torch.testing.assert_close(fn.soft_cross_entropy(logits, targets), expected)
    hard = F.one_hot(labels, 7).double()
    expected = F.cross_entropy(logits, labels, reduction="none")
    torch.testing.assert_close(fn.soft_cross_entropy(logits, hard), expected)


def test_an_objective_is_cross_entropy_with_softmax():
    logits, labels = example(4)
    targets = F.softmax(logits.flip(0), dim=1)
    plain = fn.Objective("ce", gamma_c=10.0, beta=0.5)
    expected = F.cross_entropy(logits, labels, reduction="none")
    torch.testing.assert_close(plain.of_labels(logits, labels), expected)
    expected = F.cross_entropy(logits, targets, reduction="none")
    torch.testing.assert_close(plain.of_targets(logits, targets), expected)
    torch.testing.assert_close(plain.probability(logits), logits.softmax(1))
    assert plain.divergence(logits, labels) is None
    assert plain.log_evidence(logits) is None


def test_an_objective_is_the_evidential_loss_with_gamma_shared_among_the_classes():
    logits, labels = example(4)
    edl = fn.Objective("edl", gamma_c=10.0, beta=0.5)
    mass = logits.exp() + 2.5
    probs = mass / mass.sum(1, keepdim=True)
    divergence = 0.5 * dirichlet_kl(logits, labels, 2.5) / 4
    torch.testing.assert_close(edl.probability(logits), probs)
    torch.testing.assert_close(edl.log_probability(logits), probs.log())
    torch.testing.assert_close(edl.divergence(logits, labels), divergence)
    expected = divergence - probs.log()[torch.arange(6), labels]
    torch.testing.assert_close(edl.of_labels(logits, labels), expected)
    torch.testing.assert_close(edl.of_targets(logits, F.one_hot(labels, 4).double()), expected)
    torch.testing.assert_close(edl.log_evidence(logits).exp(), logits.exp() / 2.5)
    assert fn.Objective("edl", gamma_c=0.0, beta=0.5).log_evidence(logits) is logits


def test_kl_divergence_is_that_of_torch():
    rng = torch.Generator().manual_seed(0)
    p, q = (torch.randn(50, 7, generator=rng, dtype=torch.float64).mul(5) for _ in range(2))
    expected = kl_divergence(Categorical(logits=p), Categorical(logits=q))
    found = fn.kl_divergence(p.log_softmax(1), q.log_softmax(1))
    torch.testing.assert_close(found, expected)
    fixed, learned = p.log_softmax(1), q.requires_grad_()
    fn.kl_divergence(fixed, learned.log_softmax(1)).sum().backward()
    torch.testing.assert_close(learned.grad, q.detach().softmax(1) - p.softmax(1))
