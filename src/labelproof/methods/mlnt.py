"""MLNT: learning to learn from noisy labelled data (Li, Wong, Zhao and Kankanhalli, CVPR 2019).

Paper: https://arxiv.org/abs/1812.05214. Code of its authors: https://github.com/LiJunnan1992/MLNT.
Departures: docs/methods/mlnt.md.

1. A mentor is trained on the given labels; its features say which examples are neighbours.
2. For every batch, M synthetic label sets are made in which a share ρ of the examples takes the
   label of a neighbour. One imagined gradient step on each leads to M moved networks.
3. The student is trained so that all of them still agree with its teacher, a slowly following copy,
   while it learns the given labels.
4. In further `rounds` a new student starts: the teacher before is its mentor, joins the teacher's
   predictions, and leaves out examples whose label it finds improbable.
5. `loss="edl"` puts L_edl of DPC and its calibrated probabilities in their places.

Shapes: B batch, C classes, F features, N training examples, k neighbours.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass
from typing import Annotated, ClassVar, Literal

import torch
from torch import Tensor

from labelproof import functional as fn
from labelproof.errors import BadInput
from labelproof.nets.heads import MultiHead, linear
from labelproof.training import settings as hp
from labelproof.training.batches import Batch
from labelproof.training.learner import Learner, called_with, sgd_of
from labelproof.training.loop import given_label
from labelproof.training.protocol import About, Logs, Phase
from labelproof.training.run import Run


@dataclass
class State:
    """What changes during training."""

    student: Learner
    mentor: Learner  # trained on the given labels alone, before the student
    teacher: MultiHead  # slowly following copy of the student; until there is one, of the mentor
    features: Tensor  # (N, F) of the mentor; none before it is trained
    kept: Tensor  # (N,) bool, what the mentor leaves to train on; all in the first round
    clean: Tensor  # (N,) probability of the given label by the teacher


@hp.record
class MLNT:
    """Hyper-parameters; defaults are the paper's for CIFAR-10, one round."""

    about: ClassVar[About] = About(
        title="Meta-learning of noise tolerance",
        paper="Li, Wong, Zhao and Kankanhalli, CVPR 2019",
        year=2019,
        link="https://arxiv.org/abs/1812.05214",
        code="https://github.com/LiJunnan1992/MLNT",
        cost="(4 + 11 M) N, first order (4 + 5 M) N; mentor 3 N",
        evidence=lambda method, state, x: method.objective.log_evidence(state.teacher(x)),
        second_order=True,
    )

    epochs: hp.Count = 240  # of mentor and students together
    mentor_epochs: hp.StageEpochs = 120
    rounds: hp.Count = 1  # of a student each, of the same length
    filter_below: hp.Share = (
        0.01  # rounds after the first: least p_y by the mentor to be trained on
    )
    batch: hp.PerStep = 128
    lr: hp.Positive = 0.2
    momentum: hp.Share = 0.9
    weight_decay: hp.NonNegative = 1e-4
    decay_at: hp.Share = (
        2 / 3
    )  # lr x 0.1 from this share on, of the epochs of mentor and student each
    synthetic: hp.Count = 10  # M, label sets made of every batch
    rho: hp.Share = 0.5  # ρ, share of a batch that takes the label of a neighbour
    neighbours: hp.Count = 10  # k, of an example among those of its batch
    meta_lr: hp.NonNegative = 0.2  # of the imagined step
    order: Literal["second", "first"] = "second"  # derivatives; "first" takes the step as given
    meta_weight: hp.NonNegative = 1.0  # α, of the meta loss
    kl_mean: Literal["element", "example"] = "element"  # KL is a mean over B C | over B
    ramp: Annotated[hp.NonNegative, hp.Epochs()] = 20.0  # epochs of the student until α is reached
    decay: hp.Share = 0.99  # ε, of the teacher during the ramp
    late_decay: hp.Share = 0.999  # ε, after it
    loss: Literal["ce", "edl"] = "ce"  # "edl" is L_edl of DPC
    gamma_c: hp.NonNegative = 10.0  # γ C of L_edl
    beta: hp.NonNegative = 0.5  # β of L_edl

    def __post_init__(self) -> None:
        if self.mentor_epochs >= self.epochs:
            raise BadInput(
                "MLNT: mentor_epochs must be smaller than epochs, which counts those of the "
                f"mentor too, not {self.mentor_epochs} of {self.epochs}."
            )
        if self.rounds > self.epochs - self.mentor_epochs:
            raise BadInput(
                f"MLNT: {self.rounds} rounds need as many epochs of students, not "
                f"{self.epochs - self.mentor_epochs}; set fewer rounds or more epochs."
            )

    @property
    def objective(self) -> fn.Objective:
        """Loss and probabilities."""
        return fn.Objective(self.loss, self.gamma_c, self.beta)

    def plan(self) -> tuple[Phase, ...]:
        """A mentor, then the student; then a student for every further round."""
        first, *further = self.lengths
        return (
            Phase("mentor", self.mentor_epochs, self.fit_mentor),
            Phase("meta", first, self.meta, enter=self.begin, leave=self.score),
            *(
                Phase(f"meta {r}", length, self.meta, enter=self.begin_again, leave=self.score)
                for r, length in enumerate(further, 2)
            ),
        )

    @property
    def lengths(self) -> list[int]:
        """Epochs of the student in every round."""
        whole, more = divmod(self.epochs - self.mentor_epochs, self.rounds)
        return [whole + (r < more) for r in range(self.rounds)]

    def place(self, epoch: int) -> tuple[int, int, int]:
        """Round (from 0), epochs of its student before this one, and in all."""
        past, number = epoch - self.mentor_epochs, 0
        while past >= self.lengths[number]:
            past, number = past - self.lengths[number], number + 1
        return number, past, self.lengths[number]

    def setup(self, run: Run) -> State:
        """Student and mentor with linear heads; the teacher starts as a copy of the mentor."""
        sgd = sgd_of(self)
        student, mentor = run.learner(sgd, label=linear), run.learner(sgd, label=linear)
        teacher = deepcopy(mentor.net).requires_grad_(False)
        n = run.task.size
        none = torch.zeros(n, 0, device=run.device)
        kept = torch.ones(n, dtype=torch.bool, device=run.device)
        return State(student, mentor, teacher, none, kept, torch.ones(n))

    # ---- the mentor ----

    def fit_mentor(self, state: State, run: Run) -> Logs:
        """One epoch of the mentor on the given labels."""
        net = state.mentor.net.train()
        state.mentor.set_lr(self.learning_rate(run.epoch, self.mentor_epochs))
        for batch in run.batches(self.batch):
            run.step(state.mentor, self.objective.of_labels(net(batch.views[0]), batch.y).mean())
        state.teacher.load_state_dict(net.state_dict())  # predicts until there is a student
        return {}

    def begin(self, state: State, run: Run) -> None:
        """Features of the trained mentor, and a teacher equal to the student."""
        state.features = run.features(state.mentor.net)
        state.teacher.load_state_dict(state.student.net.state_dict())

    def begin_again(self, state: State, run: Run) -> None:
        """The teacher becomes the mentor and sieves the labels; a new student and teacher."""
        state.mentor.net.load_state_dict(state.teacher.state_dict())
        probs = self.objective.probability(run.predict(state.mentor.net))
        state.kept = run.trusted(fn.of_label(probs, run.y)) >= self.filter_below
        state.student = run.learner(sgd_of(self), label=linear)
        self.begin(state, run)

    # ---- student and teacher ----

    def meta(self, state: State, run: Run) -> Logs:
        """One epoch of the student: a step on the given labels and the meta loss together."""
        student, teacher = state.student, state.teacher.train()
        number, past, length = self.place(run.epoch)
        net, rows = student.net.train(), state.kept.nonzero().squeeze(1)
        student.set_lr(self.learning_rate(past, length))
        batches = run.batches(self.batch, rows if len(rows) else None)
        total = torch.zeros((), device=run.device)
        for i, batch in enumerate(batches):
            elapsed = past + i / len(batches)
            follow(teacher, net, self.teacher_decay(elapsed, past * len(batches) + i))
            target = self.target(state, batch.views[0], number / (number + 1))
            logits = net(batch.views[0])
            meta = self.meta_loss(state, batch, logits, target, run)
            supervised = self.objective.of_labels(logits, batch.y).mean()
            run.step(student, supervised, self.ramped_weight(elapsed) * meta)
            total += meta.detach()
        return {"meta": (total / len(batches)).item()}

    @torch.no_grad()
    def target(self, state: State, x: Tensor, trust: float) -> Tensor:
        """What the teacher predicts, (B, C), with this share of what the mentor does."""
        by_teacher = self.objective.probability(state.teacher(x))
        if not trust:
            return by_teacher
        by_mentor = self.objective.probability(state.mentor.net.eval()(x))
        return trust * by_mentor + (1 - trust) * by_teacher

    def ramped_weight(self, elapsed: float) -> float:
        """α exp(-5 (1 - t)²), t the share of the ramp after so many epochs of the student."""
        return self.meta_weight * fn.sigmoid_ramp(elapsed, self.ramp)

    def teacher_decay(self, elapsed: float, step: int) -> float:
        """How much of the teacher stays at a step: less while student and teacher learn fast."""
        decay = self.decay if elapsed < self.ramp else self.late_decay
        return min(decay, step / (step + 1))  # a plain mean at first: the start is forgotten

    def meta_loss(
        self, state: State, batch: Batch, logits: Tensor, target: Tensor, run: Run
    ) -> Tensor:
        """1/M Σ_m J_m, a scalar; one imagined step at a time, so that memory holds one of them."""
        if not self.meta_weight:
            return logits.new_zeros(())
        net = state.student.net
        weights = {name: w for name, w in net.named_parameters() if w.requires_grad}
        near = nearest(state.features[batch.index], self.neighbours)
        value, slopes = logits.new_zeros(()), [torch.zeros_like(w) for w in weights.values()]
        for _ in range(self.synthetic):
            labels = neighbour_labels(batch.y, near, self.rho, run.rng)
            loss = self.objective.of_labels(logits, labels).mean()
            value += self.add_slopes(slopes, net, weights, loss, batch.views[0], target)
        return with_slopes(value / self.synthetic, [*weights.values()], slopes)

    def add_slopes(
        self,
        slopes: Sequence[Tensor],
        net: MultiHead,
        weights: Mapping[str, Tensor],
        loss: Tensor,
        x: Tensor,
        target: Tensor,
    ) -> Tensor:
        """J_m of one imagined step, a scalar; a share 1/M of its derivatives joins the slopes."""
        moved = self.imagined_step(weights, loss)
        distance = self.distance(called_with(net, moved, x), target).mean()
        for slope, more in zip(slopes, derivatives(distance, [*weights.values()]), strict=True):
            slope += more / self.synthetic
        return distance.detach()

    def imagined_step(self, weights: Mapping[str, Tensor], loss: Tensor) -> dict[str, Tensor]:
        """θ_m = θ - meta_lr ∂loss/∂θ; second order follows θ through the derivative too."""
        second = self.order == "second"
        steps = derivatives(loss, [*weights.values()], again=second)
        moved = zip(weights.items(), steps, strict=True)
        return {name: weight - self.meta_lr * step for (name, weight), step in moved}

    def distance(self, logits: Tensor, target: Tensor) -> Tensor:
        """J: KL of the moved network's prediction from the teacher's, (B,); "element": over C."""
        log_probs = fn.calibrated_log_softmax(logits, self.objective.gamma(logits))
        kl = fn.neg_entropy(target) - (target * log_probs).sum(1)
        return kl / logits.shape[1] if self.kl_mean == "element" else kl

    # ---- losses and answers ----

    def learning_rate(self, epoch: int, epochs: int) -> float:
        """At an epoch of the mentor or of the student, of so many."""
        return fn.step_decay(self.lr, epoch, (round(self.decay_at * epochs),))

    score = given_label

    def predict(self, state: State, x: Tensor) -> Tensor:
        """Class probabilities by the teacher, (B, C)."""
        return self.objective.probability(state.teacher(x))


def nearest(features: Tensor, count: int) -> Tensor:
    """Each row's nearest other rows, (B, k) with k = min(count, B - 1)."""
    distances = torch.cdist(features, features).fill_diagonal_(torch.inf)
    return distances.topk(min(count, len(features) - 1), largest=False).indices


def neighbour_labels(labels: Tensor, near: Tensor, share: float, rng: torch.Generator) -> Tensor:
    """Labels (B,) of which this share, drawn anew, is each replaced by that of a neighbour."""
    count = int(share * len(labels)) if near.shape[1] else 0
    rows = torch.randperm(len(labels), generator=rng)[:count].to(labels.device)
    column = torch.randint(max(1, near.shape[1]), (count,), generator=rng).to(labels.device)
    out = labels.clone()
    out[rows] = labels[near[rows, column]]
    return out


def derivatives(loss: Tensor, weights: Sequence[Tensor], again: bool = False) -> tuple[Tensor, ...]:
    """∂loss/∂weights, zeros where there is none; differentiable once more with `again`."""
    return torch.autograd.grad(
        loss,
        weights,
        retain_graph=True,  # all imagined steps start from one forward pass
        create_graph=again,
        materialize_grads=True,
    )


def with_slopes(value: Tensor, weights: Sequence[Tensor], slopes: Sequence[Tensor]) -> Tensor:
    """A scalar with this value and these derivatives by the weights."""
    line = torch.stack([(w * s).sum() for w, s in zip(weights, slopes, strict=True)]).sum()
    return value + (line - line.detach())


@torch.no_grad()
def follow(teacher: MultiHead, net: MultiHead, decay: float) -> None:
    """teacher <- decay teacher + (1 - decay) net, for weights alone."""
    for mean, now in zip(teacher.parameters(), net.parameters(), strict=True):
        mean.lerp_(now, 1 - decay)
