"""The report's section on the health of the data."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from markupsafe import Markup

from labelproof.report.example_view import Example, Shown, shorten
from labelproof.report.facts import Facts
from labelproof.report.leaked import leaked_example
from labelproof.report.plots import class_shares
from labelproof.report.sentences import many

MOST = 8  # entries of a finding that are shown
EDGE = 120
LETTERS = 200
GROUPS = 50
SAID = {  # of a score, by kind
    "identical inputs with different labels": "the same input",
    "order of rows": "{:.0%} of the most similar examples of its class are close by in the data",
    "failing regions": "labels here get a probability of {:.0%} on average",
    "harmful examples": "right answers that it adds to its neighbours: {:+.2g}",
    "no right class": "predictions and labels of its neighbours: {:.0%} of an even spread",
    "missing values": "{:.0%} of it is blank",
    "pictures of odd size": "as large as a square of {:.0f} pixels",
    "pictures of odd shape": "its short edge is {:.0%} of the long one",
    "plain pictures": "tones: {:.1f} bits",
    "contradicted labels": "probability that the label is right: {:.0%}",
    "split class": "the groups lie {:.1f} times their own spread apart",
    "overlapping classes": "exchanged both ways: {:.0%}",
}


@dataclass(frozen=True, kw_only=True)
class Entry:
    """One example, a pair of them, or a class."""

    name: str
    said: str
    examples: Sequence[Example]


@dataclass(frozen=True, kw_only=True)
class ShownFinding:
    """A finding with its first entries."""

    title: str
    entries: Sequence[Entry]
    pictures: bool


@dataclass(frozen=True, kw_only=True)
class HealthView:
    """What the section shows."""

    findings: Sequence[Mapping[str, Any]]
    shown: Sequence[ShownFinding]
    groups: Sequence[Mapping[str, Any]]
    shares: tuple[Markup, bool] | None  # classes by group, and whether all are drawn
    part: str  # which examples were compared, where not all were


def health_view(facts: Facts, shown: Shown) -> HealthView | None:
    """The section; None for runs that did not look."""
    if not facts.health:
        return None
    findings, compared = facts.health["findings"], facts.health.get("compared", 0)
    labels = facts.rows.labels()
    few = 0 < compared < facts.size

    def example(row: int) -> Example:
        name, text = facts.rows.names()[row], shown.text(row)
        return Example(
            name=f"row {name}" if name.isdecimal() else name,
            label=facts.classes[labels[row]],
            picture=shown.picture(row, EDGE),
            text=shorten(text, LETTERS) if text else None,
        )

    return HealthView(
        findings=findings,
        shown=[_finding(one, example, facts.size) for one in findings if one["entries"]],
        groups=facts.health.get("groups", [])[:GROUPS],
        shares=class_shares(facts.health.get("groups", []), facts.classes),
        part=f"{compared:,} of {facts.size:,} examples, drawn at random," if few else "",
    )


def _finding(
    found: Mapping[str, Any], example: Callable[[int], Example], size: int
) -> ShownFinding:
    entries = [_entry(found["kind"], one, example, size) for one in found["entries"][:MOST]]
    title = found["title"]
    whole = found.get("whole", len(found["entries"]))
    if whole > len(entries):
        title = f"{title}: the first {len(entries)} of {whole:,}"
    pictures = any(one.picture for entry in entries for one in entry.examples)
    return ShownFinding(title=title, entries=entries, pictures=pictures)


def _entry(
    kind: str, one: Mapping[str, Any], example: Callable[[int], Example], size: int
) -> Entry:
    index, other = one.get("index"), one.get("other")
    if index is None:
        between = ":" if kind == "property of a class" else " and"
        words = f"{between} {other}" if other else ""
        own = [example(row) for row in one.get("examples", ())]
        return Entry(name=f"{one.get('class', '')}{words}", said=_said(kind, one), examples=own)
    rows = [index, *([other] if isinstance(other, int) and 0 <= other < size else [])]
    words = "model:" if kind == "contradicted labels" else "like"  # an example of the test data
    beside = f"{words} {other}" if isinstance(other, str) and not one.get("test") else ""
    examples = [example(row) for row in rows]
    if one.get("test"):
        examples.append(leaked_example(str(other), one["test"]))
    return Entry(name=beside, said=_said(kind, one), examples=examples)


def _said(kind: str, one: Mapping[str, Any]) -> str:
    """What the number of an entry means."""
    score = one["score"]
    if kind == "property of a class":
        return (
            f"it tells the class in {score:.0%} of pairs (95% interval {one['low']:.0%} to "
            f"{one['high']:.0%})"
        )
    if kind in SAID:
        return SAID[kind].format(score)
    if kind == "rare class":
        return many(int(score), "example")
    word = "distance" if "index" in one and one.get("other") is not None else "score"
    return f"{word} {score:.2g}"
