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
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

from labelproof.errors import BadInput
from labelproof.run_files import DECISIONS
from labelproof.runs.journal import Journal

Kind = Literal["keep", "accept", "change", "skip", "remove"]
Step = Annotated[int, Meta(ge=1)]
LONGEST_NOTE = 2000  # letters
SURROGATE = re.compile("[\ud800-\udfff]")  # half a letter, which no file can hold


@dataclass(frozen=True, kw_only=True)
class Decision:
    """What a person said of one label."""

    step: Step  # decisions of one step are undone together
    index: Annotated[int, Meta(ge=0)]
    id: str
    given: str
    decision: Kind
    label: str | None = None  # the class that stands; None when skipped or removed
    time: str = ""
    note: Annotated[str, Meta(max_length=LONGEST_NOTE)] = ""  # what the person wrote beside it


@dataclass(frozen=True, kw_only=True)
class Undo:
    """An earlier step taken back."""

    step: Step
    undo: int
    time: str = ""


Line = Decision | Undo


class NotSaved(OSError):
    """A decision could not be written; nothing of it stands."""


def dump(line: Line) -> str:
    """The line as text."""
    content = {key: value for key, value in asdict(line).items() if (key, value) != ("note", "")}
    return json.dumps(content, ensure_ascii=False) + "\n"


@dataclass(frozen=True, kw_only=True)
class Known:
    """What a decision is checked against: the examples of the run and its classes."""

    ids: Sequence[str]  # by index of the example
    given: Sequence[str]  # names of the given classes, by index
    classes: frozenset[str]


def parse(entry: Any, known: Known) -> Line:
    """Check one entry.

    Raises:
        BadInput: With the reason as half a sentence.
    """
    undo = isinstance(entry, dict) and "undo" in entry
    try:
        line = msgspec.convert(entry, Undo) if undo else msgspec.convert(entry, Decision)
    except msgspec.ValidationError as error:
        raise BadInput(str(error)) from None
    if isinstance(line, Undo):
        return line
    if line.index >= len(known.ids):
        raise BadInput(f"'index' is {line.index}, not an example of 0 to {len(known.ids) - 1}")
    name, given = known.ids[line.index], known.given[line.index]
    if (line.id, line.given) != (name, given):
        raise BadInput(
            f"example {line.index} is {name!r} labelled {given!r}, but the line says "
            f"{line.id!r} labelled {line.given!r}"
        )
    if SURROGATE.search(line.note):
        raise BadInput("'note' is not a text")
    if line.decision in ("skip", "remove"):
        return replace(line, label=None)
    if line.label not in known.classes:
        raise BadInput(f"'label' is {line.label!r}, which is not a class of this run")
    if line.decision == "keep" and line.label != given:
        raise BadInput(f"it keeps {given!r}, but names {line.label!r}")
    return line


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
        found = parse(line, self._known)
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
    whole, _ = _split(path.read_bytes())
    return Decisions(known, list(_lines(path, whole, known)))


def open_decisions(folder: Path, known: Known) -> Decisions:
    """The decisions of a run, to be added to; one review at a time.

    Raises:
        BadInput: As `read_decisions`, and if another review of this run is open.
    """
    path = folder / DECISIONS
    busy = f"{folder} is being reviewed already; use the page that is open, or end it first."
    journal = Journal(path, busy)
    try:
        content = journal.content()
        whole, torn = _split(content)
        lines = list(_lines(path, whole, known))
        if torn:
            with path.with_name(f"{DECISIONS}.torn").open("ab") as aside:
                aside.write(torn + b"\n")
            journal.cut(len(whole))
        elif whole != content:
            journal.append(b"\n")
        return Decisions(known, lines, journal)
    except BaseException:
        journal.close()
        raise


def _split(content: bytes) -> tuple[bytes, bytes]:
    """Whole lines, and the beginning of one that was cut short.

    A last line that only lacks its line break is all there.
    """
    end = content.rfind(b"\n") + 1
    try:
        if isinstance(json.loads(content[end:]), dict):
            return content + b"\n", b""
    except (ValueError, RecursionError):
        pass
    return content[:end], content[end:]


def _lines(path: Path, content: bytes, known: Known) -> Iterator[Line]:
    steps: set[int] = set()
    undone: set[int] = set()
    for number, raw in enumerate(content.split(b"\n"), 1):
        if not raw.strip():
            continue
        try:
            line = parse(json.loads(raw), known)
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
