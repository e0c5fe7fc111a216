"""Which labels the page shows: filtered and in pages, worst first.

A page starts after a place of labels.csv rather than after so many rows, so that it neither skips
nor repeats labels while decisions change what the filter lets through. All that a filter lets
through can be decided at once, as one step.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, cast, get_args

import numpy as np
import numpy.typing as npt

from labelproof.errors import BadInput
from labelproof.judging.label_table import Codes, LabelRows
from labelproof.runs.decisions import Decision
from labelproof.runs.reviewed import Reviewed

Scope = Literal["suspects", "all"]
Order = Literal["suspicion", "gain"]
Status = Literal["open", "decided", "skipped", "any"]
OPEN, DECIDED, SKIPPED = 0, 1, 2
LARGEST_PAGE = 200
ACTS = ("keep", "accept", "change")
MOST = 100_000  # labels at once


@dataclass(frozen=True, kw_only=True)
class Query:
    """A filter, and where the page starts."""

    scope: Scope = "suspects"
    status: Status = "any"
    given: int | None = None
    suggested: int | None = None
    least: float = 0.0  # confidence in the suggestion
    most: float = 1.0
    start: int = 0  # the first place that may be shown
    before: int | None = None  # with this, the last page before a place
    limit: int = 50
    order: Order = "suspicion"


def parse_query(values: Mapping[str, str], classes: Mapping[str, int]) -> Query:
    """A query from the address of a request; unknown words are refused."""
    scope, status = values.get("scope", "suspects"), values.get("status", "any")
    order = values.get("order", "suspicion")
    if order not in get_args(Order):
        raise BadInput(f"there is no order {order!r}; use suspicion or gain.")
    if scope not in get_args(Scope) or status not in get_args(Status):
        raise BadInput(f"there is no filter {scope!r} or {status!r}.")
    try:
        return Query(
            scope=cast(Scope, scope),
            status=cast(Status, status),
            given=_class(values.get("given"), classes),
            suggested=_class(values.get("suggested"), classes),
            least=_share(values.get("least"), 0.0),
            most=_share(values.get("most"), 1.0),
            start=_place(values.get("start")) or 0,
            before=_place(values.get("before")),
            limit=min(max(int(values.get("limit") or 50), 1), LARGEST_PAGE),
            order=cast(Order, order),
        )
    except ValueError as error:
        raise BadInput(f"the filter cannot be read ({error}).") from None


def _share(text: str | None, otherwise: float) -> float:
    value = float(text) if text else otherwise
    if not 0 <= value <= 1:  # NaN fails too
        raise ValueError(f"{text} is not a number from 0 to 1")
    return value


def _place(text: str | None) -> int | None:
    value = int(text) if text else None
    if value is not None and not 0 <= value <= 2**40:
        raise ValueError(f"{text} is not a position")
    return value


def _class(name: str | None, classes: Mapping[str, int]) -> int | None:
    if not name:
        return None
    if name not in classes:
        raise ValueError(f"no class {name!r}")
    return classes[name]


class Queue:
    """The labels of a run with the state of their review."""

    def __init__(
        self,
        rows: LabelRows,
        latest: Mapping[int, Decision],
        by_gain: Codes | None = None,
        by_suspicion: Codes | None = None,  # where not the order of the rows
    ) -> None:
        self.rows = rows
        whole = np.arange(len(rows))
        self._orders = {
            "suspicion": whole if by_suspicion is None else by_suspicion,
            "gain": whole if by_gain is None else by_gain,
        }
        self._at = {name: np.argsort(order) for name, order in self._orders.items()}
        self._place = np.empty(len(rows), dtype=np.int64)
        self._place[rows.index] = np.arange(len(rows))
        self._ranks = {
            name: np.cumsum(rows.suspect[order])[self._at[name]]
            for name, order in self._orders.items()
        }
        self._suspects = int(rows.suspect.sum())
        self._status = np.zeros(len(rows), dtype=np.int8)
        for index, decision in latest.items():
            self.mark(index, decision)

    def mark(self, index: int, decision: Decision | None) -> None:
        """Note what now stands of an example."""
        skipped = decision is not None and decision.decision == "skip"
        kind = OPEN if decision is None else SKIPPED if skipped else DECIDED
        self._status[self._place[index]] = kind

    def rank(self, place: int) -> tuple[dict[str, int], int]:
        """Which of how many a label is, in each order: of the suspects, or of all labels."""
        if not self.rows.suspect[place]:
            return {name: number + 1 for name, number in self.at(place).items()}, len(self.rows)
        numbers = {name: int(ranks[place]) for name, ranks in self._ranks.items()}
        return numbers, self._suspects

    def place(self, index: int) -> int:
        """Where an example stands in labels.csv."""
        return int(self._place[index])

    def at(self, place: int) -> dict[str, int]:
        """Where a row of labels.csv stands in each order; pages start and end there."""
        return {name: int(at[place]) for name, at in self._at.items()}

    def page(self, query: Query) -> tuple[list[int], int]:
        """Places of one page, and how many labels the filter lets through in all."""
        order = self._orders[query.order]
        found = np.flatnonzero(self._mask(query)[order])
        if query.before is not None:
            end = int(np.searchsorted(found, query.before))
            return order[found[max(0, end - query.limit) : end]].tolist(), len(found)
        first = int(np.searchsorted(found, query.start))
        return order[found[first : first + query.limit]].tolist(), len(found)

    def progress(self) -> dict[str, int]:
        """Suspects in all, decided and skipped ones, and all decisions."""
        of_suspects = self._status[self.rows.suspect]
        return {
            "suspects": len(of_suspects),
            "decided": int((of_suspects == DECIDED).sum()),
            "skipped": int((of_suspects == SKIPPED).sum()),
            "reviewed": int((self._status == DECIDED).sum()),
        }

    def _mask(self, query: Query) -> npt.NDArray[np.bool_]:
        rows = self.rows
        mask = rows.suspect.copy() if query.scope == "suspects" else np.ones(len(rows), dtype=bool)
        if query.status != "any":
            mask &= (
                self._status == {"open": OPEN, "decided": DECIDED, "skipped": SKIPPED}[query.status]
            )
        mask &= _is(rows.given, query.given) & _is(rows.suggested, query.suggested)
        if query.least > 0 or query.most < 1:
            mask &= (rows.p_suggested >= query.least) & (rows.p_suggested <= query.most)
        return mask


def _is(column: Codes, wanted: int | None) -> npt.NDArray[np.bool_] | np.bool_:
    return np.bool_(True) if wanted is None else column == wanted


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
