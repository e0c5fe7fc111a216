"""Batch normalisation of which every process computes some rows, with the statistics of all.

Two exchanges a layer and step, of two numbers a channel each: statistics of the inputs on the way
forth, sums of the slopes on the way back. PyTorch's own kernels do the rest, so a layer costs about
what it costs in one process. Second derivatives go through plain operations, which have all orders.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import batch_norm

from labelproof.nets.exchange import Cut, everyones, summed, total, use


class _Normalise(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, x: Tensor, weight: Tensor, bias: Tensor, cut: Cut, eps: float
    ) -> tuple[Tensor, Tensor, Tensor]:
        mean, variance = _statistics(x, weight.dtype, cut)
        ctx.save_for_backward(x, weight, bias, mean, variance)
        ctx.cut, ctx.eps = cut, eps
        ctx.mark_non_differentiable(mean, variance)
        ctx.set_materialize_grads(False)
        return batch_norm(x, mean, variance, weight, bias, eps=eps), mean, variance

    @staticmethod
    def backward(ctx: Any, *slopes: Tensor) -> Any:
        x, weight, bias, mean, variance = ctx.saved_tensors
        if torch.is_grad_enabled():
            wanted = [each for each in (x, weight, bias) if each.requires_grad]
            out = plainly(x, weight, bias, mean, ctx.cut, ctx.eps)
            found = iter(torch.autograd.grad(out, wanted, slopes[0], create_graph=True))
            own = [next(found) if each.requires_grad else None for each in (x, weight, bias)]
            return *own, None, None
        # slopes as if the statistics were constants, and their sums over the rows
        direct, by_weight, by_bias = torch.ops.aten.native_batch_norm_backward(
            slopes[0], x, weight, mean, variance, None, None, False, ctx.eps, [True, True, True]
        )
        sums, spread = summed((by_weight, by_bias)), (variance + ctx.eps).rsqrt()
        scale = weight * spread / count(x, ctx.cut)
        slope = scale * spread * sums[0]
        if x.dtype != mean.dtype:  # 16 bits: a difference of large numbers would have no digits
            kind = mean.dtype
            away = x.to(kind) - _by_channel(mean, x, kind)
            shift = away * _by_channel(slope, x, kind) + _by_channel(scale * sums[1], x, kind)
            return (direct.to(kind) - shift).to(x.dtype), by_weight, by_bias, None, None
        # in place: memory that was not in use costs more than the numbers written there
        direct.addcmul_(x, _by_channel(slope, x), value=-1)
        direct.add_(_by_channel(slope * mean - scale * sums[1], x))
        return direct, by_weight, by_bias, None, None


def normalise(
    x: Tensor, weight: Tensor, bias: Tensor, cut: Cut, eps: float
) -> tuple[Tensor, Tensor, Tensor]:
    """Rows (B, C, ...) normalised by the mean and variance of all rows, and both of these, (C,)."""
    out: tuple[Tensor, Tensor, Tensor] = _Normalise.apply(x, weight, bias, cut, eps)  # type: ignore[no-untyped-call]
    return out


def plainly(x: Tensor, weight: Tensor, bias: Tensor, near: Tensor, cut: Cut, eps: float) -> Tensor:
    """What `normalise` gives, by operations that have derivatives of all orders."""
    # sums of distances from a value near the mean lose no digits when squared
    away = x.to(near.dtype) - _by_channel(near, x, near.dtype)
    dims = [dim for dim in range(x.ndim) if dim != 1]
    sums = use(*total(away.sum(dims), away.square().sum(dims)))
    mean, square = (each / count(x, cut) for each in sums)
    spread = ((square - mean.square()).clamp_min(0) + eps).rsqrt()
    out = (away - _by_channel(mean, away)) * _by_channel(spread * weight, away)
    return (out + _by_channel(bias, away)).to(x.dtype)


def count(x: Tensor, cut: Cut) -> int:
    """Numbers of a channel in all rows, of which `x` has some."""
    return x.numel() // x.shape[1] // len(x) * cut.total


def _statistics(x: Tensor, kind: torch.dtype, cut: Cut) -> tuple[Tensor, Tensor]:
    """Mean and variance of each channel over the rows of all processes."""
    # the type of the buffers is that of the statistics; they are of no other use
    buffer = None if x.dtype == kind else x.new_zeros(x.shape[1], dtype=kind)
    own = torch.stack(torch.batch_norm_update_stats(x, buffer, buffer, 0.0))
    means, variances = torch.stack(everyones(own), 1)
    share = torch.tensor(cut.sizes, dtype=kind, device=x.device)[:, None] / cut.total
    mean = (share * means).sum(0)
    return mean, (share * (variances + (means - mean).square())).sum(0)


def _by_channel(values: Tensor, x: Tensor, kind: torch.dtype | None = None) -> Tensor:
    return values.view(1, -1, *[1] * (x.ndim - 2)).to(kind or x.dtype)
