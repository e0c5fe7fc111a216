"""MentorNet: a learned curriculum (Jiang, Zhou, Leung, Li and Fei-Fei, ICML 2018).

A mentor turns what is known of an example's loss (the loss, how far it lies above a moving
percentile of all losses, how much of training is done) into a weight between 0 and 1 for the
student's loss. The curriculum is predefined ("pd"), self-paced ("self_paced"), or learned by a
small network from examples of which it is known whether their labels are right ("dd").

Paper: https://arxiv.org/abs/1712.05055. Authors' code: https://github.com/google/mentornet.
Departures: docs/methods/mentornet.md.
Shapes: B batch, C classes, N training examples.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, ClassVar, Literal

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from labelproof import functional as fn
from labelproof.errors import BadInput
from labelproof.nets.heads import linear
from labelproof.training import settings as hp
from labelproof.training.learner import Adam, Learner, sgd_of, softmax_of_net
from labelproof.training.protocol import About, Logs, Phase
from labelproof.training.run import Run

Percent = Annotated[int, hp.Range(0, 100)]
Stage = hp.StageEpochs
EASY, LINEAR = 18, 90  # percent of training: all examples, then self-paced, then linear weights
MENTOR_CLIP = 5.0  # largest norm of the mentor's gradient


class Mentor(nn.Module):
    """Loss, difference and percent of training to the logit of a weight.

    One step of a bidirectional LSTM with one unit a direction, a label embedding whose label is
    always 0, a frozen embedding of the percent; 20 tanh units; one output.
    """

    def __init__(self) -> None:
        super().__init__()
        self.lstm = nn.LSTM(2, 1, bidirectional=True, batch_first=True)
        self.label = nn.Embedding(2, 2)
        self.percent = nn.Embedding(100, 5)
        self.percent.weight.requires_grad_(False)
        self.hidden = nn.Linear(9, 20)
        self.out = nn.Linear(20, 1)

    def forward(self, loss: Tensor, difference: Tensor, percent: Tensor) -> Tensor:
        """(B,) each, to logits (B,)."""
        signals, _ = self.lstm(torch.stack([loss, difference], 1)[:, None])
        label = self.label(torch.zeros_like(percent))
        joined = torch.cat([signals[:, 0], label, self.percent(percent.clamp(max=99))], 1)
        out: Tensor = self.out(torch.tanh(self.hidden(joined))).squeeze(1)
        return out


@dataclass
class State:
    """What changes during training."""

    learner: Learner
    mentor: Mentor
    level: float  # moving percentile of the losses
    tried: Tensor  # (n,) examples whose labels are known, "dd" alone
    tried_labels: Tensor  # (n,) labels that the recording student learns
    records: Tensor  # (epochs, n) losses of those examples
    clean: Tensor  # (N,) half the mentor's weight, half the given label's probability


@hp.record
class MentorNet:
    """Hyper-parameters; defaults are those of the released predefined curriculum on CIFAR."""

    about: ClassVar[About] = About(
        title="MentorNet",
        paper="Jiang, Zhou, Leung, Li and Fei-Fei, ICML 2018",
        year=2018,
        link="https://arxiv.org/abs/1712.05055",
        code="https://github.com/google/mentornet",
        cost="3 N",
    )

    epochs: hp.Count = 100
    batch: hp.PerStep = 128
    lr: hp.Positive = 0.1
    decay_at: tuple[hp.Share, ...] = (0.5, 0.64, 0.77)  # lr x 0.1 from each share of the epochs on
    momentum: hp.Share = 0.9
    weight_decay: hp.NonNegative = 2e-4  # times the mean weight of a batch
    kind: Literal["pd", "self_paced", "dd"] = "pd"
    percentile: hp.Share = 0.7  # of a batch's losses
    level_decay: hp.Share = 0.5  # of the moving percentile
    slope: hp.Positive = 1.0  # γ of the linear weights
    burn_in: Percent = 0  # percent of training with all weights 1
    drop: tuple[float, ...] = (0.5, 17, 0.05, 83)  # share dropped, percent of training, ...
    scout: Stage = 0  # dd: epochs on the given labels, to find examples to try the mentor on
    record: Stage = 0  # dd: epochs of the student whose losses teach the mentor
    tried: hp.Share = 0.1  # dd: share of the examples it is tried on
    tried_noise: hp.Share = 0.4  # dd: share of their labels that are made wrong
    mentor_percentile: hp.Share = 0.9  # dd: of all recorded losses
    mentor_steps: hp.Count = 30_000  # dd
    mentor_lr: hp.Positive = 0.1  # dd: of Adam; x 0.9 every 1,000 steps

    def __post_init__(self) -> None:
        if self.scout + self.record >= self.epochs or (self.kind == "dd") != (self.record > 0):
            raise BadInput(
                "MentorNet: record must be above 0 for kind='dd' and 0 for others, and scout and "
                f"record must leave epochs for the student, not {self.scout} and {self.record} of "
                f"{self.epochs}."
            )
        if len(self.drop) % 2 or sum(self.drop[1::2]) != 100:
            raise BadInput(
                "MentorNet: drop must be pairs of a share and a percent of training, which add up "
                f"to 100, not {self.drop}."
            )

    def plan(self) -> tuple[Phase, ...]:
        """For the learned curriculum first scout and record; then the student."""
        rest = self.epochs - self.scout - self.record
        student = Phase("student", rest, self.study, self.start_anew, self.score)
        if self.kind != "dd":
            return (student,)
        return (
            Phase("scout", self.scout, self.look),
            Phase("record", self.record, self.record_losses, self.choose, self.teach_mentor),
            student,
        )

    def setup(self, run: Run) -> State:
        """Student and mentor."""
        none = torch.zeros(0, dtype=torch.long)
        mentor = Mentor().to(run.device)
        return State(
            self.student(run), mentor, 0.0, none, none, torch.zeros(0, 0), torch.ones(run.task.size)
        )

    def student(self, run: Run) -> Learner:
        """A new student."""
        return run.learner(sgd_of(self), label=linear)

    def start_anew(self, state: State, run: Run) -> None:
        """A new student, and no memory of losses."""
        if run.epoch > 0:
            state.learner = self.student(run)
        state.level = 0.0

    predict = softmax_of_net  # softmax of the student, (B, C)

    # ---- the student ----

    def study(self, state: State, run: Run) -> Logs:
        """One epoch of weighted cross-entropy, some examples dropped at random."""
        first = self.scout + self.record
        learner = self.prepared(state, run.epoch - first, self.epochs - first)
        batches, total = run.batches(self.batch), 0.0
        sure = run.trusted(torch.zeros(run.task.size, device=run.device))
        for i, batch in enumerate(batches):
            done = (run.epoch - first + i / len(batches)) / (self.epochs - first)
            losses = F.cross_entropy(learner.net(batch.views[0]), batch.y, reduction="none")
            weights = self.weights(state, losses.detach(), int(100 * done))
            weights = torch.maximum(weights, sure[batch.index])
            share = self.dropped(self.told(int(100 * done)))
            weights = weights * kept(len(losses), share, run.rng).to(losses)
            used = weights.mean().item()
            for group in learner.optimiser.param_groups:  # decay in proportion to the data used
                group["weight_decay"] = self.weight_decay * used
            run.step(learner, (weights * losses).mean())
            total += used / len(batches)
        return {"weight": total}

    def prepared(self, state: State, epoch: int, epochs: int) -> Learner:
        """The student in train mode at this epoch's learning rate."""
        state.learner.train_at(fn.stair_decay(self.lr, epoch, epochs, self.decay_at))
        return state.learner

    def weights(self, state: State, losses: Tensor, percent: int) -> Tensor:
        """v of a batch, after the moving percentile has seen it, (B,) without gradient."""
        now = losses.quantile(self.percentile, interpolation="nearest").item()
        state.level = self.level_decay * state.level + (1 - self.level_decay) * now
        return self.curriculum(state, losses, percent)

    @torch.no_grad()
    def curriculum(self, state: State, losses: Tensor, percent: int) -> Tensor:
        """v by the mentor or in closed form, (B,)."""
        difference = losses - state.level
        if percent < self.burn_in - 1:
            return torch.ones_like(losses)
        if self.kind == "dd":
            at = torch.full((len(losses),), self.told(percent), device=losses.device)
            weights: Tensor = state.mentor(losses, difference, at).sigmoid()
            return weights
        if self.kind == "self_paced":
            return (difference <= 0).to(losses)
        return predefined(difference, percent, self.slope)

    def told(self, percent: int) -> int:
        """Percent of training for mentor and dropping; "dd" stays at the end of its burn-in."""
        return min(percent, self.burn_in) if self.kind == "dd" else percent

    def dropped(self, percent: int) -> float:
        """Share of a batch that is left out at random at this percent of training."""
        end = 0.0
        for share, length in zip(self.drop[::2], self.drop[1::2], strict=True):
            end += length
            if percent < end:
                return share
        return self.drop[-2]

    def score(self, state: State, run: Run) -> None:
        """Clean probability: mean of the last weight and p_y, (N,)."""
        logits = run.predict(state.learner.net)
        losses = F.cross_entropy(logits, run.y, reduction="none")
        state.level = losses.quantile(self.percentile, interpolation="nearest").item()
        weights = self.curriculum(state, losses, 99)
        state.clean = run.trusted((weights + (-losses).exp()) / 2)

    # ---- the learned curriculum ----

    def look(self, state: State, run: Run) -> Logs:
        """One epoch on the given labels."""
        learner = self.prepared(state, run.epoch, self.scout)
        for batch in run.batches(self.batch):
            run.step(learner, F.cross_entropy(learner.net(batch.views[0]), batch.y))
        return {}

    def choose(self, state: State, run: Run) -> None:
        """Examples with known labels: those a person confirmed, or each class's smallest losses.

        A share of their labels is then made wrong, uniformly over the other classes. A new student
        learns them.
        """
        confirmed = run.trusted(torch.zeros(run.task.size)) > 0
        chosen = confirmed.nonzero().squeeze(1)
        if not len(chosen):
            losses = F.cross_entropy(run.predict(state.learner.net), run.y, reduction="none").cpu()
            chosen = smallest_of_each(losses, run.y.cpu(), self.tried)
        labels = run.y.cpu()[chosen]
        count = round(self.tried_noise * len(chosen))
        wrong = torch.randperm(len(chosen), generator=run.rng)[:count]
        shift = torch.randint(1, max(2, run.task.num_classes), (count,), generator=run.rng)
        labels[wrong] = (labels[wrong] + shift) % run.task.num_classes
        state.tried, state.tried_labels = chosen, labels
        state.records = torch.zeros(self.record, len(chosen))
        self.start_anew(state, run)

    def record_losses(self, state: State, run: Run) -> Logs:
        """One epoch of a student on those labels; its losses are kept."""
        learner = self.prepared(state, run.epoch - self.scout, self.record)
        labels = run.y.clone()
        labels[state.tried.to(run.device)] = state.tried_labels.to(run.device)
        for batch in run.batches(self.batch, state.tried):
            logits = learner.net(batch.views[0])
            run.step(learner, F.cross_entropy(logits, labels[batch.index]))
        losses = F.cross_entropy(run.predict(learner.net), labels, reduction="none")
        state.records[run.epoch - self.scout] = losses.cpu()[state.tried]
        return {}

    def teach_mentor(self, state: State, run: Run) -> None:
        """The mentor learns which labels are right, from the recorded losses."""
        right = (state.tried_labels == run.y.cpu()[state.tried]).float()
        level = float(np.quantile(state.records.numpy(), self.mentor_percentile))  # of all epochs
        optimiser = Adam(lr=self.mentor_lr).of(
            p for p in state.mentor.parameters() if p.requires_grad
        )
        for step in range(self.mentor_steps):
            for group in optimiser.param_groups:
                group["lr"] = self.mentor_lr * 0.9 ** (step // 1000)
            epoch = torch.randint(self.record, (32,), generator=run.rng)
            row = torch.randint(len(right), (32,), generator=run.rng)
            losses = state.records[epoch, row]
            signals = (losses, losses - level, 100 * epoch // self.record)
            logits = state.mentor(*(signal.to(run.device) for signal in signals))
            loss = F.binary_cross_entropy_with_logits(logits, right[row].to(run.device))
            optimiser.zero_grad()
            loss.backward()  # type: ignore[no-untyped-call]
            nn.utils.clip_grad_norm_(state.mentor.parameters(), MENTOR_CLIP)
            optimiser.step()


def predefined(difference: Tensor, percent: int, slope: float) -> Tensor:
    """mentornet_pd: all examples, then those below the level, then linear weights, (B,)."""
    if percent <= EASY:
        return torch.ones_like(difference)
    if percent < LINEAR:
        return (difference <= 0).to(difference)
    return (1 - difference / slope).clamp(0, 1)


def kept(count: int, share: float, rng: torch.Generator) -> Tensor:
    """A random floor(count (1 - share)) of `count` are 1, at least one, the others 0, (B,)."""
    mask = torch.zeros(count)
    mask[torch.randperm(count, generator=rng)[: max(1, int(count * (1 - share) + 1e-9))]] = 1.0
    return mask


def smallest_of_each(losses: Tensor, labels: Tensor, share: float) -> Tensor:
    """The share of examples with the smallest losses, as many of each class, (n,) sorted."""
    kept = fn.smallest_per_class(losses, labels, lambda size: round(share * size))
    return kept.nonzero().squeeze(1)
