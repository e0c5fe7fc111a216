"""How given labels come about, fitted to scores and given labels alone.

An input with scores s has true class t with probability q_t = softmax(a s (I + D) + d)_t. Its label
is then drawn: it is wrong at the rate σ(r_t + b u), u being how unsure the scores are, for people
and models stumble over the same examples. A wrong label is drawn from row t of a confusion matrix
N, or, with probability κ, from the other classes in proportion to what the model thinks of them.
The parameters maximise the likelihood of the given labels, first all others without D and d, then
all but κ, since D could take its place. D and d only let q fit where one scale cannot; the penalty
on them says that the scores are nearly right as they stand.

Shapes: C classes, N training examples.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn.functional import one_hot

STEPS = 80  # of L-BFGS, at the most
TWIST_PENALTY = 0.03  # over C, on D and d; chosen on CIFAR-10N rand2
PRIOR_RATE = -2.0  # centre of r and of the logit of κ: 12%


@dataclass(frozen=True, kw_only=True)
class NoiseModel:
    """The parameters; see the module's text."""

    log_scale: Tensor  # ln a
    twist: Tensor  # D, (C, C)
    shift: Tensor  # d, (C,)
    rates: Tensor  # r, (C,)
    slope: Tensor  # b
    confusion: Tensor  # logits of N, (C, C); the diagonal is not used
    copied: Tensor  # logit of κ
    centre: float  # mean entropy of the scores, where u is 0
    spread: float  # its standard deviation, the unit of u

    def joint(self, scores: Tensor, given: Tensor, fixed: Tensor | None = None) -> Tensor:
        """Probability of each true class together with the given label, (N, C)."""
        classes = scores.shape[1]
        eye = torch.eye(classes, dtype=torch.float64)
        truth = (self.log_scale.exp() * scores @ (eye + self.twist) + self.shift).softmax(1)
        own = one_hot(given, classes).double()
        unsure = (entropy(scores) - self.centre) / self.spread
        rate = (self.rates + self.slope * unsure[:, None]).sigmoid()
        if fixed is not None:  # a label that a person has confirmed is right
            rate = rate.masked_fill(fixed[:, None], 0.0)
        return truth * (own * (1 - rate) + (1 - own) * rate * self._drawn(scores, given))

    def _drawn(self, scores: Tensor, given: Tensor) -> Tensor:
        """Probability of the given label among the wrong ones, for each true class, (N, C)."""
        diagonal = torch.eye(scores.shape[1], dtype=torch.bool)
        table = self.confusion.masked_fill(diagonal, -math.inf).softmax(1)
        thought = scores.softmax(1)
        likely = thought.gather(1, given[:, None]) / (1 - thought).clamp_min(1e-6)
        copied = self.copied.sigmoid()
        return (1 - copied) * table.T[given] + copied * likely

    def posterior(self, scores: Tensor, given: Tensor, fixed: Tensor | None = None) -> Tensor:
        """Probability of each true class, knowing the given label too, (N, C)."""
        joint = self.joint(scores, given, fixed)
        return joint / joint.sum(1, keepdim=True)

    def penalty(self, size: int) -> Tensor:
        """Minus the logarithm of the prior: fixed for D and d, else worth a few examples."""
        twist = self.twist.square().sum() + self.shift.square().sum()
        rest = (
            self.confusion.square().sum()
            + (self.rates - PRIOR_RATE).square().sum()
            + self.slope.square()
            + self.log_scale.square()
            + 0.1 * (self.copied - PRIOR_RATE).square()
        )
        return TWIST_PENALTY / len(self.shift) * twist + 0.5 / size * rest


def fit_noise_model(scores: Tensor, given: Tensor, fixed: Tensor | None = None) -> NoiseModel:
    """The likeliest noise model of scores (N, C) in double precision and given labels (N,)."""
    model = start_model(scores, given)
    main = [model.log_scale, model.rates, model.slope, model.confusion]

    def loss() -> Tensor:
        likelihood = model.joint(scores, given, fixed).sum(1).clamp_min(1e-300).log().mean()
        return model.penalty(len(scores)) - likelihood

    minimise(loss, [*main, model.copied])
    minimise(loss, [*main, model.twist, model.shift])
    return model


def minimise(loss: Callable[[], Tensor], free: list[Tensor], steps: int = STEPS) -> None:
    """Bring `loss` down by moving the tensors `free`, by L-BFGS; they end without a gradient."""
    for tensor in free:
        tensor.requires_grad_()
    optimiser = torch.optim.LBFGS(
        free, max_iter=steps, line_search_fn="strong_wolfe", tolerance_change=1e-8
    )

    def closure() -> Tensor:
        optimiser.zero_grad()
        value = loss()
        value.backward()  # type: ignore[no-untyped-call]
        return value

    optimiser.step(closure)  # type: ignore[no-untyped-call]
    for tensor in free:
        tensor.requires_grad_(False)


def entropy(scores: Tensor) -> Tensor:
    """Entropy of the softmax of scores, (N,)."""
    log_probs = scores.log_softmax(1)
    return -(log_probs.exp() * log_probs).sum(1)


def start_model(scores: Tensor, given: Tensor) -> NoiseModel:
    """Where the search begins; it would not find its way from few wrong labels to very many."""
    classes, unsure = scores.shape[1], entropy(scores)
    differ = (scores.argmax(1) != given).double().mean().clamp(max=0.95)
    zeros = torch.zeros(classes, classes, dtype=torch.float64)
    spread = unsure.std().item() if len(unsure) > 1 else 0.0
    return NoiseModel(
        log_scale=zeros[0, 0].clone(),
        twist=zeros.clone(),
        shift=zeros[0].clone(),
        rates=zeros[0] + (torch.logit(differ) if differ > 0.5 else PRIOR_RATE),
        slope=zeros[0, 0].clone(),
        confusion=zeros.clone(),
        copied=zeros[0, 0] + PRIOR_RATE,
        centre=unsure.mean().item(),
        spread=max(spread, 1e-3),
    )
