"""Batch normalisation and exchanges of two real processes, against PyTorch's layer on all rows."""

from __future__ import annotations

import copy
import os
import resource
import tempfile
import time
from typing import Any

import pair
import pytest
import torch
import torch.distributed as dist
from torch import nn

from labelproof.errors import PeerLost
from labelproof.nets import exchange, sharded, sockets
from labelproof.nets.exchange import Cut
from labelproof.nets.sharded import Sharded, Share

ROWS = 7  # odd, so that one process has a row more
KINDS = ["images", "channels last", "vectors", "without weights", "bfloat16", "no memory"]
FAR = "bfloat16, far from zero"


def layer(kind: str) -> nn.Module:
    if kind == "vectors":
        return nn.BatchNorm1d(5)
    weights, memory = kind != "without weights", kind != "no memory"
    return nn.BatchNorm2d(5, affine=weights, track_running_stats=memory, momentum=0.3)


def rows(kind: str) -> torch.Tensor:
    x = 3 + 2 * torch.randn(ROWS, 5, 4, 6, generator=torch.Generator().manual_seed(1))
    x = x.mean((2, 3)) if kind == "vectors" else x
    x = x.contiguous(memory_format=torch.channels_last) if kind == "channels last" else x
    x = x + 27 if kind == FAR else x
    return x.bfloat16() if kind in ("bfloat16", FAR) else x


def slopes_of(net: nn.Module, x: torch.Tensor, again: bool) -> list[Any]:
    """Output, slopes of the input and the weights, and running statistics, as arrays.

    With `again`, slopes of the squared slopes of the input.
    """
    x = x.clone().requires_grad_()
    weights = [x, *net.parameters()]
    out = net(x).float().flatten()
    loss = (out.pow(3) * torch.arange(out.numel())).mean()
    found = torch.autograd.grad(loss, weights, create_graph=again)
    if again:
        found = torch.autograd.grad(found[0].square().sum(), weights)
    state = [value for name, value in net.state_dict().items() if "running" in name]
    return [each.detach().float().numpy() for each in (out, *found, *state)]


def whole(kind: str, again: bool) -> list[Any]:
    return slopes_of(layer(kind), rows(kind), again)


def shared(kind: str, again: bool) -> list[Any]:
    """The same, of which this process computes some rows."""
    trunk = nn.Sequential(layer(kind), nn.Flatten())
    net = Sharded(trunk, {"label": nn.Identity()}, None, Share(dist.get_rank(), 2))
    return slopes_of(net, rows(kind), again)


def all_kinds(again: bool) -> list[list[Any]]:
    return [shared(kind, again) for kind in KINDS]


@pytest.mark.parametrize("again", [False, True])
def test_two_processes_normalise_as_one_does(again, tmp_path):
    first, second = pair.together(all_kinds, tmp_path, again)
    for kind, one, other in zip(KINDS, first, second, strict=True):
        rough = 2e-2 if kind == "bfloat16" else 1e-5
        for mine, theirs, expected in zip(one, other, whole(kind, again), strict=True):
            assert (mine == theirs).all(), kind
            assert abs(mine - expected).max() <= rough * abs(expected).max(), kind


def far_from_zero() -> list[Any]:
    return shared(FAR, again=False)


def test_sixteen_bits_keep_their_digits_far_from_zero(tmp_path):
    exact = slopes_of(layer(FAR), rows(FAR).float(), again=False)
    found, _ = pair.together(far_from_zero, tmp_path)
    for mine, expected in zip(found, exact, strict=True):
        assert abs(mine - expected).mean() <= 6e-3 * abs(expected).mean()


def exchanged(direct: bool) -> list[Any]:
    """Sums and rows of several sizes and types, over sockets or over gloo."""
    if not direct:
        sockets._connected[dist.group.WORLD] = None
    assert (sockets.sockets() is not None) == direct
    rank, found = dist.get_rank(), []
    for size in (1, 64, 3_000_000):  # the last one fills the buffers of both sides
        x = torch.arange(size, dtype=torch.float32) + rank
        found += [exchange.summed((x, x[:1] * 2)), exchange.everyones(x.to(torch.bfloat16))]
        found += [(exchange.gather_rows(x[: 2 - rank, None], Cut(rank, 2, 3)),)] * (size > 1)
    return [[part.float().sum().item() for part in parts] + [len(parts[0])] for parts in found]


def test_sockets_and_gloo_carry_the_same(tmp_path):
    over = []
    for direct in (True, False):
        folder = tmp_path / str(direct)
        folder.mkdir()
        over += pair.together(exchanged, folder, direct)
    assert over[0] == over[1] == over[2] == over[3]


def left_alone() -> str:
    """What a process is told whose peer has ended."""
    exchange.everyones(torch.ones(1))
    if dist.get_rank() == 1:
        sockets.sockets().peers[0].close()  # type: ignore[union-attr]
        return ""
    try:
        exchange.summed((torch.ones(3),))
    except PeerLost as error:
        return str(error)
    return "nothing"


def test_a_process_that_ends_is_noticed(tmp_path):
    assert "--resume" in pair.together(left_alone, tmp_path)[0]


def left_at_once(folder: Any, summed: bool) -> str:
    """What a process is told whose peer has ended before the first exchange."""
    tempfile.tempdir = str(folder)
    dist.barrier()  # gloo has connected them
    if dist.get_rank() == 1:
        return ""
    try:
        exchange.summed((torch.ones(3),)) if summed else exchange.everyones(torch.ones(3))
    except PeerLost as error:
        return str(error)
    return "nothing"


@pytest.mark.parametrize("summed", [False, True])
def test_a_process_that_ends_before_the_first_exchange_is_noticed(tmp_path, summed):
    (tmp_path / "temporary").mkdir()
    told, _ = pair.together(left_at_once, tmp_path, tmp_path / "temporary", summed)
    assert "--resume" in told
    assert not [*(tmp_path / "temporary").iterdir()]


def slowly_with_many_files() -> float:
    """A sum that one process waits for, over sockets whose file numbers are above 1024."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, 4096), hard))
    files = [os.open(os.devnull, os.O_RDONLY) for _ in range(1100)]
    try:
        sockets.sockets()
        time.sleep(0.2 * dist.get_rank())
        return exchange.summed((torch.ones(3),))[0].sum().item()
    finally:
        for file in files:
            os.close(file)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


@pytest.mark.skipif(
    resource.getrlimit(resource.RLIMIT_NOFILE)[1] < 2048, reason="needs more open files"
)
def test_many_open_files_do_no_harm(tmp_path):
    assert pair.together(slowly_with_many_files, tmp_path) == [6.0, 6.0]


def test_a_layer_keeps_its_place_in_the_state():
    trunk = nn.Sequential(nn.BatchNorm2d(3), nn.Dropout())
    names = list(copy.deepcopy(trunk).state_dict())
    net = Sharded(trunk, {"label": nn.Identity()}, None, Share(0, 2))
    assert [name.removeprefix("trunk.") for name in net.state_dict()] == names


def test_no_layer_makes_tensors_of_numbers_of_the_host_in_each_step(monkeypatch):
    """On a GPU each would be a copy that the host waits for."""
    made, make = [], torch.tensor
    monkeypatch.setattr(sharded, "everyones", lambda part: [part.clone(), part.clone()])
    monkeypatch.setattr(exchange, "everyones", lambda part: [part.clone(), part.clone()])
    monkeypatch.setattr(exchange, "_sum", lambda flat: flat)
    layers = [layer for _ in range(3) for layer in (nn.Conv2d(4, 4, 3), nn.BatchNorm2d(4))]
    trunk = nn.Sequential(*layers, nn.Flatten())
    net = Sharded(trunk, {"label": nn.Identity()}, None, Share(0, 2))
    monkeypatch.setattr(torch, "tensor", lambda *a, **k: made.append(a) or make(*a, **k))
    for _ in range(4):
        net(torch.ones(38, 4, 8, 8)).sum().backward()
    assert len(made) == 1
