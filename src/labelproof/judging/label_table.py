"""What a result says of every label: one row per label."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import overload

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from labelproof import functional as fn
from labelproof.training.loop import Result

Codes = npt.NDArray[np.int64]
Numbers = npt.NDArray[np.float64]
BLOCK = 1 << 18  # rows for which (rows, C) numbers are held at a time


@dataclass(frozen=True)
class Names(Sequence[str]):
    """Names of examples in some order; each is made when asked for, as there may be millions."""

    of: Sequence[str] | None  # by number of the example; its number where None
    order: Codes  # (n,) numbers of the examples

    def __len__(self) -> int:
        return len(self.order)

    @overload
    def __getitem__(self, place: int) -> str: ...
    @overload
    def __getitem__(self, place: slice) -> Names: ...
    def __getitem__(self, place: int | slice) -> str | Names:
        if isinstance(place, slice):
            return Names(self.of, self.order[place])
        index = int(self.order[place])
        return str(index) if self.of is None else self.of[index]


@dataclass(frozen=True, kw_only=True)
class LabelRows:
    """The label table in the order of labels.csv: the most suspicious label first."""

    index: Codes  # (N,) number of the training example
    ids: Names
    given: Codes  # (N,) class
    suggested: Codes  # (N,) class
    p_clean: Numbers
    p_suggested: Numbers
    margin: Numbers
    suspect: npt.NDArray[np.bool_]

    def __len__(self) -> int:
        return len(self.index)

    def labels(self) -> Codes:
        """Given labels in the order of the training examples, (N,)."""
        labels = np.empty_like(self.given)
        labels[self.index] = self.given
        return labels

    def names(self) -> Names:
        """Names in the order of the training examples."""
        return Names(self.ids.of, np.arange(len(self)))

    @cached_property
    def unclear(self) -> npt.NDArray[np.bool_]:
        """Suspects (N,) whose suggestion is less likely than the given label."""
        out: npt.NDArray[np.bool_] = self.suspect & (self.p_suggested < self.p_clean)
        return out

    def suspects(self) -> Codes:
        """Rows of the suspects, worst first."""
        return np.flatnonzero(self.suspect)


@dataclass(frozen=True, kw_only=True)
class LabelTable:
    """Every given label with what the model thinks of it; row i is training example i."""

    given: Tensor  # (N,) class
    suggested: Tensor  # (N,) the given class, or the likeliest other one where it is doubted
    p_clean: Tensor  # (N,) probability that the given label is right
    p_suggested: Tensor  # (N,) probability of the suggested class
    margin: Tensor  # (N,) log-probability of the given class minus that of the best other one
    suspect: Tensor  # (N,) bool: so likely wrong that a list of them is as precise as stated

    def worst_first(self) -> Tensor:
        """Indices from the most to the least suspicious; the margin decides between equals."""
        order = np.lexsort((self.margin.numpy(), self.p_clean.numpy()))
        return torch.from_numpy(order)

    def rows(self, ids: Sequence[str] | None = None) -> LabelRows:
        """The table as people read it, the most suspicious label first."""
        order = self.worst_first().numpy().astype(np.int64)
        return LabelRows(
            index=order,
            ids=Names(ids, order),
            given=self.given.numpy()[order],
            suggested=self.suggested.numpy()[order],
            p_clean=self.p_clean.numpy()[order].astype(np.float64),
            p_suggested=self.p_suggested.numpy()[order].astype(np.float64),
            margin=self.margin.numpy()[order].astype(np.float64),
            suspect=self.suspect.numpy()[order],
        )


def label_table(
    result: Result, suspect: Tensor | None = None, posterior: Tensor | None = None
) -> LabelTable:
    """What is said of every given label.

    A suspect, and a label more likely wrong than right, gets the likeliest other class as a
    suggestion, also where a network has learnt the label by heart.

    Args:
        result: with the probability that each label is right.
        suspect: (N,) which labels are suspects; those more likely wrong than right where None.
        posterior: (N, C) of the true class; the network's probabilities where None.
    """
    probs, given, clean = result.probabilities, result.task.y, result.clean
    suspect = clean < 0.5 if suspect is None else suspect
    suggested, sure, margin = torch.empty_like(given), torch.empty_like(clean), []
    for rows in map(slice, range(0, len(given), BLOCK), range(BLOCK, len(given) + BLOCK, BLOCK)):
        label, believed = given[rows], probs[rows] if posterior is None else posterior[rows]
        judged = knowing_label(believed.to(probs), label, clean[rows])
        best_other = judged.scatter(1, label[:, None], -1.0).argmax(1)
        chosen = torch.where(suspect[rows] | (clean[rows] < 0.5), best_other, label)
        suggested[rows], sure[rows] = chosen, judged.gather(1, chosen[:, None]).squeeze(1)
        margin.append(fn.label_margin(probs[rows].clamp_min(1e-12).log(), label))
    return LabelTable(
        given=given,
        suggested=suggested,
        p_clean=clean,
        p_suggested=sure,
        margin=torch.cat(margin),
        suspect=suspect,
    )


def knowing_label(probs: Tensor, given: Tensor, clean: Tensor) -> Tensor:
    """Probabilities (N, C) in which the given label has `clean` (N,), the others share the rest."""
    label = given[:, None]
    others = probs.clamp_min(1e-30).scatter(1, label, 0.0)  # equal shares where all are 0
    rest = (1 - clean)[:, None] / others.sum(1, keepdim=True)
    return (others * rest).scatter(1, label, clean[:, None])
