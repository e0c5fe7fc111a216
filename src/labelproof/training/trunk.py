"""The trunk of a network: from a name, a module or a function to something that makes new ones."""

from __future__ import annotations

import copy
from collections.abc import Callable

import torch
from torch import nn

from labelproof.data.task import Task
from labelproof.nets import build_trunk, choose_net, feature_width
from labelproof.training.run import Trunk

Net = str | nn.Module | Callable[[], nn.Module]


def make_trunk(net: Net, task: Task) -> tuple[Trunk, str]:
    """A function that makes a trunk for this task, and the name that run.json gives it."""
    example = task.views.plain(task.x.take(torch.arange(min(2, task.size))))
    shape = tuple(example.shape[1:])
    if isinstance(net, str):
        name = choose_net(shape, task.size) if net == "auto" else net
        with torch.device("meta"):
            build_trunk(name, shape, task.size)  # a network that does not fit is said now
        return lambda: build_trunk(name, shape, task.size), name
    if isinstance(net, nn.Module):
        module = net
        feature_width(module, example)
        return lambda: copy.deepcopy(module), type(module).__name__
    return net, getattr(net, "__name__", type(net).__name__)
