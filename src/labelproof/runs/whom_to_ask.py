"""Whom to ask about a label, where several annotators labelled: who would tell the classes apart.

Example i has true class t with probability q(t). After annotator a has said v, the best guess is
right with probability Σ_v max_t q(t) π_a[t, v] on average. The larger that is, the more an answer
helps. Somebody who knows one class well but names it everywhere tells nothing.

Shapes: A annotators, C classes.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from labelproof.judging.label_table import LabelRows, Numbers
from labelproof.runs.votes_file import read_crowd, read_votes

LEVEL = 0.95  # of the best person's help, from which on another one is as good
MOST = 5  # classes between which an answer decides; the others are too unlikely

Said = Mapping[int, Sequence[tuple[str, str, float]]]  # who said what of an example, how likely


@dataclass(frozen=True)
class Ask:
    """A person to ask, and why this one."""

    who: str
    why: str


@dataclass(frozen=True, kw_only=True)
class Advisers:
    """The annotators of a run with what each knows."""

    names: Sequence[str]
    confusion: Numbers  # (A, C, C) probability of a vote (column) for each true class (row)
    classes: Sequence[str]
    said: Said
    asked: Counter[str] = field(default_factory=Counter)  # questions so far

    def about(self, rows: LabelRows, place: int) -> Ask:
        """Who would help most with a row of the label table.

        That is one of those who have not labelled it. Where everybody has, it is one of those who
        said something else than what is likeliest, as a slip is soon put right.
        """
        likely = self._likely(rows, place)
        said = {name: label for name, label, _ in self.said.get(int(rows.index[place]), ())}
        best = self.classes[int(likely.argmax())]
        able = [name for name in self.names if name not in said]
        able = able or [name for name in self.names if said[name] != best] or list(self.names)
        who = self._most_help(able, likely)
        before = f"said {said[who]} before; " if who in said else ""
        return Ask(who, before + self._why(who, likely))

    def _most_help(self, able: Sequence[str], likely: Numbers) -> str:
        """Whose answer helps most; of people who are as good, the one with fewest questions."""
        numbers = [self.names.index(name) for name in able]
        helped = expected_right(likely, self.confusion[numbers]) - likely.max()
        enough = min(LEVEL * helped.max(), helped.max())  # rounding may leave less than nothing
        level = [name for name, gain in zip(able, helped, strict=True) if gain >= enough]
        return min(level, key=lambda name: self.asked[name])

    def take(self, rows: LabelRows, place: int) -> Ask:
        """The same, and the next question rather goes to somebody else who knows as much."""
        found = self.about(rows, place)
        self.asked[found.who] += 1
        return found

    def _likely(self, rows: LabelRows, place: int) -> Numbers:
        """Probability of each class (C,); what is known of none is shared equally."""
        codes = {name: code for code, name in enumerate(self.classes)}
        said = self.said.get(int(rows.index[place]), ())
        known = {codes[label]: sure for _, label, sure in said}
        known[int(rows.suggested[place])] = float(rows.p_suggested[place])
        known[int(rows.given[place])] = float(rows.p_clean[place])
        rest = max(0.0, 1 - sum(known.values())) / max(1, len(codes) - len(known))
        likely: Numbers = np.array([known.get(code, rest) for code in range(len(codes))])
        likely /= max(likely.sum(), 1e-12)
        return likely

    def _why(self, who: str, likely: Numbers) -> str:
        """How often the person names the two likeliest classes rightly."""
        first, second = np.argsort(-likely, kind="stable")[:2]
        right = self.confusion[self.names.index(who)].diagonal()
        return (
            f"right on {right[first]:.0%} of {self.classes[first]} "
            f"and {right[second]:.0%} of {self.classes[second]}"
        )


def expected_right(likely: Numbers, confusion: Numbers) -> Numbers:
    """How often the best guess is right after an answer, (A,), for classes `likely` (C,)."""
    top = np.argsort(-likely, kind="stable")[:MOST]
    right: Numbers = (likely[top, None] * confusion[:, top]).max(1).sum(1)
    return right


def advisers(folder: Path, classes: Sequence[str], size: int) -> Advisers | None:
    """The annotators of a run; None where one person labelled."""
    crowd = read_crowd(folder, len(classes))
    if crowd is None:
        return None
    return Advisers(
        names=crowd["annotators"],
        confusion=np.array(crowd["confusion"], dtype=np.float64),
        classes=classes,
        said=read_votes(folder, classes, size),
    )
