"""What neighbours tell beyond distances: whether rows are in order, and where the model fails.

Shapes: N examples, K neighbours.
"""

from __future__ import annotations

import torch
from torch import Tensor

from labelproof.judging.health import Neighbours

SHUFFLES = 99  # of the rows, to see what chance does
WINDOW = 0.1  # of all rows: nearer rows stand beside each other
BESIDE = 0.7  # share of the neighbours beside an example from which it is listed
FAILS = 1 / 3  # of the mean probability of given labels: lower regions are listed


def in_order(near: Neighbours) -> list[tuple[int, float]]:
    """Examples (index, share of their neighbours beside them in the file), the largest first.

    Nothing is listed where chance may have put neighbours so near. To know, the distribution of
    distances in the file is compared with that of all pairs (Kolmogorov and Smirnov), and so it is
    with the rows shuffled.
    """
    size = len(near.index)
    rows = torch.arange(size)
    if size < 3 or _gap(near.index, rows) <= _by_chance(near.index):
        return []
    apart = (near.index - rows[:, None]).abs()
    beside = (apart <= WINDOW * size).double().mean(1)
    listed = (beside >= BESIDE).nonzero().squeeze(1)
    if not len(listed):  # a drift that no single example shows
        listed = apart.double().mean(1).argmin()[None]
    order = listed[beside[listed].argsort(descending=True, stable=True)]
    return [(int(row), beside[row].item()) for row in order]


def _by_chance(index: Tensor) -> float:
    """The largest gap with shuffled rows: p = 0.01 to be beyond it."""
    rng = torch.Generator().manual_seed(0)
    shuffled = (torch.randperm(len(index), generator=rng) for _ in range(SHUFFLES))
    return max(_gap(index, place) for place in shuffled)


def _gap(index: Tensor, place: Tensor) -> float:
    """Largest difference of two distribution functions: distances of neighbours, and of all pairs.

    Args:
        index: (N, K) neighbours.
        place: (N,) where each example stands.
    """
    size = len(index)
    apart = (place[index] - place[:, None]).abs().flatten()
    found = torch.bincount(apart, minlength=size).double().cumsum(0) / len(apart)
    steps = torch.arange(size, dtype=torch.float64)
    pairs = (2 * size - 1 - steps) * steps / (size * (size - 1))
    return (found - pairs).abs().max().item()


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
