"""DPC: Dirichlet-based prediction calibration (Zong, Wang, Xie and Huang, AAAI 2024).

Two networks, each with one head for the supervised and one for the unsupervised loss. After a
warm-up, every epoch (1) scores each training example by the margin of its given label, (2) fits two
Gaussians to the margins and splits the set, each network for its peer, and (3) trains on both parts
by MixMatch with calibrated probabilities. DPC* adds consistency between weak and strong views.
Every departure from the paper: docs/methods/dpc.md.

Shapes: B batch, C classes, N training examples; X labelled part, U unlabelled part of a split.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import repeat
from typing import Annotated, Any, ClassVar, Literal

import torch
from torch import Tensor
from torch.nn.functional import one_hot

from labelproof import functional as fn
from labelproof.errors import BadInput
from labelproof.nets.heads import linear, mlp
from labelproof.training.batches import Batch, View
from labelproof.training.learner import SGD, Learner
from labelproof.training.protocol import Logs, Phase
from labelproof.training.run import Run
from labelproof.training.settings import (
    Count,
    Epochs,
    Natural,
    NonNegative,
    Positive,
    Range,
    Share,
    check,
    settled,
)

ASYMMETRIC = {"confidence_penalty": 1.0}
CIFAR_100 = {"warmup": 30}
CIFAR_N = {"warmup": 30, "confidence_penalty": 1.0, "net": "resnet34"}
WEBVISION = {
    "epochs": 100,
    "warmup": 1,
    "batch": 32,
    "lr": 0.01,
    "alpha": 0.5,
    "selector": "normalised",
    "lambda_u": 0.0,
    "rows": "labelled",
    "net": "inception_resnet_v2",
}
PLAIN: dict[str, dict[str, Any]] = {
    "cifar10-symmetric-0.2": {"lambda_u": 0.0},
    "cifar10-symmetric-0.5": {"lambda_u": 25.0},
    "cifar10-symmetric-0.8": {"lambda_u": 25.0},
    **{f"cifar10-asymmetric-{r}": {"lambda_u": 0.0, **ASYMMETRIC} for r in (0.1, 0.3, 0.4)},
    "cifar100-symmetric-0.2": {"lambda_u": 25.0, **CIFAR_100},
    "cifar100-symmetric-0.5": {"lambda_u": 150.0, **CIFAR_100},
    "cifar100-symmetric-0.8": {"lambda_u": 150.0, **CIFAR_100},
    "cifar100-asymmetric-0.1": {"lambda_u": 25.0, **CIFAR_100, **ASYMMETRIC},
    "cifar100-asymmetric-0.3": {"lambda_u": 25.0, **CIFAR_100, **ASYMMETRIC},
    "cifar100-asymmetric-0.4": {"lambda_u": 150.0, **CIFAR_100, **ASYMMETRIC},
    **{f"cifar10n-{s}": {"lambda_u": 0.0, **CIFAR_N} for s in ("aggre", "rand1", "rand2", "rand3")},
    "cifar10n-worst": {"lambda_u": 25.0, **CIFAR_N},
    "cifar100n": {"lambda_u": 25.0, **CIFAR_N, "warmup": 40},
    "webvision": WEBVISION,
}
# DPC*: the consistency weights of the appendix; the released code has them swapped
PUBLISHED = PLAIN | {
    f"{name}-star": {**values, "consistency": 3.0 if name.startswith("cifar100") else 1.0}
    for name, values in PLAIN.items()
}
VECTORS: dict[str, Any] = {
    "epochs": 10,
    "warmup": 2,
    "batch": 128,
    "lr": 0.1,
    "alpha": 1.0,
    "lambda_u": "auto",
    "ramp": 4.0,
    "selector": "mirror",
}
IMAGES: dict[str, Any] = {
    "epochs": 60,
    "warmup": 5,
    "lambda_u": "auto",
    "selector": "mirror",
    "beta": 0.0,
}
LEAST_KEPT = 0.5  # a mirrored split that keeps less is not to be trusted, and shrinks on and on


@dataclass
class State:
    """What changes during training."""

    learners: tuple[Learner, Learner]
    clean: Tensor  # (N,) probability that the given label is right, mean of the two networks'


@dataclass(frozen=True)
class Mixed:
    """A mixed batch: rows of X first, then rows of U, two views each."""

    x: Tensor  # mixed inputs
    plain: Tensor  # the same rows before mixing
    strong: Tensor | None  # mixed strong views, for DPC*
    targets: Tensor  # mixed soft targets
    own: Tensor  # hard label of each row
    partner: Tensor  # hard label of the row it was mixed with
    weight: float  # λ' of the row itself
    permutation: Tensor
    labelled: int  # how many rows come from X


@dataclass(frozen=True, kw_only=True)
class DPC:
    """Hyper-parameters; defaults are the paper's for CIFAR-10."""

    title: ClassVar[str] = "Dirichlet-based prediction calibration"
    paper: ClassVar[str] = "Zong, Wang, Xie and Huang, AAAI 2024"
    year: ClassVar[int] = 2024
    cost: ClassVar[str] = "2 N + 36 X, X of the N labels kept (32 X at lambda_u = 0; 60 X for DPC*)"

    epochs: Count = 300
    warmup: Natural = 10
    batch: Count = 64  # B; as many unlabelled examples join the labelled ones in a step
    lr: Positive = 0.02
    momentum: Share = 0.9
    weight_decay: NonNegative = 5e-4
    decay_at: Share = 0.5  # lr x 0.1 from this share of the epochs on
    gamma_c: NonNegative = 10.0  # γ C, eq. 2
    beta: NonNegative = 0.5  # β, weight of L_kl in L_edl
    confidence_penalty: NonNegative = 0.0  # weight of the negative entropy in the warm-up
    criterion: Literal["margin", "loss"] = "margin"  # "loss" is the ablation without large margin
    selector: Literal["gmm", "normalised", "auto", "mirror"] = "gmm"
    max_kurtosis: float = 1.2  # "auto": Gaussians up to this excess kurtosis
    threshold: Annotated[float, Range(0.5, 1)] = 0.5  # τ; from 0.5 on, a kept label stays
    temperature: Positive = 0.5  # T
    alpha: Positive = 4.0  # Beta(α, α) of the mixing weight
    sup_on: Literal["mixed", "unmixed"] = "mixed"  # released code | the paper's formula
    lambda_u: NonNegative | Literal["auto"] = 25.0  # λ_u, weight of L_uns
    ramp: Annotated[Positive, Epochs()] = 16.0  # epochs until λ_u is reached
    two_heads: bool = True
    prior_weight: NonNegative = 1.0
    rows: Literal["all", "labelled"] = "all"  # rows that are forwarded; WebVision: labelled alone
    consistency: NonNegative = 0.0  # DPC*: weight of the weak-to-strong consistency
    loss: Literal["edl", "ce"] = "edl"  # "ce" is the ablation without L_edl

    def __post_init__(self) -> None:
        check(self)
        if self.rows == "labelled" and self.lambda_u not in (0, "auto"):
            raise BadInput("DPC: rows='labelled' leaves no rows for L_uns; set lambda_u=0 with it.")
        if self.selector == "mirror" and self.criterion == "loss":
            raise BadInput(
                "DPC: selector='mirror' needs margins; set selector='gmm' with criterion='loss'."
            )
        if self.warmup >= self.epochs:
            raise BadInput(
                f"DPC: warmup must be smaller than epochs, not {self.warmup} of {self.epochs}."
            )

    def plan(self) -> tuple[Phase, ...]:
        """Warm-up, then co-divide."""
        return (
            Phase("warm-up", self.warmup, self.warm_up),
            Phase("co-divide", self.epochs - self.warmup, self.co_divide, leave=self.score),
        )

    def setup(self, run: Run) -> State:
        """Two networks; the second head exists only where a loss uses it."""
        sgd = SGD(lr=self.lr, momentum=self.momentum, weight_decay=self.weight_decay)
        heads = {"label": linear, "mix": mlp} if self.second_head else {"label": linear}
        return State(
            (run.learner(sgd, **heads), run.learner(sgd, **heads)), torch.ones(run.task.size)
        )

    @property
    def weight_u(self) -> float:
        """λ_u as a number."""
        return settled("DPC", "lambda_u", self.lambda_u)

    @property
    def second_head(self) -> bool:
        """Whether L_uns has a head of its own."""
        return self.two_heads and self.weight_u > 0

    def predict(self, state: State, x: Tensor) -> Tensor:
        """Calibrated probabilities of the mean logits of the two networks, (B, C)."""
        first, second = state.learners
        return self.probability((first.net(x) + second.net(x)) / 2)

    # ---- losses with this method's constants ----

    def probability(self, logits: Tensor) -> Tensor:
        """ρ̂, eq. 2; softmax when trained without L_edl."""
        return fn.calibrated_softmax(logits, self.gamma(logits))

    def supervised(self, logits: Tensor, labels: Tensor) -> Tensor:
        """L_edl = L_nll + β L_kl (eq. 6 and 7), or cross-entropy when trained without it, (B,)."""
        beta = self.beta if self.loss == "edl" else 0.0
        return fn.edl_loss(logits, labels, self.gamma(logits), beta)

    def gamma(self, logits: Tensor) -> float:
        """γ from γ C."""
        return self.gamma_c / logits.shape[1] if self.loss == "edl" else 0.0

    # ---- warm-up ----

    def warm_up(self, state: State, run: Run) -> Logs:
        """One epoch on the given labels, each network by itself."""
        for learner in state.learners:
            self.fit_given(learner, run)
        return {}

    def fit_given(self, learner: Learner, run: Run) -> None:
        """L_edl on all given labels, plus the negative entropy where asked."""
        learner.net.train()
        learner.set_lr(self.learning_rate(run))
        for batch in run.batches(2 * self.batch):
            logits = learner.net(batch.views[0])
            losses = [self.supervised(logits, batch.y).mean()]
            if self.confidence_penalty:
                sure = fn.neg_entropy(self.probability(logits)).mean()
                losses.append(self.confidence_penalty * sure)
            run.step(learner, *losses)

    def learning_rate(self, run: Run) -> float:
        """Constant, then a tenth."""
        return fn.step_decay(self.lr, run.epoch, (round(self.decay_at * self.epochs),))

    # ---- split ----

    def co_divide(self, state: State, run: Run) -> Logs:
        """One epoch: both networks split the set, each trains on its peer's split."""
        first, second = state.learners
        clean_1, clean_2 = self.clean_probability(first, run), self.clean_probability(second, run)
        self.mixmatch(first, second, clean_2, run)
        self.mixmatch(second, first, clean_1, run)
        state.clean = (clean_1 + clean_2) / 2
        return {"selected": (state.clean > self.threshold).float().mean().item()}

    def score(self, state: State, run: Run) -> None:
        """Clean probabilities by the networks as they are at the end."""
        first, second = state.learners
        state.clean = (self.clean_probability(first, run) + self.clean_probability(second, run)) / 2

    def clean_probability(self, learner: Learner, run: Run) -> Tensor:
        """Large-margin criterion: how surely each given label belongs to the clean part, (N,)."""
        logits = run.predict(learner.net)
        if self.criterion == "margin":
            scores = fn.label_margin(logits, run.y)
        else:
            scores = -self.supervised(logits, run.y)
        if self.selector == "mirror":
            mirrored = fn.mirrored_gaussians(scores)
            if (mirrored > self.threshold).double().mean() >= LEAST_KEPT:
                return run.trusted(mirrored)
        if self.selector in ("gmm", "mirror") or (
            self.selector == "auto" and fn.excess_kurtosis(scores) <= self.max_kurtosis
        ):
            return run.trusted(fn.two_gaussians(scores))
        return run.trusted(fn.min_max(scores))

    # ---- MixMatch on the two parts ----

    def mixmatch(self, learner: Learner, peer: Learner, clean: Tensor, run: Run) -> None:
        """One epoch of one network on the split its peer made."""
        kept = clean > self.threshold
        labelled, unlabelled = kept.nonzero().squeeze(1), (~kept).nonzero().squeeze(1)
        if len(labelled) == 0:  # nothing to trust: another epoch on the given labels
            self.fit_given(learner, run)
            return
        learner.net.train()
        peer.net.eval()
        learner.set_lr(self.learning_rate(run))
        views: tuple[View, ...] = ("weak", "weak")
        if self.consistency:
            views += ("strong", "strong")
        batches = run.batches(self.batch, labelled, views)
        others = run.batches(self.batch, unlabelled, views, forever=True)
        pairs = zip(batches, others if len(unlabelled) else repeat(None), strict=False)
        for i, (x, u) in enumerate(pairs):
            mixed = self.mix(learner, peer, x, u, clean[x.index], run)
            elapsed = run.epoch + i / len(batches)
            run.step(learner, *self.losses(learner, mixed, elapsed))

    @torch.no_grad()
    def mix(
        self, learner: Learner, peer: Learner, x: Batch, u: Batch | None, clean: Tensor, run: Run
    ) -> Mixed:
        """Refine, co-guess, sharpen, and mix all rows with one weight and one permutation."""
        targets = one_hot(x.y, run.task.num_classes).float()
        if self.weight_u and u is not None:  # else no loss sees more of them than their argmax
            targets = self.refine(learner, x, targets, clean)
        targets = targets.repeat(2, 1)
        inputs, strong = [*x.views[:2]], [*x.views[2:]]
        if u is not None:
            targets = torch.cat([targets, self.co_guess(learner, peer, u).repeat(2, 1)])
            inputs, strong = [*inputs, *u.views[:2]], [*strong, *u.views[2:]]
        plain = torch.cat(inputs)
        mixed, weight, permutation = fn.mixup(plain, self.alpha, run.rng)
        own = targets.argmax(1)
        return Mixed(
            x=mixed,
            plain=plain,
            strong=fn.mix(torch.cat(strong), weight, permutation) if strong else None,
            targets=fn.mix(targets, weight, permutation),
            own=own,
            partner=own[permutation],
            weight=weight,
            permutation=permutation,
            labelled=2 * len(x.index),
        )

    def refine(self, learner: Learner, x: Batch, given: Tensor, clean: Tensor) -> Tensor:
        """w y + (1 - w) p, sharpened; its argmax is the given label, the rest is for L_uns."""
        first, second = self.probability(learner.net(torch.cat(x.views[:2]))).chunk(2)
        w = clean[:, None].float()
        return fn.sharpen(w * given + (1 - w) * (first + second) / 2, self.temperature)

    def co_guess(self, learner: Learner, peer: Learner, u: Batch) -> Tensor:
        """Mean of both networks over both views, sharpened."""
        views = torch.cat(u.views[:2])
        both = self.probability(learner.net(views)) + self.probability(peer.net(views))
        first, second = both.chunk(2)
        return fn.sharpen((first + second) / 4, self.temperature)

    def losses(self, learner: Learner, mixed: Mixed, elapsed: float) -> list[Tensor]:
        """L_sup + λ(t) L_uns + prior penalty (+ consistency), each a scalar."""
        n, rows = mixed.labelled, slice(mixed.labelled if self.rows == "labelled" else None)
        ramped = self.weight_u * fn.ramp(elapsed, self.warmup, self.ramp)
        features = learner.net.trunk_features(mixed.x[rows])
        logits = learner.net.head("label", features)
        sup = learner.net(mixed.plain) if self.sup_on == "unmixed" else None
        losses = [self.l_sup(logits if sup is None else sup, mixed, mixed_input=sup is None)]
        if self.weight_u and len(logits) > n:
            other = learner.net.head("mix", features[n:]) if self.second_head else logits[n:]
            square = (self.probability(other) - mixed.targets[n:]) ** 2
            losses.append(ramped * square.mean())  # L_uns, over rows and classes
        probs = self.probability(logits)
        if self.prior_weight:
            losses.append(self.prior_weight * fn.prior_penalty(probs))
        if mixed.strong is not None:
            strong = fn.calibrated_log_softmax(learner.net(mixed.strong[rows]), self.gamma(logits))
            weak = probs.detach()
            kl = (torch.xlogy(weak, weak) - weak * strong).sum(1)
            losses.append(self.consistency * kl.mean())
        return losses

    def l_sup(self, logits: Tensor, mixed: Mixed, mixed_input: bool) -> Tensor:
        """λ' L_edl(own label) + (1 - λ') L_edl(partner's label), mean of the labelled rows."""
        n, weight = mixed.labelled, mixed.weight
        partner = logits if mixed_input else logits[mixed.permutation]
        own_loss = self.supervised(logits[:n], mixed.own[:n])
        partner_loss = self.supervised(partner[:n], mixed.partner[:n])
        return (weight * own_loss + (1 - weight) * partner_loss).mean()
