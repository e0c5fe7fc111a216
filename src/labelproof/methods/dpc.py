"""DPC: Dirichlet-based prediction calibration (Zong, Wang, Xie and Huang, AAAI 2024).

Paper: https://arxiv.org/abs/2401.07062 (https://doi.org/10.1609/aaai.v38i15.29672). Code of its
authors: https://github.com/chenchenzong/DPC. Departures: docs/methods/dpc.md.

1. With γ in the softmax, the size of a logit means evidence; L_edl trains it (eq. 1 to 5).
2. Two networks warm up on the given labels, each with a head for L_sup and one for L_uns.
3. Every epoch, each network splits the set for its peer by the margin of the given label.
4. Each trains on both parts by MixMatch: labels that were kept, guesses of both for the others.
5. DPC* adds consistency between weak and strong views.

On a user's own vectors linear models that have not seen the labels they judge make the first split
(`start="crossfit"`, ours): with few examples a warm-up is either too short or too long.

Shapes: B batch, C classes, N training examples; X labelled part, U unlabelled part of a split.
Equations are numbered as printed in the paper; those without a number are named.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import islice
from typing import Annotated, ClassVar, Literal

import torch
from torch import Tensor
from torch.nn.functional import one_hot

from labelproof import functional as fn
from labelproof.errors import BadInput
from labelproof.nets.heads import linear, mlp
from labelproof.training import settings as hp
from labelproof.training.batches import Batch, View
from labelproof.training.learner import Learner, Pair, logits_of_nets, sgd_of
from labelproof.training.mixmatch import GivenLabels, Guess, pairs, parts, square_loss
from labelproof.training.protocol import About, Logs, Phase
from labelproof.training.run import Run

FOLDS, MANY = 5, 20_000  # of the linear models; two for more examples than this
FEWEST_STEPS, MOST_STEPS = 200, 4000  # of a network after the warm-up, for steps="auto"
USUAL_VARIANCE = 25.0  # of inputs along their main direction, where the learning rate is as set


@dataclass
class State:
    """What changes during training."""

    learners: Pair
    clean: Tensor  # (N,) probability that the given label is right, mean of the two networks'
    outside: Tensor  # (N, C) log-probabilities out of fold, for start="crossfit"; else empty
    unit: float = 1.0  # the learning rate's, for lr_unit="data"


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


@hp.record
class DPC:
    """Hyper-parameters; defaults are the paper's for CIFAR-10."""

    about: ClassVar[About] = About(
        title="Dirichlet-based prediction calibration",
        paper="Zong, Wang, Xie and Huang, AAAI 2024",
        year=2024,
        link="https://arxiv.org/abs/2401.07062",
        code="https://github.com/chenchenzong/DPC",
        cost="2 N + 36 X, X of the N labels kept (32 X at lambda_u = 0; 60 X for DPC*)",
        evidence=lambda method, state, x: method.objective.log_evidence(method.logits(state, x)),
    )

    epochs: hp.Count = 300
    warmup: hp.WarmUp = 10
    batch: hp.PerStep = 64  # B; as many unlabelled examples join the labelled ones in a step
    lr: hp.Positive = 0.02
    momentum: hp.Share = 0.9
    weight_decay: hp.NonNegative = 5e-4
    nesterov: bool = False
    # "one_cycle": up for a quarter, then to 0; "cosine": from the first step to the last
    schedule: Literal["step", "one_cycle", "cosine"] = "step"
    lr_unit: Literal["one", "data"] = "one"  # "data": larger where the inputs vary little
    decay_at: hp.Share = 0.5  # step: lr x 0.1 from this share of the epochs on
    gamma_c: hp.NonNegative = 10.0  # γ C, eq. 1
    beta: hp.NonNegative = 0.5  # β, weight of L_kl in L_edl
    confidence_penalty: hp.NonNegative = 0.0  # weight of the negative entropy in the warm-up
    criterion: Literal["margin", "loss"] = "margin"  # "loss" is the ablation without large margin
    start: Literal["warm-up", "crossfit"] = "warm-up"  # what the first split comes from
    selector: Literal["gmm", "normalised", "auto", "mirror", "confident"] = "gmm"
    max_kurtosis: float = 1.2  # "auto": Gaussians up to this excess kurtosis
    threshold: Annotated[float, hp.Range(0.5, 1)] = 0.5  # τ; from 0.5 on, a kept label stays
    temperature: hp.Positive = 0.5  # T
    alpha: hp.Positive = 4.0  # Beta(α, α) of the mixing weight
    sup_on: Literal["mixed", "unmixed"] = "mixed"  # released code | the paper's formula
    lambda_u: hp.LambdaU = 25.0  # λ_uns, weight of L_uns
    ramp: Annotated[hp.Positive, hp.Epochs()] = 16.0  # epochs until λ_uns is reached
    square: Literal["mean", "sum"] = "mean"  # L_uns over classes: released code | paper
    two_heads: bool = True
    prior_weight: hp.NonNegative = 1.0
    prior: Literal["uniform", "given"] = "uniform"  # "given": the shares of the given labels
    balance: hp.Share = 0.0  # from 0, examples count alike, to 1, classes do
    steps: hp.Natural | Literal["auto"] = 0  # after the warm-up; 0: a pass over X an epoch
    join_at: hp.Share = 0.0  # share of these steps before U joins
    draws: hp.Count = 2  # views of an example in a step
    # rows that are forwarded: "used" by a loss; WebVision: "labelled" alone
    rows: Literal["all", "used", "labelled"] = "all"
    consistency: hp.NonNegative = 0.0  # DPC*: weight of the weak-to-strong consistency
    loss: Literal["edl", "ce"] = "edl"  # "ce" is the ablation without L_edl

    def __post_init__(self) -> None:
        if self.rows == "labelled" and self.lambda_u not in (0, "auto"):
            raise BadInput("DPC: rows='labelled' leaves no rows for L_uns; set lambda_u=0 with it.")
        if self.selector == "mirror" and self.criterion == "loss":
            raise BadInput("DPC: criterion='loss' has no margins to mirror; set selector='gmm'.")
        if (self.start == "crossfit") != (self.selector == "confident"):
            raise BadInput("DPC: start='crossfit' and selector='confident' go together; set both.")

    # ---- Dirichlet-based prediction calibration ----

    @property
    def objective(self) -> fn.Objective:
        """L_edl with the calibrated softmax, or the ablation: cross-entropy with softmax."""
        return fn.Objective(self.loss, self.gamma_c, self.beta)

    def probability(self, logits: Tensor) -> Tensor:
        """ρ̂ = (exp(o) + γ) / Σ (exp(o) + γ), eq. 1, the mean of the Dirichlet, eq. 3; (B, C)."""
        return self.objective.probability(logits)

    def l_edl(self, logits: Tensor, labels: Tensor) -> Tensor:
        """L_edl = L_nll + β L_kl, (B,)."""
        l_nll = fn.edl_nll(logits, labels, self.objective.gamma(logits))  # eq. 4
        beta_l_kl = self.objective.divergence(logits, labels)  # β times eq. 5
        return l_nll if beta_l_kl is None else l_nll + beta_l_kl

    # ---- large-margin example selection ----

    def clean_probability(self, learner: Learner, run: Run) -> Tensor:
        """How surely each given label belongs to the clean part, by its margin, (N,)."""
        logits = run.predict(learner.net)
        if self.criterion == "margin":
            scores = fn.label_margin(logits, run.y)  # margin(x) = o_y - max_{j≠y} o_j
        else:
            scores = -self.l_edl(logits, run.y)
        return run.trusted(self.split(scores))

    def split(self, scores: Tensor) -> Tensor:
        """Posterior of the Gaussian with the larger mean, or another rule, (N,)."""
        if self.selector == "mirror":
            return fn.mirrored_or_free(scores, self.threshold)
        if self.selector == "auto":
            return fn.gaussians_or_scaled(scores, self.max_kurtosis)
        return fn.two_gaussians(scores) if self.selector == "gmm" else fn.min_max(scores)

    # ---- MixMatch: pairs, targets, losses ----

    @torch.no_grad()
    def mix(
        self, learner: Learner, peer: Learner, x: Batch, u: Batch | None, clean: Tensor, run: Run
    ) -> Mixed:
        """λ' = max(λ, 1 - λ), t' = λ' t_1 + (1 - λ') t_2 for inputs, labels and predictions."""
        targets = one_hot(x.y, run.task.num_classes).float()
        if self.weight_u and u is not None:  # else no loss sees more of them than their argmax
            targets = self.guess.refined(learner, x, targets, clean)
        weak, targets = self.draws, targets.repeat(self.draws, 1)
        inputs, strong = [*x.views[:weak]], [*x.views[weak:]]
        if u is not None:
            targets = torch.cat([targets, self.guess.guessed(learner, peer, u).repeat(weak, 1)])
            inputs, strong = [*inputs, *u.views[:weak]], [*strong, *u.views[weak:]]
        plain = torch.cat(inputs)
        mixed, weight, permutation = fn.mixup(plain, self.alpha, run.rng, run.device_rng)
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
            labelled=weak * len(x.index),
        )

    @property
    def guess(self) -> Guess:
        """w y + (1 - w) p for X, whose argmax is the given label; the mean p of both for U."""
        return Guess(self.probability, self.temperature, self.draws)

    def l_sup(self, logits: Tensor, mixed: Mixed, mixed_input: bool) -> Tensor:
        """L_sup = λ' L_edl(x_1, y_1) + (1 - λ') L_edl(x_2, y_2), mean of the labelled rows."""
        n, weight = mixed.labelled, mixed.weight
        if mixed_input:  # x_1 and x_2 are the same mixture: L_edl of two labels in one go
            labels = mixed.own[:n], mixed.partner[:n]
            return self.objective.of_mixed(logits[:n], *labels, weight).mean()
        own, partner = self.l_edl(logits[:n], mixed.own[:n]), logits[mixed.permutation][:n]
        return (weight * own + (1 - weight) * self.l_edl(partner, mixed.partner[:n])).mean()

    def l_uns(self, logits: Tensor, mixed: Mixed) -> Tensor:
        """L_uns = ||ρ' - ρ̂(f(x'))||², mean of the unlabelled rows and, as released, of classes."""
        targets = mixed.targets[mixed.labelled :]
        return square_loss(self.probability(logits), targets, self.square)

    def losses(
        self, learner: Learner, mixed: Mixed, elapsed: float, prior: Tensor | None = None
    ) -> list[Tensor]:
        """L_total = L_sup + λ_uns(t) L_uns, a prior penalty, and for DPC* consistency; scalars."""
        n, rows = mixed.labelled, slice(mixed.labelled if self.labelled_alone else None)
        features = learner.net.trunk_features(mixed.x[rows])
        logits = learner.net.head("label", features)
        sup = learner.net(mixed.plain) if self.sup_on == "unmixed" else None
        losses = [self.l_sup(logits if sup is None else sup, mixed, mixed_input=sup is None)]
        if self.weight_u and len(logits) > n:
            other = learner.net.head("mix", features[n:]) if self.second_head else logits[n:]
            ramped = self.weight_u * fn.ramp(elapsed, self.warmup, self.ramp)
            losses.append(ramped * self.l_uns(other, mixed))
        probs = self.probability(logits)
        if self.prior_weight:
            losses.append(self.prior_weight * fn.prior_penalty(probs, prior))
        if mixed.strong is not None:
            strong = self.objective.log_probability(learner.net(mixed.strong[rows]))
            weak = probs.detach()
            kl = (torch.xlogy(weak, weak) - weak * strong).sum(1)
            losses.append(self.consistency * kl.mean())
        return losses

    # ---- training ----

    def plan(self) -> tuple[Phase, ...]:
        """Warm-up, or linear models across folds in its place; then co-divide."""
        folds, rest = self.start == "crossfit", self.epochs - self.before
        name, epoch = ("cross-fit", self.cross_fit) if folds else ("warm-up", self.warm_up)
        last = Phase("co-divide", rest, self.co_divide, leave=self.score)
        return (Phase(name, self.before, epoch), last)

    @property
    def before(self) -> int:
        """Epochs before the first split."""
        return 1 if self.start == "crossfit" else self.warmup

    def setup(self, run: Run) -> State:
        """Two networks; the second head exists only where a loss uses it."""
        heads = {"label": linear, "mix": mlp} if self.second_head else {"label": linear}
        size, classes = run.task.size, run.task.num_classes
        return State(
            learners=run.pair(sgd_of(self, nesterov=self.nesterov), **heads),
            clean=torch.ones(size),
            outside=torch.zeros((size, classes) if self.start == "crossfit" else 0),
        )

    @property
    def weight_u(self) -> float:
        """λ_uns as a number."""
        return hp.settled("DPC", "lambda_u", self.lambda_u)

    @property
    def labelled_alone(self) -> bool:
        """Whether rows of U are mixed into those of X, but not forwarded."""
        used = self.weight_u or self.prior_weight or self.consistency
        return self.rows == "labelled" or (self.rows == "used" and not used)

    @property
    def second_head(self) -> bool:
        """Whether L_uns has a head of its own."""
        return self.two_heads and self.weight_u > 0

    def warm_up(self, state: State, run: Run) -> Logs:
        """One epoch on the given labels, each network by itself."""
        if run.epoch == 0 and self.lr_unit == "data":
            state.unit = unit_of(run.plain())
        for learner in state.learners:
            self.fit_given(learner, run, state.unit)
        return {}

    def fit_given(self, learner: Learner, run: Run, unit: float) -> None:
        """L_edl on all given labels, plus the negative entropy where asked."""
        given = GivenLabels(self.l_edl, self.probability, self.confidence_penalty)
        given.fit(learner, run, 2 * self.batch, unit * self.learning_rate(run))

    def cross_fit(self, state: State, run: Run) -> Logs:
        """The first split, by linear models that have not seen the labels they judge."""
        x, y, task = run.plain(), run.task.y, run.task
        fold = fn.folds_of(y, FOLDS if len(y) <= MANY else 2, run.rng)
        state.outside = fn.cross_fit_twice(x, y, task.num_classes, fold, task.fixed, task.targets)
        state.clean = run.trusted(fn.confident(state.outside, y))
        if self.lr_unit == "data":
            state.unit = unit_of(x)
        return {"selected": (state.clean > self.threshold).float().mean().item()}

    def learning_rate(self, run: Run) -> float:
        """Constant, then a tenth; or one cycle, at the middle of each epoch."""
        if self.schedule == "one_cycle":
            return fn.one_cycle(self.lr, run.epoch + 0.5, self.epochs)
        return fn.stair_decay(self.lr, run.epoch, self.epochs, (self.decay_at,))

    def co_divide(self, state: State, run: Run) -> Logs:
        """One epoch: both networks split the set, each trains on its peer's split."""
        first, second = state.learners
        clean_1, clean_2 = self.splits(state, run)
        self.mixmatch(first, second, clean_2, run, state.unit)
        self.mixmatch(second, first, clean_1, run, state.unit)
        state.clean = (clean_1 + clean_2) / 2
        return {"selected": (state.clean > self.threshold).float().mean().item()}

    def splits(self, state: State, run: Run) -> tuple[Tensor, Tensor]:
        """Clean probabilities (N,) by each network; before they have learnt, by linear models."""
        first, second = state.learners
        if self.start == "warm-up":
            return self.clean_probability(first, run), self.clean_probability(second, run)
        if run.epoch <= self.before:
            clean = state.clean.to(run.device)  # linear models work on the CPU
            return clean, clean
        return self.joint_probability(first, state, run), self.joint_probability(second, state, run)

    def joint_probability(self, learner: Learner, state: State, run: Run) -> Tensor:
        """Clean probability (N,) by a network and linear models that have not seen the label."""
        own = self.objective.log_probability(run.predict(learner.net)).cpu()
        clean = fn.confident((own + state.outside.cpu()) / 2, run.task.y)
        return run.trusted(clean.to(run.device))

    def mixmatch(
        self, learner: Learner, peer: Learner, clean: Tensor, run: Run, unit: float = 1.0
    ) -> None:
        """One epoch of one network on the split its peer made."""
        labelled, unlabelled = parts(clean > self.threshold)
        if len(labelled) == 0:  # nothing to trust: another epoch on the given labels
            self.fit_given(learner, run, unit)
            return
        learner.train_at(unit * self.learning_rate(run))
        peer.net.eval()
        views: list[View] = ["weak"] * self.draws
        if self.consistency:
            views += ["strong"] * self.draws
        steps = self.steps_an_epoch(run.task.size)
        drawn = fn.repeated(labelled, run.y[labelled], self.balance, run.rng)
        batches = run.batches(self.batch, drawn, views, forever=steps > 0)
        others = run.batches(self.batch, unlabelled, views, forever=True)
        length, given = steps or len(batches), self.prior == "given"
        prior = fn.label_shares(run.y, run.task.num_classes) if given else None
        for i, (x, u) in enumerate(islice(pairs(batches, others), length)):
            elapsed = run.epoch + i / length
            done = (elapsed - self.before) / max(1, self.epochs - self.before)
            if self.schedule == "cosine":
                learner.set_lr(fn.cosine_decay(unit * self.lr, done, 1.0))
            joined = u if done >= self.join_at else None
            mixed = self.mix(learner, peer, x, joined, clean[x.index], run)
            run.step(learner, *self.losses(learner, mixed, elapsed, prior))

    def steps_an_epoch(self, size: int) -> int:
        """Steps of a network in each epoch after the warm-up; 0 for a pass over X."""
        auto = min(max(FEWEST_STEPS, size // 10), MOST_STEPS)
        whole = auto if self.steps == "auto" else self.steps
        return -(-whole // max(1, self.epochs - self.before))

    def score(self, state: State, run: Run) -> None:
        """Clean probabilities by the networks as they are at the end."""
        state.clean = torch.stack(self.splits(state, run)).mean(0)

    logits = logits_of_nets

    def predict(self, state: State, x: Tensor) -> Tensor:
        """Calibrated probabilities of the mean logits, (B, C)."""
        return self.probability(self.logits(state, x))


def unit_of(x: Tensor) -> float:
    """What the learning rate is multiplied by for inputs (N, D), for lr_unit="data"."""
    return float((USUAL_VARIANCE / max(fn.top_variance(x), 1.0)) ** 0.5)
