"""A trained model without its training data: what `predict`, `export` and the estimator use.

Shapes: B batch, C classes, M examples.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, fields
from typing import Any

import torch
from torch import Tensor

from labelproof.data.examples import Inputs, Kind, Resident
from labelproof.data.task import Task
from labelproof.errors import BadInput
from labelproof.judging.link import Link, entropy, log_evidence, scores, vacuity
from labelproof.training import checkpoint
from labelproof.training.loop import Result
from labelproof.training.protocol import Method
from labelproof.training.run import Run, Trunk, forward_all

Plain = bool | int | float | str


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
    state: Any
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
        nets = checkpoint.networks(self.state).values()
        return next(p.dtype for net in nets for p in net.parameters())

    def batches(self, x: Inputs) -> Iterator[Prediction]:
        """Predictions of all inputs, in order, some at a time, on the CPU."""
        for net in checkpoint.networks(self.state).values():
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
        return self.link(self.link.joined(scores(self.method, self.state, x, self.link.of), x))

    def _both(self, x: Tensor) -> Tensor:
        """Probabilities, and the uncertainty as one more column."""
        x = x.to(self.dtype)
        said = scores(self.method, self.state, x, self.link.of)
        probs = self.link(self.link.joined(said, x))
        own = self.link.of == "logits"
        evidence = said if own else log_evidence(self.method, self.state, x)
        unsure = entropy(probs) if evidence is None else vacuity(evidence)
        return torch.cat([probs, unsure[:, None].to(probs)], 1)


def without_examples(task: Task) -> Task:
    """The task with none of its examples: what a model keeps of it."""
    return blank_task(task.x.shape, task.classes, task.views, task.kind)


def blank_task(shape: tuple[int, ...], classes: tuple[str, ...], views: Any, kind: Kind) -> Task:
    """A task without examples."""
    dtype = torch.uint8 if kind == "images" else torch.float32
    return Task(
        x=Resident(torch.empty((0, *shape), dtype=dtype)),
        y=torch.empty(0, dtype=torch.int64),
        classes=classes,
        views=views,
        kind=kind,
    )


@dataclass(frozen=True, kw_only=True)
class Trained:
    """What training left that predictions need: weights, and the plain values of the state."""

    weights: dict[str, Tensor]  # by the network's place in the state, a colon, the tensor's name
    plain: dict[str, Plain]  # by the field's name


def trained(state: Any) -> Trained:
    """Every tensor of every network of a state, and its numbers and words."""
    weights = {
        f"{place}:{name}": tensor.detach().cpu().contiguous()
        for place, net in checkpoint.networks(state).items()
        for name, tensor in net.state_dict().items()
    }
    values = {f.name: getattr(state, f.name) for f in fields(state)}
    plain = {name: value for name, value in values.items() if isinstance(value, Plain)}
    return Trained(weights=weights, plain=plain)


def revive(method: Method, task: Task, trunk: Trunk, saved: Trained, device: torch.device) -> Any:
    """The method's state with trained networks and nothing of the training set."""
    with torch.random.fork_rng(devices=[]):
        state = method.setup(Run(task, trunk, device=device, seed=0))
    for place, net in checkpoint.networks(state).items():
        start = f"{place}:"
        own = {n[len(start) :]: t for n, t in saved.weights.items() if n.startswith(start)}
        net.load_state_dict(own)
        net.eval()
    for name, value in saved.plain.items():
        if isinstance(getattr(state, name), Plain):
            setattr(state, name, value)
    return state


def model_of(result: Result, trunk: Trunk, link: Link) -> Model:
    """The model of a finished run; it holds no example and no optimiser's memory."""
    task = without_examples(result.task)
    state = revive(result.method, task, trunk, trained(result.state), result.device)
    return Model(method=result.method, state=state, task=task, device=result.device, link=link)


def in_double(model: Model) -> Model:
    """The same model computing in double precision, where the device can."""
    if model.device.type != "mps":
        for net in checkpoint.networks(model.state).values():
            net.double()
    return model
