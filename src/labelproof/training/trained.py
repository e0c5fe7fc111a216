"""What training leaves that predictions need, and the state that it makes again.

Weights and plain values can be saved, or sent from one process to another; examples and the
optimiser's memory stay behind.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any

import torch
from torch import Tensor

from labelproof.data.examples import Kind, Resident
from labelproof.data.task import Task
from labelproof.nets.sharded import Sharded
from labelproof.training import checkpoint
from labelproof.training.protocol import Method
from labelproof.training.run import Run, Trunk

Plain = bool | int | float | str


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


def parted(state: Any) -> None:
    """Let this process use the networks of a state without the others that trained them."""
    for net in checkpoint.networks(state).values():
        if isinstance(net, Sharded):
            net.alone()


def revive(method: Method, task: Task, trunk: Trunk, saved: Trained, device: torch.device) -> Any:
    """The method's state with trained networks and nothing of the training set."""
    with torch.random.fork_rng(devices=[]):
        # float32 on every device: in bfloat16, which `auto` can mean, a model would be less exact
        state = method.setup(Run(task, trunk, device=device, seed=0, precision="fp32"))
    parted(state)
    for place, net in checkpoint.networks(state).items():
        start = f"{place}:"
        own = {n[len(start) :]: t for n, t in saved.weights.items() if n.startswith(start)}
        net.load_state_dict(own)
        net.eval()
    for name, value in saved.plain.items():
        if isinstance(getattr(state, name), Plain):
            setattr(state, name, value)
    return state
