"""What a person should know of votes before they are used, a sentence each."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from labelproof.data.votes import BLANK, Votes, tied
from labelproof.errors import BadInput
from labelproof.messages import cut_short

SHOWN = 5  # names in a note, at the most
COLUMNS = 20  # columns of a table, in a refusal
TWO = (("0", "1"), ("False", "True"))  # classes that columns of yes and no have
NEAR_CHANCE = 0.1  # agreement (alpha) from which on such columns can be people
FEWEST = 10  # examples that show how far columns agree


def vote_notes(votes: Votes, classes: tuple[str, ...]) -> tuple[str, ...]:
    """What is odd about these votes, a sentence each."""
    cast = (votes.table != BLANK).sum(0)
    single = [
        name for name, count in zip(votes.annotators, cast.tolist(), strict=True) if count == 1
    ]
    lonely = [classes[code] for code in _used_by_one(votes, len(classes))]
    one = int((votes.given == 1).sum())
    found = (
        (single, "annotators with a single label, too few to tell how good they are ({n}): {list}"),
        (_same_but_case(votes.annotators), "annotators differ only by case and count as different "
         "people: {list}"),
        (lonely, "classes that only one annotator uses ({n}): {list}"),
    )  # fmt: skip
    notes = [text.format(n=len(names), list=listed_names(names)) for names, text in found if names]
    if one:
        has = "has" if one == 1 else "have"
        notes.append(f"{one} of {len(votes.table)} examples {has} one vote only")
    ties = int(tied(votes, len(classes)).sum())
    if ties:
        notes.append(
            f"{ties} of {len(votes.table)} examples {'has' if ties == 1 else 'have'} no clear "
            "majority; their given label is one of the tied classes, drawn by their probabilities"
        )
    return tuple(notes)


def maybe_multilabel(votes: Votes, classes: tuple[str, ...]) -> tuple[str, ...]:
    """Whether columns of 0 and 1 without gaps could be labels that an example has at once."""
    if len(votes.annotators) < 3 or classes != ("0", "1") or (votes.table == BLANK).any():
        return ()
    return (
        "every vote is 0 or 1, and the columns count as annotators; if an example can have "
        "several of these labels (multi-label), fit each column by itself, for a table with "
        "--multilabel",
    )


def refuse_multilabel(votes: Votes, classes: tuple[str, ...], what: str, advice: str) -> None:
    """Refuse columns of 0 and 1 that agree no more than by chance: nobody said they are people.

    Args:
        votes: What was given as labels.
        classes: Their names.
        what: How sentences call the labels.
        advice: What to do if the columns are annotators all the same.
    """
    size, people = votes.table.shape
    if classes not in TWO or (votes.table == BLANK).any() or size < FEWEST:
        return
    ones = votes.table.double().sum(1)
    differ = (2 * ones * (people - ones) / (people * (people - 1))).mean().item()
    share = ones.mean().item() / people
    alpha = 1 - differ / (2 * share * (1 - share) * size * people / (size * people - 1))
    if alpha < NEAR_CHANCE:
        raise BadInput(
            f"expected one label per example in {what}, but they are {people} columns of 0 and 1 "
            f"that agree no more than by chance (Krippendorff's alpha {alpha:.2f}), as labels that "
            "an example can have at once (multi-label); fit each column by itself (for a table, "
            f"fit --multilabel does that). If they are {people} annotators' answers on two "
            f"classes, {advice}"
        )


def refuse_blank_votes(column: npt.NDArray[Any]) -> None:
    """Refuse -1 beside two classes in labels that were given as (N, 1): there a vote is missing."""
    if column.dtype.kind in "if" and (column == -1).any() and len(np.unique(column)) > 2:
        raise BadInput(
            f"expected one label per example, but y of shape {(len(column), 1)} has -1 in "
            f"{int((column == -1).sum())} rows, which says in a table of annotators that somebody "
            "gave no label; leave these rows out of X and y, or give y of shape "
            f"({len(column)},) if -1 is a class."
        )


def _used_by_one(votes: Votes, classes: int) -> list[int]:
    """Classes that exactly one annotator ever chose, where most annotators could have."""
    users = [int((votes.table == code).any(0).sum()) for code in range(classes)]
    return [code for code, count in enumerate(users) if count == 1 and len(votes.annotators) > 2]


def _same_but_case(names: Sequence[str]) -> list[str]:
    groups: dict[str, list[str]] = defaultdict(list)
    for name in names:
        groups[name.strip().lower()].append(name)
    return [name for group in groups.values() if len(group) > 1 for name in group]


def series_in_short(header: Sequence[str]) -> str:
    """The columns of a table; of those that are only numbered, such as v0 to v63, the ends."""
    series: dict[str, list[str]] = defaultdict(list)
    for name in header:
        stem = name.rstrip("0123456789")
        series[stem if stem != name else f"{name} alone"].append(name)
    short = [
        text
        for names in series.values()
        for text in ([f"{names[0]} to {names[-1]}"] if len(names) > 3 else names)
    ]
    return cut_short(short[:COLUMNS], len(short))


def listed_names(names: Sequence[str]) -> str:
    """The first few names, and how many more there are."""
    return cut_short([repr(name) for name in names[:SHOWN]], len(names))
