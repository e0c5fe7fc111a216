"""A network that several processes compute together: each takes some rows of every batch.

Outputs are gathered, so a method sees the whole batch on every process and needs to know nothing.
Weights get the gradient of the whole batch. Layers that look across rows do so across processes:
batch normalisation has the statistics of the whole batch, and dropout masks are drawn for all rows
and cut. So several processes compute what one would, up to rounding.

Batch normalisation takes two exchanges a layer and step, of two numbers a channel each: statistics
of the inputs on the way forth, sums of the slopes on the way back. PyTorch's own kernels do the
rest. Second derivatives go through plain operations, which have all orders.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import lru_cache
from typing import Any

import torch
from torch import Tensor, nn
from torch.func import functional_call
from torch.nn.functional import batch_norm

from labelproof.nets.exchange import Cut, everyones, gather, summed, take, total, use
from labelproof.nets.heads import MultiHead, Start


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
    share = _shares(cut, kind, x.device)
    mean = (share * means).sum(0)
    return mean, (share * (variances + (means - mean).square())).sum(0)


@lru_cache(maxsize=16)  # a run has two or three sizes of batches
def _shares(cut: Cut, kind: torch.dtype, device: torch.device) -> Tensor:
    """The share of each process in the rows, (processes, 1); copied to a GPU only once."""
    return torch.tensor(cut.sizes, dtype=kind, device=device)[:, None] / cut.total


def _by_channel(values: Tensor, x: Tensor, kind: torch.dtype | None = None) -> Tensor:
    return values.view(1, -1, *[1] * (x.ndim - 2)).to(kind or x.dtype)


class Share:
    """What this process computes of the batch in hand; a network and its layers hold one."""

    def __init__(self, rank: int, world: int) -> None:
        self.rank, self.world = rank, world
        self.cut: Cut | None = None  # while a forward pass of some rows runs

    def worthwhile(self, rows: int) -> bool:
        """Whether a batch is cut; of a few rows, every process computes all."""
        return self.cut is None and self.world > 1 and rows >= 2 * self.world

    @contextmanager
    def of(self, rows: int) -> Iterator[Cut]:
        """The part of a batch of so many rows."""
        self.cut = Cut(self.rank, self.world, rows)
        try:
            yield self.cut
        finally:
            self.cut = None


class Sharded(MultiHead):
    """A `MultiHead` of which this process computes a share."""

    def __init__(
        self,
        trunk: nn.Module,
        heads: Mapping[str, nn.Module],
        precision: torch.dtype | None,
        share: Share,
    ) -> None:
        super().__init__(trunk, heads, precision)
        self.share = share
        for layer in self.modules():
            if type(layer) in ACROSS:
                # in place: its weights, mode and name in the state stay as they are
                layer.__class__ = ACROSS[type(layer)]
                vars(layer)["share"] = share

    def forward(
        self, x: Tensor, *names: str, start: Start = "input"
    ) -> Tensor | tuple[Tensor, ...]:
        """Outputs of the whole batch, as those of `MultiHead`."""
        if not self.share.worthwhile(len(x)):
            return super().forward(x, *names, start=start)
        with self.share.of(len(x)) as cut:
            weights = self._used(names or (self.classifier,), start)
            part = functional_call(self, weights, (take(x, cut), *names), {"start": start})
        if isinstance(part, Tensor):
            return gather(part, cut)
        return tuple(gather(each, cut) for each in part)

    def alone(self) -> None:
        """From now on compute everything here, without the other processes."""
        self.share.world = 1

    def _used(self, names: tuple[str, ...], start: Start) -> dict[str, Tensor]:
        """Trainable weights behind these outputs, ready for some of the rows."""
        if not torch.is_grad_enabled():
            return {}
        parts = tuple(f"heads.{name}." for name in names) + (("trunk.",) * (start == "input"))
        found = {
            name: weight
            for name, weight in self.named_parameters()
            if weight.requires_grad and name.startswith(parts)
        }
        return dict(zip(found, use(*found.values()), strict=True)) if found else {}


class _BatchNorm(nn.modules.batchnorm._BatchNorm):
    """Batch normalisation with the statistics of all rows of the batch."""

    share: Share

    def forward(self, x: Tensor) -> Tensor:
        cut = self.share.cut
        if cut is None or not (self.training or self.running_mean is None):
            return super().forward(x)
        kind = torch.float32 if x.dtype in (torch.float16, torch.bfloat16) else x.dtype
        weight = self.weight if self.affine else torch.ones(x.shape[1], dtype=kind, device=x.device)
        bias = self.bias if self.affine else torch.zeros_like(weight)
        out, mean, variance = normalise(x, weight, bias, cut, self.eps)
        numbers = count(x, cut)
        self._remember(mean, variance * (numbers / (numbers - 1)))
        return out

    def _remember(self, mean: Tensor, variance: Tensor) -> None:
        """Move the running statistics as `nn.BatchNorm2d` does."""
        if not self.track_running_stats or self.running_mean is None or self.running_var is None:
            return
        momentum = self.momentum
        if self.num_batches_tracked is not None:
            self.num_batches_tracked.add_(1)
            momentum = 1 / float(self.num_batches_tracked) if momentum is None else momentum
        self.running_mean.lerp_(mean, momentum or 0.0)
        self.running_var.lerp_(variance, momentum or 0.0)


class _BatchNorm1d(_BatchNorm, nn.BatchNorm1d):
    pass


class _BatchNorm2d(_BatchNorm, nn.BatchNorm2d):
    pass


class _DropoutNd(nn.modules.dropout._DropoutNd):
    """Dropout whose mask is drawn for the whole batch, as a single process would."""

    share: Share

    def forward(self, x: Tensor) -> Tensor:
        cut = self.share.cut
        if cut is None or not self.training or len(x) != cut.sizes[cut.rank]:
            out: Tensor = super().forward(x)
            return out
        whole = torch.ones(cut.total, *x.shape[1:], dtype=x.dtype, device=x.device)
        mask: Tensor = super().forward(whole)
        return x * mask[cut.rows]


class _Dropout(_DropoutNd, nn.Dropout):
    pass


class _Dropout2d(_DropoutNd, nn.Dropout2d):
    pass


ACROSS: dict[type[nn.Module], type[nn.Module]] = {
    nn.BatchNorm1d: _BatchNorm1d,
    nn.BatchNorm2d: _BatchNorm2d,
    nn.Dropout: _Dropout,
    nn.Dropout2d: _Dropout2d,
}
