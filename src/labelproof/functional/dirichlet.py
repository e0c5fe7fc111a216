"""A Dirichlet read off the logits: its parameters, its distance from the flat one, its uncertainty.

Evidence e = exp(o) of the logits o gives the parameters α = 1 + e / γ. Everything here works on
z = o - ln γ, so that α = 1 + exp(z), and never forms exp(z) where it could be large: the gamma
functions are taken as they stand below `CUT` and from Stirling's series in 1/x above it, after the
terms that grow like x ln x and cancel in the sum have been cancelled on paper.

Shapes: B batch, C classes.
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from labelproof.errors import BadInput

CUT = 16.0  # the series below are exact to 1e-15 from here on
SMALL = 8.0  # largest z at which nothing grows enough to need cancelling: exact to 1e-11 there
HALF_LOG_2PI = 0.5 * math.log(2 * math.pi)
# ln Γ(x) = (x - ½) ln x - x + ½ ln 2π + r(x);  ψ(x) = ln x - 1/2x - q(x): odd powers of u = 1/x
R_SERIES = (1 / 12, -1 / 360, 1 / 1260, -1 / 1680, 1 / 1188)  # of r
XQ_SERIES = (1 / 12, -1 / 120, 1 / 252, -1 / 240, 1 / 132)  # of x q
TRIGAMMA_SERIES = (1 / 6, -1 / 30, 1 / 42, -1 / 30, 5 / 66)  # of x² (ψ'(x) - u - u²/2)


def at_least_single(x: Tensor) -> Tensor:
    """`x` in float32 if it was coarser than that: losses and scores are never taken in half."""
    return x if x.dtype == torch.float64 else x.float()


def at_best_double(x: Tensor) -> Tensor:
    """`x` in float64, or float32 on a device that has no float64."""
    return x.float() if x.device.type == "mps" else x.double()


def for_divergence(x: Tensor) -> Tensor:
    """`x` in float64 on a CPU, in float32 on a GPU, where doubles are slow.

    In float32 KL / C is off by at most 1e-5 (1 + KL / C), and its derivative by a logit by at most
    1e-4, for logits up to ±1000 and 2 to 1,000 classes (a test compares them with float64).
    """
    return x.double() if x.device.type == "cpu" else x.float()


def log_gamma_constant(gamma: float) -> float:
    """ln γ, with 0 for γ = 0: a Dirichlet without a constant is read as α = 1 + e."""
    if not 0 <= gamma < math.inf:
        raise BadInput(f"gamma must be 0 (plain softmax) or a positive number, not {gamma}.")
    return math.log(gamma) if gamma > 0 else 0.0


def log_alpha(z: Tensor) -> Tensor:
    """ln(1 + exp(z)), with first and second derivatives that are finite for any z."""
    # beyond 40 the difference to z is under half a unit in the last place of a double
    return F.softplus(z, threshold=40.0)


def _odd_series(u: Tensor, coefficients: tuple[float, ...]) -> Tensor:
    """Sum of coefficients[k] u^(2k+1), by Horner's rule, or in two operations on a GPU."""
    if u.device.type != "cpu":
        return _by_powers(u, coefficients)
    square = u * u
    total = square * coefficients[-1]
    for coefficient in reversed(coefficients[1:-1]):
        total = (total + coefficient) * square
    return (total + coefficients[0]) * u


def _by_powers(u: Tensor, coefficients: tuple[float, ...]) -> Tensor:
    """The same, all powers at once: a GPU has more numbers to spare than operations."""
    exponents, factors = _constants(coefficients, u.dtype, u.device)
    return u.unsqueeze(-1).pow(exponents) @ factors


@lru_cache(maxsize=64)
def _constants(
    coefficients: tuple[float, ...], dtype: torch.dtype, device: torch.device
) -> tuple[Tensor, Tensor]:
    """Odd exponents and the coefficients that belong to them, made once for a device."""
    odd = torch.arange(1, 2 * len(coefficients), 2, dtype=dtype, device=device)
    return odd, torch.tensor(coefficients, dtype=dtype, device=device)


def _trigamma(x: Tensor) -> Tensor:
    """ψ'(x) for x >= 1, to 1e-13; torch's own is good to 1e-9 only."""
    # ψ'(x) = 1/x² + ψ'(x + 1), until the series holds
    below = x.unsqueeze(-1) + torch.arange(8, dtype=x.dtype, device=x.device)
    u = 1 / (x + 8)
    series = u + u * u * (0.5 + _odd_series(u, TRIGAMMA_SERIES))
    return below.pow(-2).sum(-1) + series


def _log_total(log_h: Tensor, classes: int) -> Tensor:
    """ln S at S = C + exp(log_h)."""
    return math.log(classes) + log_alpha(log_h - math.log(classes))


def _class_terms(z: Tensor) -> Tensor:
    """-ln Γ(x) + (x - 1) ψ(x) - (x - 1) at x = 1 + exp(z); grows like -½ ln x."""
    edge = math.log(CUT - 1)
    h = z.clamp(max=edge).exp()  # each branch sees only arguments it can stand
    small = h * torch.digamma(1 + h) - torch.lgamma(1 + h) - h
    log_x = log_alpha(z.clamp(min=edge))
    u = (-log_x).exp()
    tail = _odd_series(u, R_SERIES) + _odd_series(u, XQ_SERIES) * (1 - u)
    large = 0.5 - HALF_LOG_2PI - 0.5 * log_x + 0.5 * u - tail
    return torch.where(z < edge, small, large)


def _total_term(log_h: Tensor, classes: int) -> Tensor:
    """ln Γ(S) - ln Γ(C) - (S - C) ψ(S) + (S - C) at S = C + exp(log_h); grows like (C - ½) ln S."""
    log_s = _log_total(log_h, classes).clamp(min=math.log(CUT))
    u = (-log_s).exp()
    tail = _odd_series(u, R_SERIES) + _odd_series(u, XQ_SERIES) * (1 - classes * u)
    constant = HALF_LOG_2PI + 0.5 - classes - math.lgamma(classes)
    large = (classes - 0.5) * log_s + constant - 0.5 * classes * u + tail
    if classes >= CUT:
        return large
    edge = math.log(CUT - classes)
    h = log_h.clamp(max=edge).exp()
    small = torch.lgamma(classes + h) - math.lgamma(classes) - h * torch.digamma(classes + h) + h
    return torch.where(log_h < edge, small, large)


def _class_slopes(z: Tensor) -> Tensor:
    """h (1 - h ψ'(1 + h)) at h = exp(z), less the derivative of `_class_terms`; tends to ½."""
    edge = math.log(CUT - 1)
    h = z.clamp(max=edge).exp()
    small = h * (1 - h * _trigamma(1 + h))
    u = (-log_alpha(z.clamp(min=edge))).exp()
    large = (1 - u) * (0.5 + 0.5 * u - (1 - u) * _odd_series(u, TRIGAMMA_SERIES))
    return torch.where(z < edge, small, large)


def _total_slope(log_h: Tensor, classes: int) -> Tensor:
    """S (1 - H ψ'(S)) at S = C + H and H = exp(log_h); tends to C - ½."""
    u = (-_log_total(log_h, classes).clamp(min=math.log(CUT))).exp()
    tail = _odd_series(u, TRIGAMMA_SERIES) * (1 - classes * u)
    large = classes - 0.5 + 0.5 * classes * u - tail
    if classes >= CUT:
        return large
    edge = math.log(CUT - classes)
    h = log_h.clamp(max=edge).exp()
    small = (classes + h) * (1 - h * _trigamma(classes + h))
    return torch.where(log_h < edge, small, large)


def _divergence_slope(z: Tensor) -> Tensor:
    """Derivative of the divergence from the flat Dirichlet by each z, itself differentiable."""
    log_h = z.logsumexp(-1, keepdim=True)
    share = (z - _log_total(log_h, z.shape[-1])).exp()
    return share * _total_slope(log_h, z.shape[-1]) - _class_slopes(z)


class _FlatDivergence(torch.autograd.Function):
    """The divergence with its derivative in closed form: exact, and quicker than the chain rule."""

    generate_vmap_rule = True

    @staticmethod
    def forward(z: Tensor) -> Tensor:
        divergence = _total_term(z.logsumexp(-1), z.shape[-1]) + _class_terms(z).sum(-1)
        return divergence.clamp(min=0)  # rounding must not make it negative

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor], output: Tensor) -> None:
        ctx.save_for_backward(*inputs)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> Tensor:
        (z,) = ctx.saved_tensors
        return grads[0].unsqueeze(-1) * _divergence_slope(z)


def flat_divergence(z: Tensor) -> Tensor:
    """KL(Dir(1 + exp(z)) || Dir(1)), one value a row; a class at z = -inf has no evidence."""
    divergence: Tensor = _FlatDivergence.apply(z)  # type: ignore[no-untyped-call]
    return divergence


def _log_rests(z: Tensor) -> Tensor:
    """ln Σ_{j≠c} exp(z_j) for every class c at once, as exact as if each were summed by itself."""
    top, most = z.argmax(-1, keepdim=True), z.amax(-1, keepdim=True)
    # every sum but the largest class's keeps that class, so a difference is never below 1
    h = (z - most).exp()
    rests = most + (h.sum(-1, keepdim=True) - h).scatter(-1, top, 1.0).log()
    return rests.scatter(-1, top, z.scatter(-1, top, -math.inf).logsumexp(-1, keepdim=True))


def _divergences_slope(z: Tensor, weights: Tensor) -> Tensor:
    """Derivative of Σ_c weights_c divergence_c by each z, divergence_c being without class c."""
    classes, top, log_rests = z.shape[-1], z.argmax(-1, keepdim=True), _log_rests(z)
    log_totals = _log_total(log_rests, classes)
    log_all = _log_total(z.logsumexp(-1, keepdim=True), classes)
    pulls = weights * _total_slope(log_rests, classes)
    # the total without the largest class may be far smaller than all others: it goes alone
    bounded = pulls * (log_all - log_totals).scatter(-1, top, -math.inf).exp()
    shared = (z - log_all).exp() * (bounded.sum(-1, keepdim=True) - bounded)
    others = z.scatter(-1, top, -math.inf) - log_totals.gather(-1, top)
    alone = pulls.gather(-1, top) * others.exp()
    return shared + alone - _class_slopes(z) * (weights.sum(-1, keepdim=True) - weights)


class _FlatDivergences(torch.autograd.Function):
    """The divergences without each class in turn; time and memory are those of one."""

    generate_vmap_rule = True

    @staticmethod
    def forward(z: Tensor) -> Tensor:
        terms = _class_terms(z)
        others = terms.sum(-1, keepdim=True) - terms
        return (_total_term(_log_rests(z), z.shape[-1]) + others).clamp(min=0)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor], output: Tensor) -> None:
        ctx.save_for_backward(*inputs)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> Tensor:
        (z,) = ctx.saved_tensors
        return _divergences_slope(z, grads[0])


class _SmallDivergences(torch.autograd.Function):
    """The same by the textbook's formula, in a third of the time, where evidence is small.

    KL_c = ln Γ(S_c) - ln Γ(C) - Σ ln Γ(α_j) + Σ h_j (ψ(α_j) - ψ(S_c)), sums over j ≠ c, h = α - 1.
    """

    @staticmethod
    def forward(ctx: Any, z: Tensor) -> Tensor:
        h, classes = z.exp(), z.shape[-1]
        rest = h.sum(-1, keepdim=True) - h
        terms = h * torch.digamma(1 + h) - torch.lgamma(1 + h)
        total = torch.lgamma(classes + rest) - rest * torch.digamma(classes + rest)
        ctx.save_for_backward(z)
        out = total + (terms.sum(-1, keepdim=True) - terms) - math.lgamma(classes)
        return out.clamp(min=0)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> Tensor:
        (z,), (weights,) = ctx.saved_tensors, grads
        h = z.exp()
        rest = h.sum(-1, keepdim=True) - h
        curved, total = _trigamma(torch.cat([1 + h, h.shape[-1] + rest], -1)).chunk(2, -1)
        pulls = weights * rest * total
        own = h * curved * (weights.sum(-1, keepdim=True) - weights)
        slope: Tensor = h * (own - (pulls.sum(-1, keepdim=True) - pulls))
        return slope


class _SmallMixedLoss(torch.autograd.Function):
    """The evidential loss of mixed rows where evidence is small: value and slope in one go.

    A row of two labels needs two totals, and not one for every class. On the CPU, in float64.
    """

    @staticmethod
    def forward(
        ctx: Any, logits: Tensor, labels: Tensor, weight: float, log_gamma: float, scale: float
    ) -> Tensor:
        h, classes = (logits.double() - log_gamma).exp_(), logits.shape[-1]
        weights = h.new_tensor([weight, 1 - weight])
        total = h.sum(-1, keepdim=True)
        rest = total - h.gather(-1, labels)
        alphas = torch.cat([1 + h, classes + rest], -1)
        log_gammas, digamma = torch.lgamma(alphas), torch.digamma(alphas)
        trigamma = torch.polygamma(1, alphas)  # good to 1e-9, quicker than our own
        own = alphas[:, :classes]
        terms = h * digamma[:, :classes] - log_gammas[:, :classes]
        totals = log_gammas[:, classes:] - rest * digamma[:, classes:] - math.lgamma(classes)
        each = (totals + terms.sum(-1, keepdim=True) - terms.gather(-1, labels)).clamp_(min=0)
        nll = ((classes + total) / own.gather(-1, labels)).log_()  # ln S - ln α_y
        pulls = (scale * weights) * rest * trigamma[:, classes:]
        said = torch.zeros_like(h).scatter_add_(-1, labels, weights.expand_as(rest))
        slope = 1 / (classes + total) - pulls.sum(-1, keepdim=True) - said / own
        slope = slope + (scale * h) * trigamma[:, :classes] * (1 - said)
        slope = slope.scatter_add_(-1, labels, pulls).mul_(h)
        ctx.save_for_backward(slope.to(logits.dtype))
        return ((nll + scale * each) @ weights).to(logits.dtype)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, None, None, None, None]:
        if torch.is_grad_enabled():  # with create_graph: the slope was taken as a number
            raise RuntimeError("mixed_edl_loss has no second derivative; use soft_edl_loss.")
        (slope,) = ctx.saved_tensors
        return grads[0].unsqueeze(-1) * slope, None, None, None, None


def small_mixed_loss(
    logits: Tensor, first: Tensor, second: Tensor, weight: float, gamma: float, scale: float
) -> Tensor | None:
    """ln S - Σ w_k ln α_k + scale Σ w_k KL_k, KL_k without the evidence of label k, (B,).

    None on a GPU, with large evidence, and with γ = 0.
    """
    log_gamma = log_gamma_constant(gamma)
    if gamma == 0 or not _all_small(logits, SMALL + log_gamma):
        return None
    labels = torch.stack([first, second], -1)
    loss: Tensor = _SmallMixedLoss.apply(logits, labels, weight, log_gamma, scale)  # type: ignore[no-untyped-call]
    return loss


def flat_divergences(z: Tensor) -> Tensor:
    """`flat_divergence` with one class's evidence taken away, for every class in turn, (B, C)."""
    form = _SmallDivergences if _all_small(z) else _FlatDivergences
    divergences: Tensor = form.apply(z)  # type: ignore[no-untyped-call]
    return divergences


def _all_small(z: Tensor, most: float = SMALL) -> bool:
    """Whether no evidence is large; not asked of a device, which would have to wait for it."""
    plain = z.device.type == "cpu" and not torch._C._functorch.is_functorch_wrapped_tensor(z)
    return plain and z.numel() > 0 and bool(z.detach().amax() < most)


def _digamma_excess(log_x: Tensor) -> Tensor:
    """ψ(x + 1) - ln x at x = exp(log_x) >= 1; falls like 1/2x."""
    small_log = log_x.clamp(max=math.log(CUT))
    small = torch.digamma(small_log.exp() + 1) - small_log
    u = (-log_x.clamp(min=math.log(CUT))).exp()
    large = u * (0.5 - _odd_series(u, XQ_SERIES))
    return torch.where(log_x < math.log(CUT), small, large)


def dirichlet_uncertainty(logits: Tensor, gamma: float) -> tuple[Tensor, Tensor, Tensor]:
    """How unsure the Dirichlet with α = 1 + exp(logits) / γ is, and of what kind.

    Args:
        logits: (B, C), of any size.
        gamma: the constant γ > 0; for 0 the parameters are 1 + exp(logits).

    Returns:
        Three (B,) tensors: vacuity C / Σα (1 without evidence, 0 with endless evidence), the
        expected entropy of a class distribution drawn from the Dirichlet (the label's own
        ambiguity), and the mutual information between label and that distribution (what more
        evidence could settle). The last two add up to the entropy of the mean.
    """
    log_a = log_alpha(at_best_double(logits) - log_gamma_constant(gamma))
    log_s = log_a.logsumexp(-1)
    log_mean = log_a.log_softmax(-1)
    mean = log_mean.exp()
    # the entropy of the mean less the expected one, with their logarithms cancelled
    mutual = (mean * _digamma_excess(log_a)).sum(-1) - _digamma_excess(log_s)
    expected = 0.0 - (mean * log_mean).sum(-1) - mutual
    vacuity = (math.log(logits.shape[-1]) - log_s).exp().clamp(max=1)
    dtype = at_least_single(logits).dtype
    return vacuity.to(dtype), expected.to(dtype), mutual.to(dtype)
