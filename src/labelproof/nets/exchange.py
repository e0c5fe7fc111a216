"""What several processes exchange while they compute one network together.

Every process holds all of a batch's outputs and the same loss; each computes some rows. Four
operations carry values between "all rows, the same everywhere" and "my rows alone". They come in
pairs, and each is the derivative of the other, so derivatives of any order are right:

    take  my rows of a tensor           <->  gather  all rows, from everyone's
    use   equal weights for my rows     <->  total   the sum of everyone's parts

PyTorch's own differentiable collectives (`torch.distributed.nn`) sum the losses of all processes;
here there is one loss, computed everywhere alike, and nothing has to be divided afterwards.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor

from labelproof.errors import LOST, PeerLost
from labelproof.nets.sockets import sockets


@dataclass(frozen=True)
class Cut:
    """Which rows of a batch of `total` the process `rank` of `world` computes: a run of them."""

    rank: int
    world: int
    total: int

    @property
    def sizes(self) -> list[int]:
        """Rows of every process; the first ones take one more where they do not come out even."""
        each, more = divmod(self.total, self.world)
        return [each + (rank < more) for rank in range(self.world)]

    @property
    def rows(self) -> slice:
        """The rows of this process."""
        start = sum(self.sizes[: self.rank])
        return slice(start, start + self.sizes[self.rank])


def everyones(part: Tensor) -> list[Tensor]:
    """The tensors of all processes, alike in shape and type, by rank; no derivatives."""
    try:
        direct = sockets()
        if direct is not None and direct.take(part):
            return direct.everyones(part)
        parts = [
            torch.empty_like(part, memory_format=torch.contiguous_format)
            for _ in range(dist.get_world_size())
        ]
        dist.all_gather(parts, part.contiguous())
    except (RuntimeError, OSError) as error:
        raise PeerLost(LOST) from error
    return parts


def gather_rows(part: Tensor, cut: Cut) -> Tensor:
    """All rows, from the rows of every process; no derivatives."""
    sizes = cut.sizes
    if len(part) < sizes[0]:  # all send as many
        part = torch.cat([part, part.new_zeros(1, *part.shape[1:])])
    return torch.cat([each[:size] for each, size in zip(everyones(part), sizes, strict=True)])


def summed(tensors: Sequence[Tensor]) -> tuple[Tensor, ...]:
    """Each tensor's sum over all processes, in one exchange; no derivatives."""
    flat = torch.cat([tensor.reshape(-1) for tensor in tensors])
    parts = torch.split(_sum(flat), [tensor.numel() for tensor in tensors])
    pairs = zip(parts, tensors, strict=True)
    return tuple(part.view(tensor.shape).to(tensor.dtype) for part, tensor in pairs)


def _sum(flat: Tensor) -> Tensor:
    try:
        direct = sockets()
        if direct is not None and direct.take(flat):
            first, *others = everyones(flat)
            return sum(others, first)  # in the same order everywhere
        dist.all_reduce(flat)
    except PeerLost:
        raise
    except (RuntimeError, OSError) as error:
        raise PeerLost(LOST) from error
    return flat


class _Gather(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, part: Tensor, cut: Cut) -> Tensor:
        ctx.cut = cut
        return gather_rows(part, cut)

    @staticmethod
    def backward(ctx: Any, *slopes: Tensor) -> Any:
        return take(slopes[0], ctx.cut), None


class _Take(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, whole: Tensor, cut: Cut) -> Tensor:
        ctx.cut = cut
        return whole[cut.rows].clone()

    @staticmethod
    def backward(ctx: Any, *slopes: Tensor) -> Any:
        return gather(slopes[0], ctx.cut), None


class _Use(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, *tensors: Tensor) -> tuple[Tensor, ...]:
        ctx.set_materialize_grads(False)
        return tuple(tensor.view_as(tensor) for tensor in tensors)

    @staticmethod
    def backward(ctx: Any, *slopes: Tensor | None) -> Any:
        return _where_any(total, slopes)


class _Total(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, *tensors: Tensor) -> tuple[Tensor, ...]:
        ctx.set_materialize_grads(False)
        return summed(tensors)

    @staticmethod
    def backward(ctx: Any, *slopes: Tensor | None) -> Any:
        return _where_any(use, slopes)


def gather(part: Tensor, cut: Cut) -> Tensor:
    """All rows of a tensor of which every process has its own."""
    out: Tensor = _Gather.apply(part, cut)  # type: ignore[no-untyped-call]
    return out


def take(whole: Tensor, cut: Cut) -> Tensor:
    """The rows of this process."""
    if not whole.requires_grad:
        return whole[cut.rows]
    out: Tensor = _Take.apply(whole, cut)  # type: ignore[no-untyped-call]
    return out


def use(*tensors: Tensor) -> tuple[Tensor, ...]:
    """The same tensors, equal everywhere, for this process's rows: their slopes are added up."""
    out: tuple[Tensor, ...] = _Use.apply(*tensors)  # type: ignore[no-untyped-call]
    return out


def total(*tensors: Tensor) -> tuple[Tensor, ...]:
    """Sums over all processes."""
    out: tuple[Tensor, ...] = _Total.apply(*tensors)  # type: ignore[no-untyped-call]
    return out


def _where_any(apply: Any, slopes: Sequence[Tensor | None]) -> tuple[Tensor | None, ...]:
    """`apply` to the slopes that there are; a weight that had no part in a loss keeps none."""
    present = [slope for slope in slopes if slope is not None]
    done = iter(apply(*present) if present else ())
    return tuple(None if slope is None else next(done) for slope in slopes)
