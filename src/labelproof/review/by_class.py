"""Many labels decided at once: all that a filter lets through become one class, as one step."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from labelproof.errors import BadInput
from labelproof.judging.label_table import LabelRows
from labelproof.review.queue import Query, Queue, parse_query
from labelproof.runs.reviewed import Reviewed

ACTS = ("keep", "accept", "change")
MOST = 100_000  # labels at once


def decide_where(
    review: Reviewed,
    *,
    label: str,
    given: str | None = None,
    suggested: str | None = None,
    scope: str = "suspects",
) -> int:
    """Decide that all open labels of a kind are one class, and return how many there were.

    "All suspects given `dog` and suggested `wolf` are `wolf`" is
    `decide_where(review, given="dog", suggested="wolf", label="wolf")`.

    Args:
        review: opened with `write=True`.
        label: the class they are.
        given: only labels that were given this class.
        suggested: only labels with this suggestion.
        scope: `suspects` or `all` labels.

    Raises:
        BadInput: if a class or the scope is unknown.
    """
    values = {"scope": scope, "given": given or "", "suggested": suggested or ""}
    queue = Queue(review.rows, review.decisions.standing())
    query = parse_query(values, review.codes())
    wishes = wishes_for(review.rows, review.classes, open_places(queue, query), "change", label)
    if wishes:
        review.decisions.decide(wishes)
    return len(wishes)


def open_places(queue: Queue, query: Query) -> list[int]:
    """Rows that the filter lets through and nobody has decided; the page does not matter."""
    wanted = replace(query, status="open", start=0, before=None, limit=MOST)
    return queue.page(wanted)[0]


def wishes_for(
    rows: LabelRows, classes: Sequence[str], places: Sequence[int], act: str, label: str | None
) -> list[dict[str, Any]]:
    """A decision for each row: to keep, to accept (where a suggestion is clear), or one class."""
    if act not in ACTS:
        raise BadInput(f"labels can be decided by {', '.join(ACTS)}, not by {act!r}.")
    if act == "change" and label not in classes:
        raise BadInput(f"there is no class {label!r} in this run.")
    wishes, unclear = [], rows.unclear
    for place in places:
        given, suggested = classes[rows.given[place]], classes[rows.suggested[place]]
        name = {"keep": given, "accept": suggested}.get(act, label)
        if act == "accept" and (suggested == given or unclear[place]):
            continue
        kind = "keep" if name == given else "accept" if name == suggested else "change"
        wishes.append({"index": int(rows.index[place]), "decision": kind, "label": name})
    return wishes


def read_wish(body: Mapping[str, Any]) -> tuple[dict[str, str], str, str | None, int]:
    """What the page asks for: its filter, act, class, and how many labels it said there are."""
    values, act, label = body.get("filter"), body.get("act"), body.get("label")
    count = body.get("count")
    sound = isinstance(values, dict) and all(isinstance(v, str) for v in values.values())
    if not (sound and isinstance(act, str) and isinstance(count, int)):
        raise BadInput("expected a filter, an act and a count.")
    return dict(values or {}), act, label if isinstance(label, str) else None, count
