"""What a method is: a frozen record of hyper-parameters with a plan, and what it declares."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Protocol

from torch import Tensor

if TYPE_CHECKING:
    from labelproof.training.run import Run

Logs = dict[str, float]


@dataclass(frozen=True)
class Phase:
    """A stretch of the plan: `epoch` trains one epoch; `enter` and `leave` run once around them."""

    name: str
    epochs: int
    epoch: Callable[[Any, Run], Logs]
    enter: Callable[[Any, Run], None] | None = None
    leave: Callable[[Any, Run], None] | None = None


class OneStage(Protocol):
    """A method that does the same in every epoch and scores the labels after the last."""

    @property
    def epochs(self) -> int:
        """Epochs of the whole plan."""

    def train(self, state: Any, run: Run) -> Logs:
        """One epoch."""

    def score(self, state: Any, run: Run) -> None:
        """Fill in `state.clean`."""


def one_phase(method: OneStage) -> tuple[Phase, ...]:
    """`plan` of such a method."""
    return (Phase("train", method.epochs, method.train, leave=method.score),)


class State(Protocol):
    """Everything that changes, as a dataclass the method defines. The engine saves all of it.

    Fields may be learners, modules, tensors, plain values, and tuples, lists or dicts of them.
    """

    clean: Tensor  # (N,) probability that each given label is right, by the method's own lights


Evidence = Callable[[Any, Any, Tensor], Tensor | None]  # (method, state, x) -> (B, C)


@dataclass(frozen=True, kw_only=True)
class About:
    """What a method says of itself, to people and to the rest of labelproof. Only a title must be.

    What its settings mean to others (batch sizes, epochs, what can be left open) stands in their
    types, see `settings`. Published settings and defaults by kind of data stand in
    `recipes/NAME.toml`; without that file they are the record's own.
    """

    title: str
    paper: str = "unpublished"
    year: int | None = None
    link: str = ""  # to the paper
    code: str = ""  # the authors' repository
    cost: str = "not stated"  # of an epoch: a forward pass of one example is 1, its backward pass 2
    # ln(α - 1) of the Dirichlet that the networks predict; None where they are trained otherwise.
    # Without it uncertainty is the entropy of the probabilities.
    evidence: Evidence | None = None
    second_order: bool = False  # whether it takes derivatives of a backward pass
    soft: bool = True  # whether labels come from batches, which draw them from soft targets


class Method(Protocol):
    """A way to learn from noisy labels. Nothing to inherit; a `settings.record` with these."""

    about: ClassVar[About]

    @property
    def epochs(self) -> int:
        """Epochs of the whole plan."""

    def plan(self) -> Sequence[Phase]:
        """The phases, in order."""

    def setup(self, run: Run) -> Any:
        """The `State` before the first epoch: learners, optimisers, (N, ...) tables."""

    def predict(self, state: Any, x: Tensor) -> Tensor:
        """Class probabilities (B, C) of network inputs; networks are in eval mode."""
