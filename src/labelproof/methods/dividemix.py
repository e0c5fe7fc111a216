"""DivideMix: noisy labels as semi-supervised learning (Li, Socher and Hoi, ICLR 2020).

Paper: https://arxiv.org/abs/2002.07394. Code of its authors:
https://github.com/LiJunnan1992/DivideMix. Departures: docs/methods/dividemix.md.

1. Two networks warm up on the given labels.
2. Every epoch, two Gaussians are fitted to each network's losses on the given labels.
3. The posterior of the lower one splits the set, each network for its peer.
4. MixMatch trains on both parts: labels of the labelled part are blended with the network's own
   prediction, those of the unlabelled part are guessed by both networks.

Shapes: B batch, C classes, N training examples; X labelled part, U unlabelled part of a split.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, ClassVar, Literal

import torch
from torch import Tensor
from torch.nn.functional import one_hot

from labelproof import functional as fn
from labelproof.errors import BadInput
from labelproof.nets.heads import linear
from labelproof.training import settings as hp
from labelproof.training.batches import Batch
from labelproof.training.learner import Learner, Pair, logits_of_nets, sgd_of
from labelproof.training.mixmatch import GivenLabels, Guess, Mixed, pairs, parts, square_loss
from labelproof.training.protocol import About, Logs, Phase
from labelproof.training.run import Run


@dataclass
class State:
    """What changes during training."""

    learners: Pair
    losses: tuple[Tensor, Tensor]  # (k, N) each: normalised losses of the last k <= average epochs
    clean: Tensor  # (N,) probability that the given label is right, mean of the two networks'


@hp.record
class DivideMix:
    """Hyper-parameters; defaults are those of CIFAR-10 with half of the labels redrawn."""

    about: ClassVar[About] = About(
        title="DivideMix",
        paper="Li, Socher and Hoi, ICLR 2020",
        year=2020,
        link="https://arxiv.org/abs/2002.07394",
        code="https://github.com/LiJunnan1992/DivideMix",
        cost="2 N + 36 X, X of the N labels kept",
        evidence=lambda method, state, x: method.objective.log_evidence(method.logits(state, x)),
    )

    epochs: hp.Count = 300
    warmup: hp.WarmUp = 10
    batch: hp.PerStep = 64  # B; as many unlabelled examples join the labelled ones in a step
    lr: hp.Positive = 0.02
    momentum: hp.Share = 0.9
    weight_decay: hp.NonNegative = 5e-4
    nesterov: bool = False
    schedule: Literal["step", "one_cycle"] = "step"  # "one_cycle": up for a quarter, then to 0
    decay_at: hp.Share = 0.5  # step: lr x 0.1 from this share of the epochs on
    confidence_penalty: hp.NonNegative = 0.0  # weight of the negative entropy in the warm-up
    average: hp.Count = 1  # epochs whose normalised losses are averaged before the fit
    threshold: hp.Share = 0.5  # τ
    temperature: hp.Positive = 0.5  # T
    alpha: hp.Positive = 4.0  # Beta(α, α) of the mixing weight
    lambda_u: hp.LambdaU = 25.0  # λ_u, weight of L_U
    ramp: Annotated[hp.Positive, hp.Epochs()] = 16.0  # epochs until λ_u is reached
    square: Literal["mean", "sum"] = "mean"  # L_U over classes: released code | paper
    prior_weight: hp.NonNegative = 1.0  # λ_r, weight of L_reg
    rows: Literal["all", "labelled"] = "all"  # rows that are forwarded; WebVision: labelled alone
    loss: Literal["ce", "edl"] = "ce"  # "edl" puts DPC's L_edl and calibrated softmax in
    gamma_c: hp.NonNegative = 10.0  # γ C of L_edl
    beta: hp.NonNegative = 0.5  # β of L_edl

    def __post_init__(self) -> None:
        if self.rows == "labelled" and self.lambda_u not in (0, "auto"):
            raise BadInput(
                "DivideMix: rows='labelled' leaves no rows for L_U; set lambda_u=0 with it."
            )

    @property
    def objective(self) -> fn.Objective:
        """Loss and probabilities."""
        return fn.Objective(self.loss, self.gamma_c, self.beta)

    def plan(self) -> tuple[Phase, ...]:
        """Warm-up, then co-divide."""
        return (
            Phase("warm-up", self.warmup, self.warm_up),
            Phase("co-divide", self.epochs - self.warmup, self.co_divide, leave=self.score),
        )

    def setup(self, run: Run) -> State:
        """Two networks and no losses yet."""
        nothing = torch.zeros(0, run.task.size, device=run.device)
        return State(
            run.pair(sgd_of(self, nesterov=self.nesterov), label=linear),
            (nothing, nothing),
            torch.ones(run.task.size),
        )

    @property
    def weight_u(self) -> float:
        """λ_u as a number."""
        return hp.settled("DivideMix", "lambda_u", self.lambda_u)

    logits = logits_of_nets

    def predict(self, state: State, x: Tensor) -> Tensor:
        """Probabilities of the mean logits, (B, C)."""
        return self.objective.probability(self.logits(state, x))

    # ---- warm-up ----

    def warm_up(self, state: State, run: Run) -> Logs:
        """One epoch on the given labels, each network by itself."""
        for learner in state.learners:
            self.fit_given(learner, run)
        return {}

    def fit_given(self, learner: Learner, run: Run) -> None:
        """Cross-entropy on all given labels, plus the negative entropy where asked."""
        loss, probability = self.objective.of_labels, self.objective.probability
        given = GivenLabels(loss, probability, self.confidence_penalty)
        given.fit(learner, run, 2 * self.batch, self.learning_rate(run))

    def learning_rate(self, run: Run) -> float:
        """Constant, then a tenth; or one cycle, at the middle of each epoch."""
        if self.schedule == "one_cycle":
            return fn.one_cycle(self.lr, run.epoch + 0.5, self.epochs)
        return fn.stair_decay(self.lr, run.epoch, self.epochs, (self.decay_at,))

    # ---- co-divide ----

    def co_divide(self, state: State, run: Run) -> Logs:
        """One epoch: both networks split the set, each trains on its peer's split."""
        first, second = state.learners
        state.losses = (
            self.with_losses(state.losses[0], first, run),
            self.with_losses(state.losses[1], second, run),
        )
        clean_1, clean_2 = (self.clean_probability(losses, run) for losses in state.losses)
        self.mixmatch(first, second, clean_2, run)
        self.mixmatch(second, first, clean_1, run)
        state.clean = (clean_1 + clean_2) / 2
        return {"selected": (state.clean > self.threshold).float().mean().item()}

    def score(self, state: State, run: Run) -> None:
        """Clean probabilities by the networks as they are at the end."""
        pairs = zip(state.losses, state.learners, strict=True)
        now = [self.clean_probability(self.with_losses(*pair, run), run) for pair in pairs]
        state.clean = (now[0] + now[1]) / 2

    def with_losses(self, past: Tensor, learner: Learner, run: Run) -> Tensor:
        """`past` with the network's losses on the given labels, normalised to [0, 1], added."""
        losses = fn.min_max(self.objective.of_labels(run.predict(learner.net), run.y))
        return torch.cat([past, losses[None]])[-self.average :]

    def clean_probability(self, losses: Tensor, run: Run) -> Tensor:
        """Posterior of the lower of two Gaussians, (N,)."""
        return run.trusted(fn.two_gaussians(-losses.mean(0)))

    # ---- MixMatch on the two parts ----

    def mixmatch(self, learner: Learner, peer: Learner, clean: Tensor, run: Run) -> None:
        """One epoch of one network on the split its peer made."""
        labelled, unlabelled = parts(clean > self.threshold)
        if len(labelled) == 0:  # nothing to trust: another epoch on the given labels
            self.fit_given(learner, run)
            return
        learner.train_at(self.learning_rate(run))
        peer.net.eval()
        batches = run.batches(self.batch, labelled, ("weak", "weak"))
        others = run.batches(self.batch, unlabelled, ("weak", "weak"), forever=True)
        for i, (x, u) in enumerate(pairs(batches, others)):
            mixed = self.mix(learner, peer, x, u, clean[x.index], run)
            elapsed = run.epoch + i / len(batches)
            run.step(learner, *self.losses(learner, mixed, elapsed))

    @property
    def guess(self) -> Guess:
        """Targets: co-refinement for X (eq. 3), co-guessing for U, both sharpened (eq. 4)."""
        return Guess(self.objective.probability, self.temperature)

    @torch.no_grad()
    def mix(
        self, learner: Learner, peer: Learner, x: Batch, u: Batch | None, clean: Tensor, run: Run
    ) -> Mixed:
        """Co-refine, co-guess, sharpen, and mix all rows with one weight and one permutation."""
        given = one_hot(x.y, run.task.num_classes).float()
        targets, inputs = self.guess.refined(learner, x, given, clean).repeat(2, 1), [*x.views]
        if u is not None:
            targets = torch.cat([targets, self.guess.guessed(learner, peer, u).repeat(2, 1)])
            inputs += u.views
        mixed, weight, permutation = fn.mixup(
            torch.cat(inputs), self.alpha, run.rng, run.device_rng
        )
        return Mixed(mixed, fn.mix(targets, weight, permutation), 2 * len(x.index))

    def losses(self, learner: Learner, mixed: Mixed, elapsed: float) -> list[Tensor]:
        """L_X + λ_r L_reg + λ_u(t) L_U (eq. 9 to 12), each a scalar."""
        n = mixed.labelled
        logits = learner.net(mixed.x[:n] if self.rows == "labelled" else mixed.x)
        probs = self.objective.probability(logits)
        losses = [
            self.objective.of_targets(logits[:n], mixed.targets[:n]).mean(),
            self.prior_weight * fn.prior_penalty(probs),
        ]
        if self.weight_u and len(logits) > n:
            l_u = square_loss(probs[n:], mixed.targets[n:], self.square)
            losses.append(self.weight_u * fn.ramp(elapsed, self.warmup, self.ramp) * l_u)
        return losses
