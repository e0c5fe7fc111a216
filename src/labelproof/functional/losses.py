"""Losses on logits and probabilities: pure functions, one value an example, the caller reduces.

The calibrated softmax and the evidential loss are those of DPC (Zong, Wang, Xie and Huang, AAAI
2024): a constant γ is added to every exponential, so that the absolute size of a logit matters, and
the model is trained as a Dirichlet with α = 1 + exp(o) / γ. γ = 0 is the plain softmax. All are
taken in log space and hold for logits of any size; half precision is raised to float32 first.
Equations are numbered as printed in the paper, https://arxiv.org/abs/2401.07062.

Shapes: B batch, C classes >= 2.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor
from torch.nn.functional import one_hot

from labelproof.functional.dirichlet import (
    at_least_single,
    flat_divergence,
    flat_divergences,
    for_divergence,
    log_alpha,
    log_gamma_constant,
    small_mixed_loss,
)


def calibrated_log_softmax(logits: Tensor, gamma: float) -> Tensor:
    """Logarithm of the calibrated probabilities, ln((exp(o_c) + γ) / Σ_j (exp(o_j) + γ)).

    Args:
        logits: (B, C).
        gamma: the constant γ > 0 (10 / C in the paper), or 0 for the plain softmax.

    Returns:
        (B, C), float32 or, for float64 logits, float64.
    """
    constant = log_gamma_constant(gamma)
    logits = at_least_single(logits)
    # α and exp(o) + γ differ by the factor γ, which the softmax does not see
    scores = log_alpha(logits - constant) if gamma > 0 else logits
    return scores.log_softmax(-1)


def calibrated_softmax(logits: Tensor, gamma: float) -> Tensor:
    """Calibrated probabilities ρ_c = (exp(o_c) + γ) / Σ_j (exp(o_j) + γ), eq. 1; (B, C)."""
    return calibrated_log_softmax(logits, gamma).exp()


def edl_nll(logits: Tensor, labels: Tensor, gamma: float) -> Tensor:
    """L_nll, eq. 4: type-II negative log-likelihood of the Dirichlet, ln Σ_j α_j - ln α_y.

    Args:
        logits: (B, C).
        labels: (B,) int64 class ids.
        gamma: the constant γ > 0; with 0 this is cross-entropy.

    Returns:
        (B,).
    """
    log_probs = calibrated_log_softmax(logits, gamma)
    return -log_probs.gather(-1, labels.unsqueeze(-1)).squeeze(-1)


def edl_kl(logits: Tensor, labels: Tensor, gamma: float) -> Tensor:
    """C L_kl, eq. 5: KL(Dir(α~) || Dir(1)), α~ = α with the given class set to 1.

    It measures the evidence for all other classes. It is the divergence itself, not divided by C,
    never negative, and does not depend on the logit of the given class. With γ = 0 the parameters
    are taken as 1 + exp(o).

    Args:
        logits: (B, C).
        labels: (B,) int64 class ids.
        gamma: the constant γ > 0, or 0.

    Returns:
        (B,).
    """
    z = for_divergence(logits) - log_gamma_constant(gamma)
    others = z.scatter(-1, labels.unsqueeze(-1), -math.inf)
    return flat_divergence(others).to(at_least_single(logits).dtype)


def edl_loss(logits: Tensor, labels: Tensor, gamma: float, beta: float) -> Tensor:
    """L_edl = L_nll + β L_kl with L_kl = KL / C, (B,); the KL is not computed when β is 0."""
    nll = edl_nll(logits, labels, gamma)
    if beta == 0:
        return nll
    return nll + beta / logits.shape[-1] * edl_kl(logits, labels, gamma)


def soft_edl_loss(logits: Tensor, targets: Tensor, gamma: float, beta: float) -> Tensor:
    """The evidential loss expected of labels drawn from target distributions, Σ_c t_c L_edl(c).

    For a one-hot target it is `edl_loss`, and it costs as much for any other.

    Args:
        logits: (B, C).
        targets: (B, C), each row a distribution.
        gamma: the constant γ > 0, or 0.
        beta: weight of KL / C, which is not computed when it is 0.

    Returns:
        (B,).
    """
    losses = -calibrated_log_softmax(logits, gamma)
    if beta != 0:
        z = for_divergence(logits) - log_gamma_constant(gamma)
        losses = losses + beta / logits.shape[-1] * flat_divergences(z).to(losses.dtype)
    return (targets * losses).sum(-1)


def mixed_edl_loss(
    logits: Tensor, first: Tensor, second: Tensor, weight: float, gamma: float, beta: float
) -> Tensor:
    """The evidential loss of mixed rows, weight L_edl(first) + (1 - weight) L_edl(second).

    It is `soft_edl_loss` of the mixed one-hot labels in less time; differentiable once.

    Args:
        logits: (B, C).
        first: (B,) int64 class ids, and
        second: (B,) those of the rows mixed in.
        weight: of the first labels, in [0, 1].
        gamma: the constant γ > 0, or 0.
        beta: weight of KL / C, which is not computed when it is 0.

    Returns:
        (B,).
    """
    logits, scale = at_least_single(logits), beta / logits.shape[-1]
    if beta != 0:
        small = small_mixed_loss(logits, first, second, weight, gamma, scale)
        if small is not None:
            return small
    one, other = (one_hot(y, logits.shape[-1]).to(logits.dtype) for y in (first, second))
    return soft_edl_loss(logits, other.lerp(one, weight), gamma, beta)


def neg_entropy(probs: Tensor) -> Tensor:
    """Negative entropy Σ_c p_c ln p_c of each row, (B,); 0 ln 0 is 0 and has a finite slope."""
    probs = at_least_single(probs)
    return (probs * probs.clamp(min=torch.finfo(probs.dtype).tiny).log()).sum(-1)


def kl_divergence(log_p: Tensor, log_q: Tensor) -> Tensor:
    """KL(p || q) = Σ_c p_c ln(p_c / q_c) of log-probabilities (B, C), (B,)."""
    return (log_p.exp() * (log_p - log_q)).sum(1)


def prior_penalty(probs: Tensor, prior: Tensor | None = None) -> Tensor:
    """KL from a prior to the mean prediction, Σ_c π ln(π / mean_i p_ic); π = 1 / C unless given.

    Args:
        probs: (B, C).
        prior: π, (C,), all above 0.

    Returns:
        A scalar, since it is the batch as a whole that should look like the prior; 0 when it
        does, and finite when a class is never predicted.
    """
    mean = at_least_single(probs).mean(0)
    log_mean = mean.clamp(min=torch.finfo(mean.dtype).tiny).log()
    if prior is None:
        return -math.log(len(mean)) - log_mean.mean()
    return (prior * (prior.log() - log_mean)).sum()


def soft_cross_entropy(logits: Tensor, targets: Tensor) -> Tensor:
    """Cross-entropy -Σ_c t_c ln softmax(o)_c with target distributions (B, C); (B,)."""
    return -(targets * at_least_single(logits).log_softmax(-1)).sum(-1)


CLIP = 1e-4  # as released with ELR; it bounds the logarithm below


def clipped_softmax(logits: Tensor) -> Tensor:
    """Softmax kept within [1e-4, 1 - 1e-4], (B, C); rows may then sum to a little more than 1."""
    return at_least_single(logits).softmax(-1).clamp(CLIP, 1 - CLIP)


def early_learning_penalty(logits: Tensor, targets: Tensor) -> Tensor:
    """The regulariser of ELR, ln(1 - <p, t>): the lower, the more the prediction is as it was.

    Args:
        logits: (B, C).
        targets: (B, C) running averages of earlier predictions, each row summing to less than 1.

    Returns:
        (B,), never above 0; 0 without slope where the target is 0.
    """
    return (1 - (clipped_softmax(logits) * targets).sum(-1)).log()


def label_noise(labels: Tensor, u: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
    """The noise of SOP in given labels: U = u² on the given class, V = v² on every other one.

    Args:
        labels: (B,) int64 class ids.
        u: (B, 1) and
        v: (B, C), factors learned for each example.

    Returns:
        U and V, both (B, C), kept within [0, 1] and without slope beyond.
    """
    given = one_hot(labels, v.shape[-1]).to(v.dtype)
    return (u**2 * given).clamp(max=1), (v**2 * (1 - given)).clamp(max=1)


def with_noise(probs: Tensor, plus: Tensor, minus: Tensor) -> Tensor:
    """What SOP expects of the given labels: p + U - V, made a distribution again, (B, C)."""
    noisy = (probs + plus - minus).clamp(min=CLIP)
    return (noisy / noisy.sum(-1, keepdim=True)).clamp(CLIP, 1)


def noise_gap(logits: Tensor, labels: Tensor, plus: Tensor, minus: Tensor) -> Tensor:
    """Squared distance of prediction and noise from the given label, ||h + U - V - y||², (B,).

    h is the predicted class as a one-hot row, so that only the noise has a slope.
    """
    given = one_hot(labels, logits.shape[-1])
    hard = one_hot(logits.argmax(-1), logits.shape[-1])
    return (hard + plus - minus - given).square().sum(-1)


def descended(rows: Tensor, lr: float) -> Tensor:
    """Leaf `rows` one step of plain gradient descent later; as they were if nothing moved them."""
    slope = rows.grad
    return rows.detach() if slope is None else rows.detach() - lr * slope


@dataclass(frozen=True)
class Objective:
    """A loss and the probabilities that belong to it; `gamma_c` and `beta` are those of L_edl."""

    loss: Literal["ce", "edl"]
    gamma_c: float  # γ C
    beta: float  # β, weight of L_kl

    def gamma(self, logits: Tensor) -> float:
        """γ from γ C; 0 is the plain softmax."""
        return self.gamma_c / logits.shape[1] if self.loss == "edl" else 0.0

    def probability(self, logits: Tensor) -> Tensor:
        """Softmax, or the calibrated softmax ρ̂ (eq. 1), (B, C)."""
        return calibrated_softmax(logits, self.gamma(logits))

    def log_probability(self, logits: Tensor) -> Tensor:
        """Its logarithm, (B, C)."""
        return calibrated_log_softmax(logits, self.gamma(logits))

    def of_labels(self, logits: Tensor, labels: Tensor) -> Tensor:
        """Cross-entropy, or L_edl = L_nll + β L_kl (eq. 4 and 5), of hard labels, (B,)."""
        return edl_loss(logits, labels, self.gamma(logits), self._beta)

    def of_targets(self, logits: Tensor, targets: Tensor) -> Tensor:
        """The same of soft targets: the expectation over labels drawn from them, (B,)."""
        return soft_edl_loss(logits, targets, self.gamma(logits), self._beta)

    def of_mixed(self, logits: Tensor, first: Tensor, second: Tensor, weight: float) -> Tensor:
        """The same of rows mixed from rows of these labels, the first with this weight, (B,)."""
        return mixed_edl_loss(logits, first, second, weight, self.gamma(logits), self._beta)

    def divergence(self, logits: Tensor, labels: Tensor) -> Tensor | None:
        """β L_kl alone (eq. 5), (B,); None where there is no such term."""
        if not self._beta:
            return None
        return self._beta / logits.shape[1] * edl_kl(logits, labels, self.gamma(logits))

    def log_evidence(self, logits: Tensor) -> Tensor | None:
        """ln(α - 1) of the Dirichlet, (B, C); None where softmax is trained."""
        if self.loss == "ce":
            return None
        gamma = self.gamma(logits)
        return logits - math.log(gamma) if gamma > 0 else logits

    @property
    def _beta(self) -> float:
        return self.beta if self.loss == "edl" else 0.0
