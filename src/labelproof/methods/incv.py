"""INCV: iterative noisy cross-validation (Chen, Liao, Chen and Zhang, ICML 2019).

(1) Four times: the remaining examples are halved; a network trained on the selected examples and
one half predicts the other half, and the other way round. Where prediction and given label agree,
the example is selected; the largest losses are discarded. The first agreement also tells the noise
rate. (2) Two new networks learn from the selected examples as in Co-teaching, and later from the
remaining ones too.

The DPC paper's tables call it ICV. Paper: https://arxiv.org/abs/1905.05040. Authors' code:
https://github.com/chenpf1025/noisy_label_understanding_utilizing.
Departures: docs/methods/incv.md.
Shapes: B batch, C classes, N training examples.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import repeat
from typing import ClassVar, Literal

import torch
import torch.nn.functional as F
from torch import Tensor

from labelproof import functional as fn
from labelproof.errors import BadInput
from labelproof.nets.heads import linear
from labelproof.training import settings as hp
from labelproof.training.batches import Batch
from labelproof.training.learner import Adam, Learner, Pair, copied, softmax_of_nets
from labelproof.training.protocol import About, Logs, Phase
from labelproof.training.run import Run

MOST_DISCARDED = 2.0  # ρ: at most so many are discarded for each one selected


@dataclass
class State:
    """What changes during training."""

    learners: Pair  # the first one also does the cross-validation
    start: dict[str, Tensor]  # weights that every fold starts from
    best: dict[str, Tensor]  # weights of the fold's best agreement
    agreement: float  # of those
    half: Tensor  # (N,) 0 or 1 for the remaining examples of a round, -1 for the others
    selected: Tensor  # (N,) bool, S
    discarded: Tensor  # (N,) bool
    found: Tensor  # (N,) int, of this round: 1 selected, -1 discarded
    noise: float  # ε, -1 before it is known
    clean: Tensor  # (N,) half whether it is selected, half the given label's probability


@hp.record
class INCV:
    """Hyper-parameters; defaults are those of the released code for CIFAR-10."""

    about: ClassVar[About] = About(
        title="INCV: iterative noisy cross-validation",
        paper="Chen, Liao, Chen and Zhang, ICML 2019",
        year=2019,
        link="https://arxiv.org/abs/1905.05040",
        code="https://github.com/chenpf1025/noisy_label_understanding_utilizing",
        cost="rounds 3 to 6 N a fold of its half; then 8 S, S selected",
    )

    epochs: hp.Count = 600  # folds and main training
    validation: hp.StageEpochs = 400  # epochs of all folds, two a round
    rounds: hp.Count = 4  # fewer where there are not two epochs for each
    batch: hp.PerStep = 128
    lr: hp.Positive = 1e-3  # of Adam, in folds and main training
    weight_decay: hp.NonNegative = 2e-4  # Keras' l2(1e-4): its slope is 2e-4 w
    noise: Literal["symmetric", "asymmetric"] = "symmetric"  # what its formulas assume
    top: hp.Count = 1  # k: the given label must be among the k most probable
    ramp: hp.RampEpochs = 10  # epochs of main training until ε_S is left out
    alone: hp.Share = 0.2  # share of main training on S alone; doubled for much or asymmetric noise
    view: Literal["plain", "weak"] = "weak"

    def __post_init__(self) -> None:
        if self.validation >= self.epochs:
            raise BadInput(
                "INCV: validation must leave epochs for the main training, not "
                f"{self.validation} of {self.epochs}."
            )

    @property
    def fold_epochs(self) -> int:
        """Epochs of a fold."""
        return max(1, self.validation // (2 * self.rounds))

    @property
    def select_epochs(self) -> int:
        """Epochs of cross-validation: whole rounds of two folds."""
        return 2 * self.fold_epochs * min(self.rounds, self.validation // (2 * self.fold_epochs))

    @property
    def main_epochs(self) -> int:
        """Epochs of the main training."""
        return self.epochs - self.select_epochs

    def plan(self) -> tuple[Phase, ...]:
        """Cross-validation, then two networks."""
        return (
            Phase("cross-validation", self.select_epochs, self.validate),
            Phase("main", self.main_epochs, self.train, self.start_main, self.score),
        )

    def setup(self, run: Run) -> State:
        """Two networks, nothing selected."""
        learners = (self.new_learner(run), self.new_learner(run))
        nothing = torch.zeros(run.task.size, dtype=torch.bool, device=run.device)
        return State(
            learners=learners,
            start=copied(learners[0]),
            best=copied(learners[0]),
            agreement=-1.0,
            half=torch.full((run.task.size,), -1, device=run.device),
            selected=run.trusted(nothing.float()) > 0,
            discarded=nothing,
            found=nothing.long(),
            noise=-1.0,
            clean=torch.ones(run.task.size),
        )

    def new_learner(self, run: Run) -> Learner:
        """A network with Adam."""
        return run.learner(Adam(lr=self.lr, weight_decay=self.weight_decay), label=linear)

    predict = softmax_of_nets

    # ---- noisy cross-validation ----

    def validate(self, state: State, run: Run) -> Logs:
        """One epoch of a fold; its end selects."""
        fold, within = divmod(run.epoch, self.fold_epochs)
        held_out = 1 - fold % 2
        if within == 0:
            self.start_fold(state, run, fold)
        learner = state.learners[0]
        learner.train_at(fold_rate(self.lr, within / self.fold_epochs))
        for batch in run.batches(self.batch, self.training_half(state, held_out), (self.view,)):
            run.step(learner, F.cross_entropy(learner.net(batch.views[0]), batch.y))
        logits = run.predict(learner.net)
        agreement = self.agreement(state, logits, run.y, held_out)
        if agreement > state.agreement:
            state.best, state.agreement = copied(learner), agreement
        if within == self.fold_epochs - 1:
            if self.takes_best(state, fold // 2):
                learner.net.load_state_dict(state.best)
                logits = run.predict(learner.net)
            self.select(state, logits, run, held_out)
        return {"selected": state.selected.float().mean().item(), "agreement": agreement}

    def start_fold(self, state: State, run: Run, fold: int) -> None:
        """The same first weights for every fold; a new halving in every round."""
        learner = state.learners[0]
        learner.net.load_state_dict(state.start)
        learner.optimiser.state.clear()
        state.agreement = -1.0
        if fold % 2 == 0:
            rest = (~(state.selected | state.discarded)).nonzero().squeeze(1)
            order = rest[torch.randperm(len(rest), generator=run.rng).to(rest.device)]
            state.half = torch.full_like(state.half, -1)
            state.half[order[: len(order) // 2]] = 0
            state.half[order[len(order) // 2 :]] = 1
            state.found = torch.zeros_like(state.found)

    def training_half(self, state: State, held_out: int) -> Tensor:
        """S and the other half; all examples where that is nothing."""
        rows = (state.selected | (state.half == 1 - held_out)).nonzero().squeeze(1)
        return rows if len(rows) else torch.arange(len(state.half))

    def agreement(self, state: State, logits: Tensor, given: Tensor, held_out: int) -> float:
        """Share of the held-out half whose given label is among the most probable."""
        rows = state.half == held_out
        return self.agrees(logits, given)[rows].float().mean().item() if rows.any() else 0.0

    def agrees(self, logits: Tensor, given: Tensor) -> Tensor:
        """Whether the given label is among the `top` most probable, (N,) bool."""
        best = logits.topk(min(self.top, logits.shape[1]), dim=1).indices
        return (best == given[:, None]).any(1)

    def takes_best(self, state: State, done: int) -> bool:
        """Whether a fold of this round ends with its best epoch rather than its last."""
        if done == 0:
            return True
        if self.noise == "asymmetric" or state.noise > 0.6:
            return False
        return done < (2 if state.noise > 0.3 else 4)

    def select(self, state: State, logits: Tensor, run: Run, held_out: int) -> None:
        """Select who agrees, discard the largest losses; after both folds, take them out."""
        rows = state.half == held_out
        agree = self.agrees(logits, run.y) & rows
        if state.noise < 0:
            share = (agree.sum() / rows.sum().clamp(min=1)).item()
            state.noise = noise_of_agreement(share, run.task.num_classes, self.top)
        state.found[agree] = 1
        losses = F.cross_entropy(logits, run.y, reduction="none")
        ratio = min(MOST_DISCARDED, state.noise / max(1 - state.noise, 1e-9))
        worst = largest(losses, rows & ~agree, int(ratio * agree.sum().item()))
        state.found[worst] = -1
        if held_out == 0:  # the second fold of a round
            state.selected = state.selected | (state.found == 1)
            if self.noise == "symmetric":
                state.discarded = state.discarded | (state.found == -1)

    # ---- main training ----

    def start_main(self, state: State, run: Run) -> None:
        """Two new networks."""
        state.learners = (self.new_learner(run), self.new_learner(run))
        if not state.selected.any():  # cross-validation that selects nothing leaves all
            state.selected = torch.ones_like(state.selected)

    def train(self, state: State, run: Run) -> Logs:
        """One epoch over S: each network steps on what the other one trusts."""
        epoch = run.epoch - self.select_epochs
        for learner in state.learners:
            learner.train_at(main_rate(self.lr, epoch / self.main_epochs))
        share = self.kept_share(state, epoch, run.task.num_classes)
        chosen = state.selected.nonzero().squeeze(1)
        size, others = self.candidates(state, epoch)
        extra = run.batches(size, others, (self.view,), forever=True) if size else repeat(None)
        batches = run.batches(self.batch, chosen, (self.view,))
        for batch, more in zip(batches, extra, strict=False):
            self.teach(state.learners, run, batch, more, share)
        return {"selected": state.selected.float().mean().item(), "noise": max(state.noise, 0.0)}

    def candidates(self, state: State, epoch: int) -> tuple[int, Tensor]:
        """How many remaining examples join a step of S, and which remain."""
        rest = (~(state.selected | state.discarded)).nonzero().squeeze(1)
        hard = self.noise == "asymmetric" or state.noise > 0.6
        if epoch <= self.alone * (2 if hard else 1) * self.main_epochs or not len(rest):
            return 0, rest
        taken = int(state.selected.sum())
        return max(1, min(len(rest) * self.batch // taken, self.batch // 2)), rest

    def kept_share(self, state: State, epoch: int, classes: int) -> float:
        """1 - ε_S, reached in `ramp` epochs; ε_S is the noise left among the selected."""
        epsilon = max(state.noise, 0.0)
        others = classes - 1 if self.noise == "symmetric" else 1
        wrong = epsilon**2 / max(epsilon**2 + others * (1 - epsilon) ** 2, 1e-12)
        return 1 - wrong * (min(1.0, epoch / self.ramp) if self.ramp else 1.0)

    def teach(
        self,
        learners: Pair,
        run: Run,
        batch: Batch,
        more: Batch | None,
        share: float,
    ) -> None:
        """One step of each network on the smallest losses of the other."""
        x, y = batch.views[0], batch.y
        keep = max(2, round(len(y) * share))  # of S's part; candidates compete for these places
        if more is not None:
            x, y = torch.cat([x, more.views[0]]), torch.cat([y, more.y])
        by_first, by_second = (trusted(learner, x, y, keep) for learner in learners)
        for learner, rows in zip(learners, (by_second, by_first), strict=True):
            learner.net.train()  # batch statistics are of the chosen rows alone, as released
            run.step(learner, F.cross_entropy(learner.net(x[rows]), y[rows]))

    def score(self, state: State, run: Run) -> None:
        """Clean probability: mean of S's verdict and p_y of both networks, (N,)."""
        first, second = (run.predict(each.net).softmax(1) for each in state.learners)
        given = fn.of_label((first + second) / 2, run.y)
        state.clean = run.trusted((state.selected + given) / 2)


@torch.no_grad()
def trusted(learner: Learner, x: Tensor, y: Tensor, keep: int) -> Tensor:
    """Rows of the `keep` smallest losses by a network in eval mode."""
    learner.net.eval()
    return F.cross_entropy(learner.net(x), y, reduction="none").argsort()[:keep]


def fold_rate(lr: float, done: float) -> float:
    """x 0.5 after two fifths of a fold, x 0.25 after three, x 0.1 after four."""
    return lr * (0.1 if done > 0.8 else 0.25 if done > 0.6 else 0.5 if done > 0.4 else 1.0)


def main_rate(lr: float, done: float) -> float:
    """x 0.1 after 40, 60 and 80% of the main training, x 0.5 after 90%."""
    return fn.step_decay(lr, 100 * done, (40, 60, 80)) * (0.5 if done >= 0.9 else 1.0)


def noise_of_agreement(agreement: float, classes: int, top: int = 1) -> float:
    """The smallest ε, in steps of 0.001, with (1 - ε)² + ε² / (C / k - 1) at most the agreement.

    Agreement below what any noise gives means the largest noise, (C - k) / C.
    """
    others = max(classes / top - 1, 1e-9)
    most = others / (others + 1)
    for step in range(int(1000 * most) + 1):
        epsilon = step / 1000
        if (1 - epsilon) ** 2 + epsilon**2 / others <= agreement:
            return epsilon
    return most


def largest(losses: Tensor, among: Tensor, count: int) -> Tensor:
    """Places of the `count` largest losses among some; none for 0."""
    rows = among.nonzero().squeeze(1)
    return rows[losses[rows].argsort(descending=True)[:count]]
