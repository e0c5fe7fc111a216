"""The trunk of a network: what makes new ones, compiled or not, from a name, module or function."""

from __future__ import annotations

import copy
import os
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import torch
from torch import Tensor, nn

from labelproof.data.task import Task
from labelproof.errors import Note
from labelproof.nets import build_trunk, choose_net, feature_width
from labelproof.nets.pretrained import is_timm, pretrained
from labelproof.training.run import Trunk

Net = str | nn.Module | Callable[[], nn.Module]


def make_trunk(net: Net, task: Task, weights: bool = True) -> tuple[Trunk, str]:
    """A function that makes a trunk for this task, and the name that run.json gives it.

    A saved model brings its own `weights`, so a pretrained network need not.
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


@contextmanager
def reproducible(wanted: bool) -> Iterator[None]:
    """Have a GPU give the same bits again where PyTorch can, or else be as fast as it can."""
    cudnn = torch.backends.cudnn
    before = (cudnn.benchmark, cudnn.deterministic)
    strict = torch.are_deterministic_algorithms_enabled()
    warns = torch.is_deterministic_algorithms_warn_only_enabled()
    cudnn.benchmark = not wanted  # tries several algorithms for each shape, and takes the fastest
    if wanted:
        os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")  # cuBLAS needs it for that
        cudnn.deterministic = True
        torch.use_deterministic_algorithms(True, warn_only=True)
    try:
        yield
    finally:
        cudnn.benchmark, cudnn.deterministic = before
        torch.use_deterministic_algorithms(strict, warn_only=warns)


def fused(make: Trunk, example: Tensor, device: torch.device) -> Trunk:
    """Trunks whose operations torch.compile fuses; as they are, with a warning, where it fails."""

    def compiled() -> nn.Module:
        trunk = make()
        trunk.compile()
        return trunk

    try:
        compiled().to(device)(example.to(device)).sum().backward()
    except Exception as error:  # a compiler can fail in any way
        warnings.warn(
            f"torch.compile fails here, so the run continues without it: {_reason(error)}",
            category=Note,
            stacklevel=2,
        )
        return make
    return compiled


def _reason(error: Exception) -> str:
    """What a compiler says, in one line."""
    first = (str(error).strip().splitlines() or [type(error).__name__])[0][:200]
    if "No working C++ compiler" in first:
        return "there is no C++ compiler; install one, or name it in the variable CXX."
    return first
