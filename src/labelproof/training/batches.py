"""Shuffled batches of indices, given labels and views; what is not resident is read ahead."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from itertools import groupby, islice
from typing import Literal

import torch
from torch import Tensor

from labelproof.data.examples import Derived, Inputs, Resident, Subset
from labelproof.data.readers.streamed import whole
from labelproof.data.task import Strong, Task, Views
from labelproof.nets.exchange import gather_rows
from labelproof.training.ranks import ALONE, Ranks

View = Literal["plain", "weak", "strong"] | Strong


@dataclass(frozen=True)
class Batch:
    """Some training examples: their indices (B,), given labels (B,) and views, on the device."""

    index: Tensor
    y: Tensor
    views: tuple[Tensor, ...]


@dataclass(frozen=True, kw_only=True)
class Batches:
    """One shuffled pass over `index` (or passes without end), `size` examples a batch.

    A remainder smaller than a batch sits out the pass; fewer than `size` make one smaller batch.
    """

    task: Task
    x: Inputs  # the task's, with their margins, on the device where they fit
    y: Tensor  # (N,) the task's, on the device
    index: Tensor  # (n,) on the CPU
    size: int
    views: Sequence[View]
    forever: bool
    rng: torch.Generator  # draws the views
    host_rng: torch.Generator  # strong views of images, which choose operations, and soft labels
    order: torch.Generator  # draws the order, apart, so that reading ahead changes nothing
    device: torch.device
    ranks: Ranks = ALONE  # each reads its share; all get the whole batch

    def __len__(self) -> int:
        """Batches in one pass."""
        return max(1, len(self.index) // self.size) if len(self.index) else 0

    def __iter__(self) -> Iterator[Batch]:
        for rows, raw in read_ahead(self.x, self._rows(), self.ranks):
            yield self._batch(rows, raw)

    def _rows(self) -> Iterator[Tensor]:
        size = min(self.size, len(self.index))
        while size:
            order = self.index[torch.randperm(len(self.index), generator=self.order)]
            if isinstance(self.x, Resident):
                order = order.to(self.x.data.device)  # once a pass, not in every step
            for start in range(0, len(self) * size, size):
                yield order[start : start + size]
            if not self.forever:
                return

    def _batch(self, rows: Tensor, raw: Tensor) -> Batch:
        raw = raw.to(self.device, non_blocking=True)
        views = [view for same in self._alike() for view in self._drawn(same, raw)]
        rows = rows.to(self.device, non_blocking=True)
        return Batch(rows, self._labels(rows), tuple(views))

    def _alike(self) -> list[list[View]]:
        """Views of vectors by kind, each drawn at once; those of images one by one."""
        if self.task.kind == "images":
            return [[view] for view in self.views]
        return [list(same) for _, same in groupby(self.views)]

    def _drawn(self, same: list[View], raw: Tensor) -> Sequence[Tensor]:
        """Several views of one kind."""
        rng, many = self._rng(same[0]), len(same)
        if many == 1:
            return [draw_view(self.task.views, same[0], raw, rng=rng)]
        together = raw.expand(many, *raw.shape)  # no copies: the noise of each makes them
        return draw_view(self.task.views, same[0], together, rng=rng).unbind()

    def _labels(self, rows: Tensor) -> Tensor:
        """Given labels, (B,); of soft targets, labels drawn from them: on average the same loss."""
        soft = self.task.targets
        if soft is None:
            return self.y.index_select(0, rows)
        drawn = torch.multinomial(soft[rows.cpu()], 1, generator=self.host_rng).squeeze(1)
        return drawn.to(self.device)

    def _rng(self, view: View) -> torch.Generator:
        chooses = self.task.kind == "images" and view not in ("plain", "weak")
        return self.host_rng if chooses else self.rng


@dataclass(frozen=True)
class Pinned(Derived):
    """Inputs in memory that a GPU can copy from while it computes."""

    def __len__(self) -> int:
        return len(self.x)

    def take(self, index: Tensor) -> Tensor:
        """Rows `index`, in that order."""
        return self.x.take(index).pin_memory()

    def digest(self) -> str:
        """The hash of the inputs it takes from."""
        return self.x.digest()


def inputs_on(x: Inputs, device: torch.device, room: float | None = None) -> Inputs:
    """Inputs as steps take them: on a GPU where `room` bytes hold them, else in pinned memory."""
    x = whole(x)
    if device.type == "cpu" or (device.type != "cuda" and room is None):
        return x
    if room is None:
        room = torch.cuda.mem_get_info(device)[0] / 2
    if isinstance(x, Resident) and x.data.numel() * x.data.element_size() <= room:
        return Resident(x.data.to(device), x.key)
    if isinstance(x, Subset) and isinstance(x.x, Resident) and len(x):
        each = x.x.data[0].numel() * x.x.data.element_size()
        if each * len(x) <= room:
            return Resident(x.x.data[x.rows].to(device))
    return Pinned(x) if device.type == "cuda" else x


def draw_view(views: Views, view: View, raw: Tensor, *, rng: torch.Generator) -> Tensor:
    """A view of a raw batch, as a method asks for it."""
    if isinstance(view, Strong):
        return views.strong(raw, rng, view)
    if view == "plain":
        return views.plain(raw)
    return views.weak(raw, rng) if view == "weak" else views.strong(raw, rng)


def read_ahead(
    x: Inputs, rows: Iterator[Tensor], together: Ranks = ALONE, depth: int = 3
) -> Iterator[tuple[Tensor, Tensor]]:
    """Each batch of rows with its raw inputs; what is decoded or pinned is so `depth` ahead.

    With `together`, each of these processes decodes its share of a batch and all of them get it.
    What is in memory every process takes by itself.
    """
    if x.resident and not isinstance(x, Pinned):
        for row in rows:
            yield row, x.take(row)
        return
    together = ALONE if x.resident else together
    with ThreadPoolExecutor(1) as reader:

        def fetch(row: Tensor) -> tuple[Tensor, Future[Tensor]]:
            return row, reader.submit(x.take, row[_share(row, together)])

        queue = [fetch(row) for row in islice(rows, depth)]
        while queue:
            row, pending = queue.pop(0)
            following = next(rows, None)
            if following is not None:
                queue.append(fetch(following))
            yield row, _all(pending.result(), row, together)


def _share(rows: Tensor, together: Ranks) -> slice:
    """What this process reads; of fewer rows than processes, everything."""
    return together.cut(len(rows)).rows if len(rows) >= together.world > 1 else slice(None)


def _all(raw: Tensor, rows: Tensor, together: Ranks) -> Tensor:
    """The whole batch, on this thread: exchanges must come in the same order everywhere."""
    if len(raw) == len(rows):
        return raw
    gathered = gather_rows(raw, together.cut(len(rows)))
    return gathered.pin_memory() if raw.is_pinned() else gathered


def mean_of_steps(values: Sequence[Tensor]) -> float:
    """The mean of a number of each step, read from the device once; 0 without steps."""
    if not values:
        return 0.0
    return float(sum(value / len(values) for value in torch.stack([*values]).tolist()))
