"""One line of decisions.jsonl: what it may say, and how it is written."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal, TypeGuard, cast, get_args

from labelproof.errors import BadInput

Kind = Literal["keep", "accept", "change", "skip", "remove"]
LONGEST_NOTE = 2000  # letters
SURROGATE = re.compile("[\ud800-\udfff]")  # half a letter, which no file can hold


@dataclass(frozen=True, kw_only=True)
class Decision:
    """What a person said of one label."""

    step: int  # decisions of one step are undone together
    index: int
    id: str
    given: str
    decision: Kind
    label: str | None  # the class that stands; None when skipped or removed
    time: str
    note: str = ""  # what the person wrote beside it


@dataclass(frozen=True, kw_only=True)
class Undo:
    """An earlier step taken back."""

    step: int
    undo: int
    time: str


Line = Decision | Undo


def dump(line: Line) -> str:
    """The line as text."""
    content = {key: value for key, value in asdict(line).items() if (key, value) != ("note", "")}
    return json.dumps(content, ensure_ascii=False) + "\n"


def parse(
    entry: Any, ids: Sequence[str], given: Sequence[str], classes: frozenset[str]
) -> Decision | Undo:
    """Check one entry.

    Raises:
        BadInput: With the reason as half a sentence.
    """
    if not isinstance(entry, dict):
        raise BadInput("not a JSON object")
    step, time = entry.get("step"), str(entry.get("time", ""))
    if not _is_number(step) or step < 1:
        raise BadInput(f"'step' is {step!r}, not a number from 1 on")
    if "undo" in entry:
        if not _is_number(entry["undo"]):
            raise BadInput(f"'undo' is {entry['undo']!r}, not the number of a step")
        return Undo(step=step, undo=entry["undo"], time=time)
    index = entry.get("index")
    if not _is_number(index) or not 0 <= index < len(ids):
        raise BadInput(f"'index' is {index!r}, not an example of 0 to {len(ids) - 1}")
    if entry.get("id") != ids[index] or entry.get("given") != given[index]:
        raise BadInput(
            f"example {index} is {ids[index]!r} labelled {given[index]!r}, but the line says "
            f"{entry.get('id')!r} labelled {entry.get('given')!r}"
        )
    kind, label = entry.get("decision"), entry.get("label")
    if kind not in get_args(Kind):
        raise BadInput(f"'decision' is {kind!r}, not one of {', '.join(get_args(Kind))}")
    if kind in ("skip", "remove"):
        label = None
    elif not isinstance(label, str) or label not in classes:
        raise BadInput(f"'label' is {label!r}, which is no class of this run")
    elif kind == "keep" and label != given[index]:
        raise BadInput(f"it keeps {given[index]!r}, but names {label!r}")
    note = entry.get("note", "")
    if not isinstance(note, str) or len(note) > LONGEST_NOTE or SURROGATE.search(note):
        raise BadInput(f"'note' is no text of at most {LONGEST_NOTE} letters")
    return Decision(
        step=step,
        index=index,
        id=ids[index],
        given=given[index],
        decision=cast(Kind, kind),
        label=label,
        time=time,
        note=note,
    )


def _is_number(value: Any) -> TypeGuard[int]:
    return isinstance(value, int) and not isinstance(value, bool)
