"""O2U-Net: from overfitting to underfitting and back (Huang, Qu, Jia and Zhao, ICCV 2019).

(1) A network learns all given labels. (2) Its learning rate is cycled, so that it swings between
over- and underfitting; wrong labels are hard to learn again after every restart and keep a high
loss. (3) Examples with the highest mean loss are removed, and a new network learns the rest.

Paper: https://doi.org/10.1109/ICCV.2019.00342. Authors' code: https://github.com/hjimce/O2U-Net.
Departures: docs/methods/o2u.md.
Shapes: B batch, C classes, N training examples.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, ClassVar, Literal

import torch
import torch.nn.functional as F
from torch import Tensor

from labelproof import functional as fn
from labelproof.errors import BadInput
from labelproof.nets.heads import linear
from labelproof.training import settings as hp
from labelproof.training.learner import Learner, sgd_of, softmax_of_net
from labelproof.training.protocol import About, Logs, Phase
from labelproof.training.run import Run

Stage = Annotated[hp.Count, hp.Epochs("stage")]


@dataclass
class State:
    """What changes during training."""

    learner: Learner
    losses: Tensor  # (N,) sum of centred losses over the epochs of the cycles
    visits: Tensor  # (N,) epochs in which each example was seen
    kept: Tensor  # (N,) bool
    clean: Tensor  # (N,) posterior of the lower of two Gaussians over the mean losses


@hp.record
class O2U:
    """Hyper-parameters; defaults are those of the released code for CIFAR."""

    about: ClassVar[About] = About(
        title="O2U-Net: from overfitting to underfitting",
        paper="Huang, Qu, Jia and Zhao, ICCV 2019",
        year=2019,
        link="https://doi.org/10.1109/ICCV.2019.00342",
        code="https://github.com/hjimce/O2U-Net",
        cost="3 N",
    )

    epochs: hp.Count = 750  # of all three stages
    cyclic: Stage = 250  # stage 2
    final: hp.StageEpochs = 250  # stage 3
    batch: hp.PerStep = 128
    cyclic_batch: Annotated[hp.Count, hp.BatchSize(beside="batch")] = 16  # small on purpose
    lr: hp.Positive = 0.01  # of stages 1 and 3: half after a quarter of them, a tenth after half
    momentum: hp.Share = 0.9
    weight_decay: hp.NonNegative = 5e-4
    high: hp.Positive = 0.01  # r_1, highest learning rate of a cycle
    low: hp.Positive = 0.001  # r_2, the lowest
    cycle: Annotated[hp.Count, hp.Epochs()] = 10  # c, epochs of a cycle
    removed: hp.Share | Literal["mixture"] = "mixture"  # k, share removed, or by two Gaussians

    def __post_init__(self) -> None:
        if self.cyclic + self.final > self.epochs:
            raise BadInput(
                f"O2U-Net: cyclic and final must fit into epochs, not {self.cyclic} and "
                f"{self.final} into {self.epochs}."
            )

    @property
    def first(self) -> int:
        """Epochs of the first stage."""
        return self.epochs - self.cyclic - self.final

    def plan(self) -> tuple[Phase, ...]:
        """The three stages."""
        return (
            Phase("all labels", self.first, self.learn_all),
            Phase("cycles", self.cyclic, self.swing, leave=self.remove),
            Phase("kept labels", self.final, self.learn_kept, self.start_anew),
        )

    def setup(self, run: Run) -> State:
        """One network at a time."""
        size, device = run.task.size, run.device
        return State(
            self.new_learner(run),
            torch.zeros(size, device=device),
            torch.zeros(size, device=device),
            torch.ones(size, dtype=torch.bool, device=device),
            torch.ones(size),
        )

    def new_learner(self, run: Run) -> Learner:
        """A network with its optimiser."""
        return run.learner(sgd_of(self), label=linear)

    def start_anew(self, state: State, run: Run) -> None:
        """A new network for the kept labels."""
        state.learner = self.new_learner(run)

    predict = softmax_of_net

    # ---- the stages ----

    def learn_all(self, state: State, run: Run) -> Logs:
        """Stage 1, one epoch on all given labels."""
        self.fit(state, run, run.epoch / self.first, None)
        return {}

    def learn_kept(self, state: State, run: Run) -> Logs:
        """Stage 3, one epoch on the kept labels."""
        done = (run.epoch - self.first - self.cyclic) / self.final
        self.fit(state, run, done, state.kept.nonzero().squeeze(1))
        return {"selected": state.kept.float().mean().item()}

    def fit(self, state: State, run: Run, done: float, rows: Tensor | None) -> None:
        """One epoch of cross-entropy; `done` is the share of the stage that lies behind."""
        learner = state.learner
        learner.train_at(self.lr * (1.0 if done < 0.25 else 0.5 if done < 0.5 else 0.1))
        for batch in run.batches(self.batch, rows):
            run.step(learner, F.cross_entropy(learner.net(batch.views[0]), batch.y))

    def swing(self, state: State, run: Run) -> Logs:
        """Stage 2, one epoch; the losses of its steps are centred and added up."""
        learner = state.learner
        learner.train_at(self.cyclic_rate(run.epoch - self.first))
        seen = torch.full_like(state.losses, torch.nan)
        for batch in run.batches(self.cyclic_batch):
            losses = F.cross_entropy(learner.net(batch.views[0]), batch.y, reduction="none")
            seen[batch.index] = losses.detach()
            run.step(learner, losses.mean())
        here = ~seen.isnan()
        state.losses += torch.where(here, seen - seen[here].mean(), 0.0)
        state.visits += here
        return {}

    def cyclic_rate(self, epoch: int) -> float:
        """(1 - s) r_1 + s r_2 with s = (1 + epoch mod c) / c, from 0 on."""
        share = (1 + epoch % self.cycle) / self.cycle
        return (1 - share) * self.high + share * self.low

    def remove(self, state: State, run: Run) -> None:
        """The highest mean losses go: a given share, or the upper of two Gaussians."""
        mean = state.losses / state.visits.clamp(min=1)
        state.clean = run.trusted(1 - fn.two_gaussians(mean))
        ranked = trusted_first(-mean, run)
        if self.removed == "mixture":
            state.kept = state.clean.to(run.device) > 0.5
        else:
            count = int((1 - self.removed) * run.task.size)
            state.kept = torch.zeros_like(state.kept)
            state.kept[ranked.argsort(descending=True, stable=True)[:count]] = True
        if not state.kept.any():
            state.kept = torch.ones_like(state.kept)


def trusted_first(scores: Tensor, run: Run) -> Tensor:
    """Scores (N,) with those of confirmed labels above all others."""
    sure = run.trusted(torch.zeros_like(scores)) > 0
    return scores.masked_fill(sure, torch.inf)
