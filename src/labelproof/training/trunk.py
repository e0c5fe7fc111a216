"""The trunk of a network: from a name, a module or a function to something that makes new ones."""

from __future__ import annotations

import copy
from collections.abc import Callable

import torch
from torch import nn

from labelproof.data.task import Task
from labelproof.nets import build_trunk, choose_net, feature_width
from labelproof.nets.pretrained import is_timm, pretrained
from labelproof.training.run import Trunk

Net = str | nn.Module | Callable[[], nn.Module]


def make_trunk(net: Net, task: Task, weights: bool = True) -> tuple[Trunk, str]:
    """A function that makes a trunk for this task, and the name that run.json gives it.

    Args:
        net: the network.
        task: what it is for.
        weights: whether a pretrained network brings its weights; a saved model has its own.
    """
    example = task.views.plain(task.x.take(torch.arange(min(2, task.size))))
    shape = tuple(example.shape[1:])
    if isinstance(net, str) and is_timm(net):
        start = pretrained(net, shape, weights)
        return lambda: copy.deepcopy(start), net
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
