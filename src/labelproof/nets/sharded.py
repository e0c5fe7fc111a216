"""A network that several processes compute together: each takes some rows of every batch.

Outputs are gathered, so a method sees the whole batch on every process and needs to know nothing.
Weights get the gradient of the whole batch. Layers that look across rows do so across processes:
batch normalisation has the statistics of the whole batch, and dropout masks are drawn for all rows
and cut. So several processes compute what one would, up to rounding.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

import torch
from torch import Tensor, nn
from torch.func import functional_call

from labelproof.nets.exchange import Cut, gather, take, use
from labelproof.nets.heads import MultiHead, Start
from labelproof.nets.normalising import count, normalise


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
