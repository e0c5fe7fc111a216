"""Softmax regression on the labels that confident learning keeps (Northcutt, Jiang, Chuang 2021).

Paper: https://arxiv.org/abs/1911.00068 (https://doi.org/10.1613/jair.1.12125). Code of its authors:
https://github.com/cleanlab/cleanlab. Page: docs/methods/linear.md.

1. A softmax regression is fitted without each fold; its penalty is the one that predicts the labels
   out of fold best.
2. Labels whose class does not reach its usual probability out of fold are left out.
3. The regression is fitted again to the others, and so on for as many rounds as asked for.

There is no network and nothing random but the folds. On few examples, tables and texts it is hard
to beat, so the default chooses between it and DPC.

Shapes: B batch, C classes, D numbers of an input, N training examples.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, ClassVar

import torch
from torch import Tensor, nn

from labelproof import functional as fn
from labelproof.training import settings as hp
from labelproof.training.protocol import About, Logs, Phase
from labelproof.training.run import Run


@dataclass
class State:
    """What changes during training."""

    net: nn.Linear
    fold: Tensor  # (N,)
    clean: Tensor  # (N,) probability that the given label is right
    penalty: float = 0.0  # that predicted best in the first round


@hp.record
class Linear:
    """Hyper-parameters."""

    about: ClassVar[About] = About(
        title="Softmax regression with confident learning",
        paper="Northcutt, Jiang and Chuang, JAIR 2021",
        year=2021,
        link="https://arxiv.org/abs/1911.00068",
        code="https://github.com/cleanlab/cleanlab",
        cost="no network: a convex fit for every fold and penalty",
    )

    epochs: hp.Count = (
        2  # rounds: the first on all labels, each other on those kept by the one before
    )
    folds: Annotated[int, hp.Range(2)] = 5
    threshold: hp.Share = 0.5  # labels above it are kept

    def plan(self) -> tuple[Phase, ...]:
        """One phase of rounds."""
        return (Phase("regression", self.epochs, self.fit),)

    def setup(self, run: Run) -> State:
        """A layer of zeros, and the folds."""
        net = nn.Linear(run.width(), run.task.num_classes).to(run.device)
        fold = fn.folds_of(run.task.y, self.folds, run.rng)
        return State(net, fold, torch.ones(run.task.size))

    def fit(self, state: State, run: Run) -> Logs:
        """One round."""
        x, y, classes = run.plain(), run.task.y, run.task.num_classes
        kept = run.trusted(state.clean) > self.threshold
        first = run.epoch == 0
        near = fn.PENALTIES if first else (state.penalty, state.penalty / 3)
        run.on_step()
        found = fn.cross_fit(
            x, y, classes, state.fold, targets=run.task.targets, kept=kept, penalties=near
        )
        run.on_step()
        with torch.no_grad():
            state.net.weight.copy_(found.weight.T)
            state.net.bias.copy_(found.bias)
        state.penalty = found.penalty if first else state.penalty
        state.clean = run.trusted(fn.confident(found.log_probs, y))
        return {"selected": kept.float().mean().item()}

    def predict(self, state: State, x: Tensor) -> Tensor:
        """Class probabilities, (B, C)."""
        logits: Tensor = state.net(x.flatten(1).to(state.net.weight.dtype))
        return logits.softmax(1)
