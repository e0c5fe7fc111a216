"""What neighbours tell beyond distances: whether rows are in order, and where the model fails.

Shapes: N examples, K neighbours.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from labelproof.judging.health import Neighbours
from labelproof.judging.numbers import mean_ranks

SHUFFLES = 99  # of the rows, to see what chance does
WINDOW = 0.1  # of the rows of a group: nearer rows stand beside each other
FEWEST = 3  # neighbours of its group that an example needs to be listed
BINS = 100  # of distances in the file
SORTED = 0.5  # of the changes of class in shuffled data: fewer are those of sorted rows
ALONG, MAYBE = 0.9, 0.5  # rank correlation of a column that counts rows; below, it is not looked at
BESIDE = 0.7  # share of the neighbours beside an example from which it is listed
LEAST = 1e-9  # value of an example that is not 0 by rounding
FAILS = 1 / 3  # of the mean probability of given labels: lower regions are listed


def in_order(near: Neighbours, groups: Tensor | None = None) -> list[tuple[int, float]]:
    """Examples (index, share of their neighbours beside them in the file), the largest first.

    Only examples of one group are compared, by their places among its rows: rows that are merely
    sorted by class are in no order. Nothing is listed where chance may have put neighbours so near.
    To know, distances in the file are compared with those after rows of a group changed places.

    Args:
        near: the examples' neighbours.
        groups: (N,) such as the classes; all are one group where None.
    """
    size = len(near.index)
    groups = torch.zeros(size, dtype=torch.long) if groups is None else groups
    same = groups[near.index] == groups[:, None]
    if size < 3 or not same.any():
        return []
    number = groups.bincount()[groups].double()
    first, second = same.nonzero()[:, 0], near.index[same]
    longest = (number[first] - 1).clamp_min(1)

    def apart(place: Tensor) -> Tensor:
        return (place[first] - place[second]).abs() / longest

    found = apart(_places(groups, torch.arange(size)))
    if not _beyond_chance(found, groups, apart):
        return []
    counts = first.bincount(minlength=size)
    mean = torch.zeros(size).double().index_add_(0, first, found) / counts
    beside = torch.zeros(size).double().index_add_(0, first, (found <= WINDOW).double()) / counts
    listed = ((beside >= BESIDE) & (counts >= FEWEST)).nonzero().squeeze(1)
    if not len(listed):  # a drift that no single example shows
        listed = mean.nan_to_num(torch.inf).argmin()[None]
    order = listed[beside[listed].argsort(descending=True, stable=True)]
    return [(int(row), beside[row].item()) for row in order]


def _places(groups: Tensor, key: Tensor) -> Tensor:
    """Where each example stands among those of its group, ordered by a key (N,)."""
    by_key = key.argsort(stable=True)
    order = by_key[groups[by_key].argsort(stable=True)]
    starts = groups.bincount().cumsum(0) - groups.bincount()
    places = torch.empty(len(groups), dtype=torch.double)
    places[order] = (torch.arange(len(groups)) - starts[groups[order]]).double()
    return places


def _beyond_chance(found: Tensor, groups: Tensor, apart: Callable[[Tensor], Tensor]) -> bool:
    """Whether distances are distributed like in none of the shuffled files (p = 0.01).

    The statistic is the largest difference from the mean distribution function (Kolmogorov and
    Smirnov).
    """
    rng = torch.Generator().manual_seed(0)
    keys = (torch.rand(len(groups), generator=rng) for _ in range(SHUFFLES))
    parts = [found, *(apart(_places(groups, key)) for key in keys)]
    steps = [torch.histc(part, BINS, 0, 1).cumsum(0) / len(part) for part in parts]
    gaps = (torch.stack(steps) - torch.stack(steps).mean(0)).abs().max(1).values
    return bool(gaps[0] > gaps[1:].max())


def sorted_by_class(labels: Tensor) -> int:
    """How many rows have a row of their own class beside them, if the file is sorted by class.

    It is where the class changes from row to row less than half as often as in shuffled data, and
    less often than in every one of 99 shuffled files.
    """
    size, counts = len(labels), labels.bincount().double()
    stays = (counts * (counts - 1)).sum().item() / max(size * (size - 1), 1)
    if _changes(labels) >= SORTED * (size - 1) * (1 - stays):
        return 0
    rng = torch.Generator().manual_seed(0)
    shuffled = (labels[torch.randperm(size, generator=rng)] for _ in range(SHUFFLES))
    if _changes(labels) >= min(map(_changes, shuffled)):
        return 0
    same = labels[1:] == labels[:-1]
    beside = torch.zeros(size, dtype=torch.bool)
    beside[1:] |= same
    beside[:-1] |= same
    return int(beside.sum())


def _changes(labels: Tensor) -> int:
    return int((labels[1:] != labels[:-1]).sum())


def counting(vectors: Tensor, groups: Tensor) -> Tensor:
    """Columns (F,) that go up or down with the row, in the file or within groups of its rows.

    Dates and counters of a table do: they say when a row was written, not that it is like others.
    """
    row = torch.arange(len(vectors), dtype=torch.double)
    columns = vectors.double()
    likely = torch.maximum(_along(columns, row), _along(columns, row, groups)) > MAYBE
    found = torch.zeros(vectors.shape[1], dtype=torch.bool)
    for place in likely.nonzero().squeeze(1).tolist():
        ranks = torch.from_numpy(mean_ranks(columns[:, place].numpy()))[:, None]
        found[place] = bool(max(_along(ranks, row), _along(ranks, row, groups)) >= ALONG)
    return found


def _along(columns: Tensor, row: Tensor, groups: Tensor | None = None) -> Tensor:
    """Absolute correlation (F,) of columns (N, F) and the row, with the means of groups removed."""
    groups = torch.zeros(len(row), dtype=torch.long) if groups is None else groups
    number = groups.bincount().clamp_min(1).double()[:, None]

    def centred(values: Tensor) -> Tensor:
        sums = torch.zeros(len(number), values.shape[1]).double().index_add_(0, groups, values)
        return values - (sums / number)[groups]

    x, y = centred(columns), centred(row[:, None])
    spread = (x.square().sum(0) * y.square().sum()).sqrt()
    return (x * y).sum(0).abs() / spread.clamp_min(1e-9)


def harmful(near: Neighbours, labels: Tensor) -> list[tuple[int, float]]:
    """Examples (index, value) without which neighbours would be told better, the worst first.

    The value is that of Shapley for a model of the K nearest neighbours (Jia et al. 2019,
    arxiv.org/abs/1911.07128), cut off at K: by so much an example raises the sum of all examples'
    probabilities of their own label. An example is worth nothing to those farther away.

    Args:
        near: the examples' neighbours, the nearest first.
        labels: (N,) given labels.
    """
    same = (labels[near.index] == labels[:, None]).double()
    gain = (same - same[:, -1:]) / same.shape[1]
    value = torch.zeros(len(labels)).double().index_add_(0, near.index.flatten(), gain.flatten())
    low = (value < -LEAST).nonzero().squeeze(1)
    return [(int(row), value[row].item()) for row in low[value[low].argsort(stable=True)]]


def failing(near: Neighbours, given: Tensor) -> list[tuple[int, float]]:
    """Examples (index, local mean) around which the model hardly ever expects the given labels.

    Args:
        near: the examples' neighbours.
        given: (N,) held-out probability of each given label.
    """
    around = torch.cat([given[:, None], given[near.index]], 1).double()
    local = around.mean(1)
    low = (local < FAILS * given.double().mean()).nonzero().squeeze(1)
    return [(int(row), local[row].item()) for row in low[local[low].argsort(stable=True)]]
