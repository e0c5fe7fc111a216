"""What a method is: a frozen record of hyper-parameters with a plan."""

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


class State(Protocol):
    """Everything that changes, as a dataclass the method defines. The engine saves all of it.

    Fields may be learners, modules, tensors, plain values, and tuples, lists or dicts of them.
    """

    clean: Tensor  # (N,) probability that each given label is right, by the method's own lights


class Method(Protocol):
    """A way to learn from noisy labels. Nothing to inherit; a frozen dataclass with these."""

    title: ClassVar[str]
    paper: ClassVar[str]
    year: ClassVar[int]
    cost: ClassVar[str]  # of an epoch: a forward pass of one example is 1, its backward pass 2

    @property
    def epochs(self) -> int:
        """Epochs of the whole plan."""

    def plan(self) -> Sequence[Phase]:
        """The phases, in order."""

    def setup(self, run: Run) -> Any:
        """The `State` before the first epoch: learners, optimisers, (N, ...) tables."""

    def predict(self, state: Any, x: Tensor) -> Tensor:
        """Class probabilities (B, C) of network inputs; networks are in eval mode."""
