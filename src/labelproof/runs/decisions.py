"""decisions.jsonl: what a person decided, a line a decision, only ever appended to.

A line is on disk before the page hears of it, so a kill loses nothing that was acknowledged. To
undo is to append a line too. A line cut short by a kill is set aside; a line edited by hand that
makes no sense is named, and the file is left as it is.
"""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal, TypeGuard, cast, get_args

from labelproof.errors import BadInput
from labelproof.run_files import DECISIONS
from labelproof.runs.journal import Journal

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


class NotSaved(OSError):
    """A decision could not be written; nothing of it stands."""


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
        raise BadInput(f"'label' is {label!r}, which is not a class of this run")
    elif kind == "keep" and label != given[index]:
        raise BadInput(f"it keeps {given[index]!r}, but names {label!r}")
    note = entry.get("note", "")
    if not isinstance(note, str) or len(note) > LONGEST_NOTE or SURROGATE.search(note):
        raise BadInput(f"'note' is not a text of at most {LONGEST_NOTE} characters")
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


KINDS: tuple[str, ...] = get_args(Kind)


@dataclass(frozen=True, kw_only=True)
class Known:
    """What a decision is checked against: the examples of the run and its classes."""

    ids: Sequence[str]  # by index of the example
    given: Sequence[str]  # names of the given classes, by index
    classes: frozenset[str]


class Decisions:
    """The decisions of a run: read from the file, and appended to it."""

    def __init__(self, known: Known, lines: Sequence[Line], journal: Journal | None = None) -> None:
        self.latest: dict[int, Decision] = {}  # what stands, by index
        self._known = known
        self._steps: dict[int, list[Decision]] = {}  # those not undone, in order
        self._stacks: dict[int, list[Decision]] = {}  # the same by index
        self._next = 1
        self._journal = journal
        self._lock = threading.Lock()
        for line in lines:
            self._take(line)

    def standing(self) -> dict[int, Decision]:
        """What stands now, by index; another thread may decide meanwhile."""
        with self._lock:
            return dict(self.latest)

    def labels(self) -> dict[int, str]:
        """The labels a person stands for, by index: kept, accepted or chosen."""
        return {i: d.label for i, d in self.standing().items() if d.label is not None}

    def removed(self) -> list[int]:
        """The examples that a person wants gone, by index."""
        return sorted(i for i, d in self.standing().items() if d.decision == "remove")

    def decide(self, wishes: Sequence[Mapping[str, Any]]) -> list[int]:
        """Take decisions as one step, and return the indices they concern.

        Args:
            wishes: Each with `index`, `decision` (keep, accept, change, skip or remove) and, but
                for the last two, `label`, the name of a class; a `note` where there is one.

        Raises:
            BadInput: If one of them makes no sense; then none is taken.
        """
        with self._lock:
            now = _now()
            lines = [self._decision(wish, self._next, now) for wish in wishes]
            self._append(lines)
            return [line.index for line in lines]

    def undo(self) -> list[int]:
        """Take back the last step that still stands; returns the indices it concerned."""
        with self._lock:
            if not self._steps:
                return []
            last = next(reversed(self._steps))
            touched = [line.index for line in self._steps[last]]
            self._append([Undo(step=self._next, undo=last, time=_now())])
            return touched

    def close(self) -> None:
        """Let another review have the file."""
        if self._journal:
            self._journal.close()

    def _decision(self, wish: Mapping[str, Any], step: int, now: str) -> Decision:
        index = wish.get("index")
        if not isinstance(index, int) or not 0 <= index < len(self._known.ids):
            raise BadInput(f"there is no example {index!r} in this run.")
        line = {
            "step": step,
            "index": index,
            "id": self._known.ids[index],
            "given": self._known.given[index],
            "decision": wish.get("decision"),
            "label": wish.get("label"),
            "note": wish.get("note") or "",
            "time": now,
        }
        found = parse(line, self._known.ids, self._known.given, self._known.classes)
        assert isinstance(found, Decision)
        return found

    def _append(self, lines: Sequence[Line]) -> None:
        """Onto the disk first, then into memory."""
        if self._journal is None:
            raise BadInput("these decisions were opened for reading only.")
        try:
            self._journal.append("".join(dump(line) for line in lines).encode())
        except OSError as error:
            raise NotSaved(*error.args) from error
        for line in lines:
            self._take(line)

    def _take(self, line: Line) -> None:
        self._next = max(self._next, line.step + 1)
        if isinstance(line, Decision):
            self._steps.setdefault(line.step, []).append(line)
            self._stacks.setdefault(line.index, []).append(line)
            self.latest[line.index] = line
            return
        for gone in self._steps.pop(line.undo):
            stack = self._stacks[gone.index]
            stack.remove(gone)
            self.latest.pop(gone.index)
            if stack:
                self.latest[gone.index] = stack[-1]


def read_decisions(folder: Path, known: Known) -> Decisions:
    """The decisions of a run, to look at.

    Raises:
        BadInput: If a line of the file is no decision of this run; the sentence names the line.
    """
    path = folder / DECISIONS
    if not path.exists():
        return Decisions(known, ())
    whole, torn = _split(path.read_bytes())
    return Decisions(known, list(_lines(path, whole + (torn if _complete(torn) else b""), known)))


def open_decisions(folder: Path, known: Known) -> Decisions:
    """The decisions of a run, to be added to; one review at a time.

    Raises:
        BadInput: As `read_decisions`, and if another review of this run is open.
    """
    path = folder / DECISIONS
    busy = f"{folder} is being reviewed already; use the page that is open, or end it first."
    journal = Journal(path, busy)
    try:
        whole, torn = _split(journal.content())
        lines = list(_lines(path, whole + (torn if _complete(torn) else b""), known))
        if _complete(torn):
            journal.append(b"\n")
        elif torn:
            with path.with_name(f"{DECISIONS}.torn").open("ab") as aside:
                aside.write(torn + b"\n")
            journal.cut(len(whole))
        return Decisions(known, lines, journal)
    except BaseException:
        journal.close()
        raise


def _split(content: bytes) -> tuple[bytes, bytes]:
    """Whole lines, and what follows the last line break."""
    end = content.rfind(b"\n") + 1
    return content[:end], content[end:]


def _complete(tail: bytes) -> bool:
    """Whether a last line without its line break is nevertheless all there."""
    try:
        return isinstance(json.loads(tail), dict)
    except (ValueError, RecursionError):
        return False


def _lines(path: Path, content: bytes, known: Known) -> Iterator[Line]:
    steps: set[int] = set()
    undone: set[int] = set()
    for number, raw in enumerate(content.split(b"\n"), 1):
        if not raw.strip():
            continue
        try:
            line = parse(json.loads(raw), known.ids, known.given, known.classes)
            if isinstance(line, Undo):
                if line.undo not in steps or line.undo in undone:
                    raise BadInput(f"there is no step {line.undo} to undo")
                undone.add(line.undo)
            else:
                steps.add(line.step)
        except (ValueError, RecursionError) as error:  # BadInput is one; so are those of json
            raise BadInput(
                f"line {number} of {path} is not a decision of this run ({error}); correct or "
                "delete that line. The file was left as it is."
            ) from None
        yield line


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")
