"""The kinds of problems of data, what to do about each, and those that are found in pictures."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from labelproof.data.examples import Examples
from labelproof.judging import picture_faults as faults
from labelproof.judging.health import wilson

KEPT = 200  # entries of a finding that health.json keeps
MOST = 20_000  # pictures that are measured
CHUNK = 512
SHOWN = 3  # pictures that show a property most
NOTHING = "Check whether they show anything; leave out those that do not."
SAID = {  # title, advice, and what the share is of, by kind
    "identical inputs with different labels": (
        "Identical inputs with different labels",
        "At least one label of each pair is wrong: look at both.",
        "examples",
    ),
    "near-duplicates with different labels": (
        "Near-duplicates with different labels",
        "The inputs of each pair are very similar, but not identical: compare them. Both labels "
        "can be right.",
        "examples",
    ),
    "near-duplicates": (
        "Near-duplicates with the same label",
        "Keep one of each pair, or keep all copies on the same side of a split.",
        "examples",
    ),
    "test examples in training": (
        "Test examples that are in the training data",
        "Remove these from the test data: they make the measured accuracy too high.",
        "test examples",
    ),
    "outliers": (
        "Outliers",
        "These are unlike all other examples: check that they belong in the data.",
        "examples",
    ),
    "order of rows": (
        "Rows in an order",
        "Similar examples of a class are next to each other, as if recorded in sequence. Split the "
        "data by blocks, not by single rows.",
        "examples",
    ),
    "rows sorted by class": (
        "Rows sorted by class",
        "Rows of a class stand together. Shuffle them before you split the data or use a part.",
        "examples",
    ),
    "failing regions": (
        "Regions where the model fails",
        "The model rarely predicts the labels of these examples and their neighbours. Check the "
        "labels together, or collect more examples like them.",
        "examples",
    ),
    "harmful examples": (
        "Examples that do harm to a model of neighbours",
        "Their labels disagree with those of the examples they are most similar to: check these "
        "labels after the suspects, or see whether the model is better without them.",
        "examples",
    ),
    "missing values": (
        "Rows with missing values",
        "At least half of the cells are blank, or the text is: fill them in, or leave these out.",
        "examples",
    ),
    "contradicted labels": (
        "Further labels that a model contradicts",
        "The model, a regression or similar examples find another class likelier, but not clearly "
        "enough for a suspect. Fewer of these labels are wrong: check them after the suspects.",
        "examples",
    ),
    "no right class": (
        "Examples that no class fits",
        "Neither the model nor the labels of similar examples point to a class: add a class, or "
        "leave them out. Examples that are hard to tell are among them.",
        "examples",
    ),
    "split class": (
        "Classes that may be two",
        "Their examples fall into two groups far apart: check whether these are two classes.",
        "classes",
    ),
    "overlapping classes": (
        "Classes that may be one",
        "Their labels are confused in both directions, or the model cannot tell them apart: define "
        "the difference, or merge them.",
        "classes",
    ),
    "dark pictures": ("Dark pictures", NOTHING, "examples"),
    "bright pictures": ("Bright pictures", NOTHING, "examples"),
    "blank pictures": ("Blank pictures", NOTHING, "examples"),
    "blurred pictures": ("Blurred pictures", NOTHING, "examples"),
    "plain pictures": (
        "Pictures with little information",
        "They have few tones, like a logo or a drawing. " + NOTHING,
        "examples",
    ),
    "grey pictures": (
        "Grey pictures among pictures in colour",
        "A model may treat them in another way: check that they come from the same source.",
        "examples",
    ),
    "pictures of odd size": (
        "Pictures of odd size",
        "They are far smaller or larger than the others: check whether they are thumbnails or "
        "scans of something else.",
        "examples",
    ),
    "pictures of odd shape": (
        "Very narrow pictures",
        "Only their middle is used: cut out what matters, or leave them out.",
        "examples",
    ),
    "property of a class": (
        "Classes that a simple property tells",
        "A model may learn this property in place of the class. Check whether it comes from how "
        "the pictures were made; if so, collect pictures of the class without it.",
        "classes",
    ),
    "rare class": (
        "Rare classes",
        "They have less than a tenth of an equal share: collect more examples of these classes.",
        "classes",
    ),
}


@dataclass(frozen=True, kw_only=True)
class Finding:
    """One kind of problem: how many, of how many, and which ones."""

    kind: str
    count: int
    size: int  # of how many
    entries: Sequence[dict[str, Any]]  # index or class, score, and what else is known
    whole: int  # entries there are, of which `entries` may be the first

    def describe(self) -> dict[str, Any]:
        """Plain values, for health.json; the interval is one of 95%."""
        title, advice, of = SAID[self.kind]
        share = self.count / self.size if self.size else 0.0
        low, high = wilson(share, self.size)
        return {
            "kind": self.kind,
            "title": title,
            "advice": advice,
            "of": of,
            "count": self.count,
            "size": self.size,
            "share": share,
            "low": low,
            "high": high,
            "whole": self.whole,
            "entries": list(self.entries[:KEPT]),
        }


def listed(found: Sequence[tuple[int, float]]) -> list[dict[str, Any]]:
    """Entries of examples with their scores."""
    return [{"index": row, "score": score} for row, score in found]


def finding_of(
    kind: str,
    entries: Sequence[dict[str, Any]],
    size: int,
    count: int | None = None,
    whole: int | None = None,
) -> Finding:
    """A kind of problem in so many of all, as many as there are entries unless told.

    Entries can be fewer than there are in the `whole`.
    """
    return Finding(
        kind=kind,
        count=len(entries) if count is None else count,
        size=size,
        entries=entries,
        whole=len(entries) if whole is None else whole,
    )


def picture_findings(train: Examples, labels: Tensor, classes: Sequence[str]) -> Iterable[Finding]:
    """What is found in pictures, and what of it goes with a class; nothing for other data."""
    pictures = train.raw if train.raw is not None else train.x
    if len(pictures.shape) != 3 or min(pictures.shape[:2]) < 3:
        return
    size = min(len(pictures), MOST)
    rows = torch.split(torch.arange(size), CHUNK)
    parts = [vars(faults.picture_numbers(pictures.take(part))) for part in rows]
    joined = {name: torch.cat([part[name] for part in parts]) for name in parts[0]}
    numbers = faults.PictureNumbers(**joined)
    for kind, found in faults.picture_faults(numbers).items():
        yield finding_of(f"{kind} pictures", listed(found), size)
    sizes = None if train.sizes is None else train.sizes[:size]
    if sizes is not None:
        odd, narrow = faults.odd_sizes(sizes)
        yield finding_of("pictures of odd size", listed(odd), size)
        yield finding_of("pictures of odd shape", listed(narrow), size)
    known = faults.properties(numbers, sizes)
    telling = faults.going_with_class(known, labels[:size], len(classes))
    yield _of_classes(telling, classes)


def _of_classes(found: Sequence[faults.Telling], classes: Sequence[str]) -> Finding:
    """Classes with the property that tells each, and pictures that show it most."""
    entries = [
        {
            "class": classes[one.code],
            "other": one.way,
            "score": one.value,
            "low": one.interval[0],
            "high": one.interval[1],
            "examples": one.rows[:SHOWN],
        }
        for one in found
    ]
    count = len({one.code for one in found})
    return finding_of("property of a class", entries, len(classes), count)
