"""The report's section on the health of the data."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from labelproof.report.example_view import Picture, Shown, shorten
from labelproof.report.facts import Facts
from labelproof.report.sentences import many

MOST = 8  # entries of a finding that are shown
EDGE = 120
LETTERS = 200
GROUPS = 50


@dataclass(frozen=True, kw_only=True)
class Entry:
    """One example or class."""

    name: str
    said: str
    pictures: Sequence[Picture]
    text: str | None


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
    part: str  # which examples were compared, where not all were


def health_view(facts: Facts, shown: Shown) -> HealthView | None:
    """The section; None for runs that did not look."""
    if not facts.health:
        return None
    names = facts.rows.names()
    findings, compared = facts.health["findings"], facts.health.get("compared", 0)
    few = 0 < compared < facts.size
    return HealthView(
        findings=findings,
        shown=[_finding(one, names, shown) for one in findings if one["entries"]],
        groups=facts.health.get("groups", [])[:GROUPS],
        part=f"{compared:,} of {facts.size:,} examples, drawn at random," if few else "",
    )


def _finding(found: Mapping[str, Any], names: Sequence[str], shown: Shown) -> ShownFinding:
    entries = [_entry(found["kind"], one, names, shown) for one in found["entries"][:MOST]]
    title = found["title"]
    if len(found["entries"]) > len(entries):
        title = f"{title}: the first {len(entries)} of {len(found['entries'])}"
    return ShownFinding(
        title=title, entries=entries, pictures=any(entry.pictures for entry in entries)
    )


def _entry(kind: str, one: Mapping[str, Any], names: Sequence[str], shown: Shown) -> Entry:
    index, other = one.get("index"), one.get("other")
    if index is None:
        words = f" and {other}" if other else ""
        name = f"{one.get('class', '')}{words}"
        return Entry(name=name, said=_said(kind, one), pictures=(), text=None)
    rows = [index, *([other] if isinstance(other, int) and 0 <= other < len(names) else [])]
    pictures = [shown.picture(row, EDGE) for row in rows]
    text = shown.text(index)
    called = [names[row] for row in rows]
    name = " and ".join(called)
    if all(word.isdecimal() for word in called):
        name = f"row{'s' if len(rows) > 1 else ''} {name}"
    return Entry(
        name=name if isinstance(other, int | None) else f"{name} and {other}",
        said=_said(kind, one),
        pictures=[picture for picture in pictures if picture is not None],
        text=shorten(text, LETTERS) if text else None,
    )


def _said(kind: str, one: Mapping[str, Any]) -> str:
    """What the number of an entry means."""
    if kind == "rare class":
        return many(int(one["score"]), "example")
    word = "distance" if "index" in one and one.get("other") is not None else "score"
    return f"{word} {one['score']:.2g}"
