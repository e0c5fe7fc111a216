"""A trained model without its training data: what `predict`, `export` and the estimator use.

Shapes: B batch, C classes, M examples.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from labelproof.data.examples import Inputs
from labelproof.data.task import Task
from labelproof.errors import BadInput
from labelproof.judging.link import Link, entropy, mean_evidence, mean_scores, vacuity
from labelproof.training import checkpoint
from labelproof.training.loop import Result
from labelproof.training.protocol import Method
from labelproof.training.run import Trunk, forward_all
from labelproof.training.trained import revive, trained, without_examples


@dataclass(frozen=True, kw_only=True)
class Prediction:
    """What a model says of some inputs."""

    probabilities: Tensor  # (B, C), calibrated
    uncertainty: Tensor  # (B,) from 0 to 1: vacuity of the Dirichlet, or the share of entropy

    @property
    def label(self) -> Tensor:
        """The most probable class, (B,)."""
        return self.probabilities.argmax(1)

    @property
    def confidence(self) -> Tensor:
        """Its probability, (B,)."""
        return self.probabilities.amax(1)


@dataclass(frozen=True, kw_only=True)
class Model:
    """Trained networks with all that turns raw inputs into calibrated probabilities."""

    method: Method
    states: tuple[Any, ...]  # the run's own, then those trained without a fold that predict too
    task: Task  # without examples: classes, views, shape
    device: torch.device
    link: Link

    @property
    def classes(self) -> tuple[str, ...]:
        """Names of the classes, in the order of the columns of every prediction."""
        return self.task.classes

    @property
    def dtype(self) -> torch.dtype:
        """The number type the networks compute in."""
        return next(p.dtype for net in self.networks for p in net.parameters())

    @property
    def networks(self) -> list[nn.Module]:
        """Every network that predicts."""
        return [net for state in self.states for net in checkpoint.networks(state).values()]

    def batches(self, x: Inputs) -> Iterator[Prediction]:
        """Predictions of all inputs, in order, some at a time, on the CPU."""
        for net in self.networks:
            net.eval()
        for both in forward_all(x, self.task, self._both, self.device):
            both = both.cpu()
            yield Prediction(probabilities=both[:, :-1], uncertainty=both[:, -1])

    def predict(self, x: Inputs) -> Prediction:
        """Predictions of all inputs at once."""
        if x.shape != self.task.x.shape:
            raise BadInput(
                f"expected examples of shape {self.task.x.shape} as the model was trained on, but "
                f"these have shape {x.shape}; prepare both in the same way."
            )
        parts = list(self.batches(x))
        return Prediction(
            probabilities=torch.cat([part.probabilities for part in parts]),
            uncertainty=torch.cat([part.uncertainty for part in parts]),
        )

    def probabilities(self, x: Tensor) -> Tensor:
        """Calibrated probabilities (B, C) of network input."""
        said = mean_scores(self.method, self.states, x, self.link.of)
        return self.link(self.link.joined(said, x))

    def _both(self, x: Tensor) -> Tensor:
        """Probabilities, and the uncertainty as one more column."""
        x = x.to(self.dtype)
        said = mean_scores(self.method, self.states, x, self.link.of)
        probs = self.link(self.link.joined(said, x))
        own = self.link.of == "logits"
        evidence = said if own else mean_evidence(self.method, self.states, x)
        unsure = entropy(probs) if evidence is None else vacuity(evidence)
        return torch.cat([probs, unsure[:, None].to(probs)], 1)


def member_prefix(number: int) -> str:
    """How the names of a member's tensors begin in the model's file, from 1 on."""
    return f"fold-{number}/"


def model_of(result: Result, trunk: Trunk, link: Link, members: tuple[Any, ...] = ()) -> Model:
    """The model of a finished run; it holds no example and no optimiser's memory."""
    task = without_examples(result.task)
    own = revive(result.method, task, trunk, trained(result.state), result.device)
    return Model(
        method=result.method,
        states=(own, *members),
        task=task,
        device=result.device,
        link=link,
    )


def in_double(model: Model) -> Model:
    """The same model computing in double precision, where the device can."""
    if model.device.type != "mps":
        for net in model.networks:
            net.double()
    return model
