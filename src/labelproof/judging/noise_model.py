"""How given labels come about, as a model of held-out scores and given labels.

An example with scores s has true class t with probability q_t = softmax(a (s - h) + h)_t, h being
half the logarithm of the class's share: evidence is sharpened, the share of a class is not, else
rare classes would dissolve. Its label is wrong at the rate σ(r + r_t + b u), u being how unsure the
scores are (standardised entropy), since people and models stumble over the same examples. A wrong
label is drawn from row t of a table or, with probability κ, as the scores suggest.

Given labels hardly tell how far to sharpen: wrong labels, and a model that is unsure of hard
examples, explain them about equally well. So ln a has a centre and a spread from elsewhere
(`sharpness`), and only true classes that a person has told say more of it.

Labels that a person has reviewed enter with their known true class. They were chosen by scores and
labels alone, so the choice need not be modelled.

Shapes: C classes, N examples, W sets of shared parameters (ln a, r, b, logit κ).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn.functional import one_hot

from labelproof.judging.numbers import minimise

SHARE = 0.5  # how much of a class's share is kept from being sharpened like evidence
SHARPER = (-2.0, -1.0, 0.0, 1.0, 2.0)  # values of ln a, in spreads from its centre
TINY = 1e-300
EVERYTHING = slice(None)


@dataclass(frozen=True, kw_only=True)
class Prior:
    """Centres and spreads of the parameters.

    The slope b cannot be learnt from noisy labels; its centre is what true labels show on sets
    labelled by people. So are centre and spread of ln a, where nothing better is known of it.
    """

    sharpen: tuple[float, float] = (0.45, 0.4)  # ln a
    rate: tuple[float, float] = (-2.0, 1.0)  # r, logit of the rate at mean entropy
    slope: tuple[float, float] = (0.35, 0.05)  # b
    copied: tuple[float, float] = (0.0, 1.0)  # logit of κ
    class_sd: float = 0.3  # of r_t
    table_scale: float = 0.6  # of the logits of the table, Student-t


@dataclass(frozen=True, kw_only=True)
class Rows:
    """What decides labels of some examples; any number of dimensions may come before N."""

    unsure: Tensor  # (..., N, 1)
    table: Tensor  # (..., N, C) probability of the label if it is wrong and not as scores suggest
    likely: Tensor  # (..., N, 1 or C) the same if it is as they suggest
    own: Tensor  # (..., N, C) whether this is the given label


class NoiseModel:
    """The model of some scores (N, C) and labels (N,), with parameters that `fit` moves."""

    def __init__(
        self, scores: Tensor, labels: Tensor, truth: Tensor, prior: Prior | None = None
    ) -> None:
        """Take scores in double precision, labels, and true classes where known, else -1."""
        self.prior = prior or Prior()
        self.scores, self.labels = scores.log_softmax(1), labels
        self.size, self.classes = scores.shape
        probs = self.scores.exp()
        self.log_share = SHARE * probs.mean(0).clamp_min(1e-9).log()
        entropy = -(probs * self.scores).sum(1)
        self.unsure = (entropy - entropy.mean()) / entropy.std(correction=0).clamp_min(1e-3)
        self.eye = torch.eye(self.classes, dtype=torch.bool)
        self.own = one_hot(labels, self.classes).bool()
        self.likely = probs.gather(1, labels[:, None]) / (1 - probs).clamp_min(1e-6)
        known = truth[:, None]
        self.possible = (known < 0) | (known == torch.arange(self.classes))
        start = [self.prior.sharpen[0], -1.5, self.prior.slope[0], self.prior.copied[0]]
        self.shared = torch.tensor([start], dtype=torch.float64)
        self.by_class = torch.zeros(self.classes, dtype=torch.float64)  # r_t
        self.table = torch.zeros(self.classes, self.classes, dtype=torch.float64)

    def truth(self, shared: Tensor, rows: slice | Tensor = EVERYTHING) -> Tensor:
        """q: probability of each true class before the label is seen, (W, N, C)."""
        sharpen = shared[:, 0].exp()[:, None, None]
        return (sharpen * (self.scores[rows] - self.log_share) + self.log_share).softmax(2)

    def joint(
        self,
        shared: Tensor,
        rows: slice | Tensor = EVERYTHING,
        reviewed: bool = True,
    ) -> Tensor:
        """Probability of each true class together with the given label, (W, N, C).

        With `reviewed`, true classes that a reviewer has ruled out have none.
        """
        joint = self.truth(shared, rows) * self.label(shared[:, None, None], self.of(rows))
        return joint * self.possible[rows] if reviewed else joint

    def of(self, rows: slice | Tensor) -> Rows:
        """What decides the labels of some examples, whatever the shared parameters."""
        table = self.table.masked_fill(self.eye, -math.inf).softmax(1).T
        return Rows(
            unsure=self.unsure[rows][..., None],
            table=table[self.labels[rows]],
            likely=self.likely[rows],
            own=self.own[rows],
        )

    def label(self, shared: Tensor, rows: Rows) -> Tensor:
        """Probability of the given label for each true class, (..., N, C).

        `shared` (..., 1, 1, 4) has two places for examples and classes.
        """
        _, rate, slope, copied = shared.unbind(-1)
        wrong = (rate + self.by_class + slope * rows.unsure).sigmoid()
        share = copied.sigmoid()
        drawn = (1 - share) * rows.table + share * rows.likely
        return torch.where(rows.own, 1 - wrong, wrong * drawn)

    def posterior(self, shared: Tensor, reviewed: bool = True) -> Tensor:
        """Probability of each true class, knowing the label, (W, N, C)."""
        joint = self.joint(shared, reviewed=reviewed).clamp_min(TINY)
        return joint / joint.sum(2, keepdim=True)

    def log_likelihood(self, shared: Tensor, rows: slice | Tensor = EVERYTHING) -> Tensor:
        """Of the given labels, and of the truth where it is known, (W,)."""
        return self.joint(shared, rows).sum(2).clamp_min(TINY).log().sum(1)

    def log_prior(self, shared: Tensor) -> Tensor:
        """Logarithm of the prior density of the shared parameters, up to a constant, (...)."""
        p = self.prior
        centres, spreads = zip(p.sharpen, p.rate, p.slope, p.copied, strict=True)
        unit = (shared - shared.new_tensor(centres)) / shared.new_tensor(spreads)
        return -0.5 * unit.square().sum(-1)

    def density(self, rows: Tensor, starts: Tensor) -> Callable[[Tensor], Tensor]:
        """The log-density (A, W) of shared parameters (A, W, 4), up to a constant.

        It is that of examples (A, n), of others for each start (A, 4), whose ln a all have. So what
        does not depend on the rest is computed once.
        """
        pairs = zip(starts[:, None], rows, strict=True)
        truth = torch.stack([self.truth(start, some) for start, some in pairs])
        truth = truth * self.possible[rows][:, None]
        fixed = self.of(rows[:, None])

        def value(shared: Tensor) -> Tensor:
            joint = truth * self.label(shared[:, :, None, None], fixed)
            return joint.sum(3).clamp_min(TINY).log().sum(2) + self.log_prior(shared)

        return value

    def sharper(self) -> Tensor:
        """The shared parameters with several values of ln a, (W, 4)."""
        centre, spread = self.prior.sharpen
        shared = self.shared.repeat(len(SHARPER), 1)
        shared[:, 0] = centre + spread * shared.new_tensor(SHARPER)
        return shared

    def shares(self, shared: Tensor) -> Tensor:
        """How far each ln a is to be believed: its density, times what a person told, (W,)."""
        centre, spread = self.prior.sharpen
        told = (~self.possible).any(1).nonzero().squeeze(1)
        joint = self.joint(shared, told, reviewed=False)
        right = (joint * self.possible[told]).sum(2).clamp_min(TINY)
        known = (right.log() - joint.sum(2).clamp_min(TINY).log()).sum(1)
        return (known - 0.5 * ((shared[:, 0] - centre) / spread).square()).softmax(0)

    def fit(self, steps: int = 80, *, sharpen: bool = False) -> NoiseModel:
        """Move all parameters to the mode of the posterior; ln a as well with `sharpen`."""
        fixed = 0 if sharpen else 1
        others = self.shared[:, fixed:].clone()

        def loss() -> Tensor:
            self.shared = torch.cat([self.shared[:, :fixed], others], dim=1)
            cells = self.table[~self.eye] / self.prior.table_scale
            rest = 0.5 * (self.by_class / self.prior.class_sd).square().sum()
            rest = rest + 2 * torch.log1p(cells.square() / 4).sum()
            value = self.log_likelihood(self.shared) + self.log_prior(self.shared)
            return (rest - value.sum()) / self.size

        minimise(loss, [others, self.by_class, self.table], steps)
        self.shared = self.shared.detach()
        return self

    def over(self, scores: Tensor, labels: Tensor, truth: Tensor) -> NoiseModel:
        """The same parameters on other examples."""
        other = NoiseModel(scores, labels, truth, self.prior)
        other.shared, other.by_class, other.table = self.shared, self.by_class, self.table
        return other
