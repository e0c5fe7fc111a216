"""Which label to check next: the one whose check is expected to correct the most.

Without a check, the best guess at an example's class stands: the likeliest one. It is wrong with
probability 1 - max_t q(t), and a check makes one label right, so the expected gain, the probability
of being wrong times what the correction changes, is this probability itself. A label that
is surely wrong with a sure suggestion gains little: accepting the suggestion does as much.

Copies of one input and long runs of the same confusion are put off, since one answer tells much of
the others. After some decisions the noise model is fitted again, to the same scores: no training.

Shapes: C classes, K decisions, N examples.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from labelproof.judging.label_table import Codes, Numbers
from labelproof.judging.noise_model import NoiseModel
from labelproof.judging.sharpness import prior_of_right

COPY = 0.1  # what is left of the gain of a copy
FADE = 500  # checks of one confusion after which a further one counts half
MOST = 600_000  # scores that the noise model is fitted to again, besides those of decided examples
STEPS = 40


def expected_gain(p_clean: Numbers, p_suggested: Numbers) -> Numbers:
    """Probability that the best guess at each label is wrong, (N,)."""
    gain: Numbers = 1 - np.maximum(p_clean, p_suggested)
    return gain


def check_order(
    gain: Numbers,
    pairs: Codes,
    copies: Codes | None = None,
    open_: npt.NDArray[np.bool_] | None = None,
) -> Codes:
    """Examples in the order to check them, the decided ones last.

    Args:
        gain: (N,) expected gain.
        pairs: (N,) number of the confusion, the same for equal given and suggested classes.
        copies: (N,) number of the input, the same for copies; None where all differ. Copies of a
            decided example are put off too.
        open_: (N,) which labels are not decided; None for all.
    """
    worth = gain * 1 / (1 + _rank_within(pairs, gain) / FADE)
    if copies is not None:
        known = gain if open_ is None else np.where(open_, gain, np.inf)
        worth = np.where(_rank_within(copies, known) > 0, COPY * worth, worth)
    if open_ is not None:
        worth = np.where(open_, worth, -1.0)
    return np.argsort(-worth, kind="stable")


def _rank_within(groups: Codes, gain: Numbers) -> Codes:
    """How many of the same group have a larger gain, (N,)."""
    order = np.lexsort((-gain, groups))
    ordered = groups[order]
    first = np.r_[True, ordered[1:] != ordered[:-1]]
    starts = np.maximum.accumulate(np.where(first, np.arange(len(order)), 0))
    rank = np.empty(len(order), dtype=np.int64)
    rank[order] = np.arange(len(order)) - starts
    return rank


def copies_of(scores: npt.NDArray[np.float32], given: Codes) -> Codes:
    """Numbers that are the same for examples with the same scores and label: copies, (N,)."""
    columns = [*(np.rint(column.astype(np.float64) * 1e5) for column in scores.T), given]
    factors = np.random.default_rng(0).integers(2**63, size=len(columns), dtype=np.uint64)
    key = np.zeros(len(given), dtype=np.uint64)  # a hash: rows themselves take long to sort
    for column, factor in zip(columns, factors, strict=True):
        key += column.astype(np.int64).view(np.uint64) * (2 * factor + 1)
    _, number = np.unique(key, return_inverse=True)
    return number.astype(np.int64)


def joined(groups: Codes, pairs: Codes) -> Codes:
    """Numbers (N,) of larger groups: those that the pairs (P, 2) of examples hold together."""
    from scipy.sparse import coo_array  # slow to import
    from scipy.sparse.csgraph import connected_components

    first, second = groups[pairs].T
    size = int(groups.max(initial=-1)) + 1
    links = coo_array((np.ones(len(pairs)), (first, second)), shape=(size, size))
    number = connected_components(links, directed=False)[1].astype(np.int64)
    out: Codes = number[groups]
    return out


def posterior_after(
    scores: Tensor, given: Tensor, index: Tensor, decided: Tensor, right: float | None = None
) -> Tensor:
    """Probability of every true class, (N, C), after K decisions, by a noise model fitted again.

    A decision tells the true class of an example beside its given label, so it says how labels go
    wrong; decided examples are sure. They were chosen for being doubtful. So the model is fitted to
    all examples where it can be: among a few others, they would pass for usual ones.

    Args:
        scores: (N, C) of networks that have not seen the labels.
        given: (N,) labels.
        index: (K,) examples that a person decided.
        decided: (K,) their classes.
        right: how often scores name the true class, as the run believed; None if it did not say.
    """
    scores, truth = scores.double(), torch.full_like(given, -1)
    truth[index] = decided
    most = max(1, MOST // scores.shape[1])
    some = torch.randperm(len(scores), generator=torch.Generator().manual_seed(0))[:most]
    rows = torch.unique(torch.cat([some, index]))
    prior = None if right is None else prior_of_right(scores.numpy(), given.numpy(), right)
    model = NoiseModel(scores[rows], given[rows], truth[rows], prior).fit(STEPS)
    with torch.no_grad():
        shared = model.sharper()
        everywhere, posterior = model.over(scores, given, truth), torch.zeros_like(scores)
        for share, each in zip(model.shares(shared), shared, strict=True):
            posterior += share * everywhere.posterior(each[None])[0]
    posterior[index] = torch.nn.functional.one_hot(decided, scores.shape[1]).double()
    return posterior
