"""Answers that people gave elsewhere, read back as decisions.

Read are Label Studio's exports (JSON, JSON-MIN, CSV), the samples of FiftyOne after a
person changed them, our own tables with findings, where the columns `labelproof_decision` and
`labelproof_label` count, and any CSV or JSON lines with a column `index`, `id`, `file` or
`file_name` and a column `label`.
"""

from __future__ import annotations

import csv
import io
import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import unquote

from labelproof.csv_files import OWN_COLUMNS, long_cells, plain
from labelproof.data.readers.file_names import printable
from labelproof.errors import BadInput
from labelproof.files import read_regular
from labelproof.report.sentences import many
from labelproof.review.annotation_tools import CONTROL, LOCAL, REVIEWED, below_fitted
from labelproof.runs.reviewed import Reviewed

LARGEST = 2**30  # bytes
NAMES = ("id", "file", "file_name")
TRUE = (True, 1, "true", "True", "1")
DECISION, STANDS, GIVEN, SUGGESTED, PLACE = (
    OWN_COLUMNS + name for name in ("decision", "label", "given", "suggested", "index")
)


@dataclass(frozen=True, kw_only=True)
class Answer:
    """What one person said of one example; no label where they skipped or removed it."""

    index: int
    label: str | None
    removed: bool = False


@dataclass(frozen=True, kw_only=True)
class Answers:
    """The decisions that follow, and what could not be used."""

    wishes: Sequence[dict[str, Any]]  # as `Decisions.decide` takes them
    unchanged: int  # answers that say what is decided already
    notes: Sequence[str]


def import_answers(review: Reviewed, path: Path) -> Answers:
    """Read answers and add them to the decisions as one step."""
    found = read_answers(review, path)
    if found.wishes:
        review.decisions.decide(found.wishes)
    return found


def read_answers(review: Reviewed, path: Path) -> Answers:
    """The decisions that a file of answers asks for."""
    notes: list[str] = []
    records = list(_records(path))
    answers = list(_answers(review, records, notes))
    if not answers:
        if any(DECISION in record for record in records):
            notes.append(f"no row has a {DECISION} or another {STANDS} than it was exported with")
        why = f" ({notes[0]})" if notes else ""
        raise BadInput(
            f"expected answers about the examples of {review.folder} in {printable(path.name)}, "
            f"but there are none{why}; export the answers with the tasks of this run."
        )
    told = list(_wishes(review, answers, notes))
    wishes = [wish for wish in told if not _stands(review, wish)]
    return Answers(wishes=wishes, unchanged=len(told) - len(wishes), notes=notes)


def in_words(found: Answers) -> str:
    """What came of the answers, in a sentence or two."""
    kinds = Counter(wish["decision"] for wish in found.wishes)
    names = {"keep": "kept", "accept": "changed as suggested", "change": "changed otherwise",
             "skip": "skipped", "remove": "removed"}  # fmt: skip
    parts = ", ".join(f"{kinds[kind]:,} {name}" for kind, name in names.items() if kinds[kind])
    text = many(len(found.wishes), "new decision") + (f" ({parts})" if parts else "")
    return text + (f", {found.unchanged:,} already decided that way" if found.unchanged else "")


# --- files


def _records(path: Path) -> Iterator[dict[str, Any]]:
    """Plain records (index or name, label, reviewed, skipped) from any of the forms."""
    if not path.is_file():
        raise BadInput(f"expected a file of answers, but there is none at {path}; check the path.")
    content = read_regular(path, LARGEST)
    suffix = path.suffix.lower()
    try:
        if suffix in (".csv", ".tsv"):
            yield from _csv(content.decode("utf-8-sig"))
        elif suffix in (".jsonl", ".ndjson"):
            yield from _objects([json.loads(row) for row in content.splitlines() if row.strip()])
        elif suffix == ".json":
            yield from _json(json.loads(content))
        else:
            raise ValueError("its suffix is not .json, .jsonl, .csv or .tsv")
    except (ValueError, RecursionError, csv.Error) as error:
        raise BadInput(
            f"expected answers as .json, .jsonl or .csv in {printable(path.name)}, but they cannot "
            f"be read ({' '.join(str(error).split())[:120]}); export them again."
        ) from None


def _csv(text: str) -> Iterator[dict[str, Any]]:
    first = text.split("\n", 1)[0]
    delimiter = max(",;\t", key=first.count)
    with long_cells():
        rows = list(csv.DictReader(io.StringIO(text, newline=""), delimiter=delimiter))
    for row in rows:
        yield {name: plain(cell) for name, cell in row.items() if name and isinstance(cell, str)}


def _json(content: Any) -> Iterator[dict[str, Any]]:
    if isinstance(content, dict) and isinstance(content.get("samples"), list):
        yield from (_sample(entry) for entry in _objects(content["samples"]))
        return
    if not isinstance(content, list):
        raise ValueError("it is not a list of tasks and has no samples")
    for entry in _objects(content):
        if isinstance(entry.get("data"), dict):
            yield from _task(entry)
        else:
            yield entry


def _objects(entries: Sequence[Any]) -> Iterator[dict[str, Any]]:
    for entry in entries:
        if not isinstance(entry, dict):
            raise ValueError("an entry is not a JSON object")
        yield entry


def _task(task: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """A task of Label Studio: a record for each person's last answer."""
    last: dict[str, dict[str, Any]] = {}
    for annotation in _objects(task.get("annotations") or ()):
        who = annotation.get("completed_by")
        person = str(who.get("id") if isinstance(who, dict) else who)
        when = str(annotation.get("updated_at") or annotation.get("created_at") or "")
        before = last.get(person, {})
        if when >= str(before.get("updated_at") or before.get("created_at") or ""):
            last[person] = annotation
    for annotation in last.values():
        yield {
            **task["data"],
            "label": _choice(annotation.get("result")),
            "skipped": bool(annotation.get("was_cancelled")),
        }


def _choice(result: Any) -> Any:
    """The class chosen in an annotation; None where nothing was."""
    for region in result if isinstance(result, list) else ():
        if not isinstance(region, dict) or region.get("from_name") != CONTROL:
            continue
        value = region.get("value")
        chosen = value.get("choices") if isinstance(value, dict) else None
        if isinstance(chosen, list) and chosen:
            return chosen[0] if len(chosen) == 1 else {"choices": chosen}
    return None


def _sample(sample: Mapping[str, Any]) -> dict[str, Any]:
    """A sample of FiftyOne: an answer where it is tagged as reviewed or its label was changed."""
    given, label = sample.get("given"), sample.get("label")
    names = [one.get("label") if isinstance(one, dict) else None for one in (given, label)]
    tags = sample.get("tags")
    told = (isinstance(tags, list) and REVIEWED in tags) or names[0] != names[1]
    return {"index": sample.get("index"), "given": names[0], "label": names[1], "reviewed": told}


# --- answers


def _answers(
    review: Reviewed, records: Sequence[dict[str, Any]], notes: list[str]
) -> Iterator[Answer]:
    ids, given = review.ids(), review.rows.labels().tolist()
    by_name = {name: index for index, name in enumerate(ids)}
    folders = below_fitted(review)
    codes = review.codes()
    for entry in records:
        record = _finding(review, entry, notes) if DECISION in entry else entry
        skipped = record.get("skipped") is True
        label = _label(record.get(CONTROL))
        if (label is None and not skipped) or record.get("reviewed", True) not in TRUE:
            continue
        index = _index(record, by_name, len(ids), folders)
        told = record.get("given")
        if index is None or (told is not None and codes.get(str(told)) != given[index]):
            notes.append(f"not an example of this run: {_called(record)}")
        elif skipped:
            yield Answer(index=index, label=None, removed=record.get("removed") is True)
        elif label not in codes:
            notes.append(f"not a class of this run: {label!r} of {ids[index]}")
        else:
            yield Answer(index=index, label=label)


def _finding(review: Reviewed, row: Mapping[str, Any], notes: list[str]) -> dict[str, Any]:
    """A row of our own table as a record; without a label where it decides nothing.

    The user's columns may be called `label` or `index` too, so only ours are read, and the column
    that the run took its ids from.
    """
    columns = (review.record.get("data") or {}).get("columns") or {}
    own = columns.get("id") or columns.get("file")
    names = {"id": printable(str(row.get(own)))} if own else {n: row[n] for n in NAMES if n in row}
    given, suggested = _label(row.get(GIVEN)), _label(row.get(SUGGESTED))
    record = {"index": row.get(PLACE, ""), "given": given, **names}
    kind = str(row.get(DECISION) or "").strip().lower()
    label = _label(row.get(STANDS))
    changed = label if label != given else None
    if kind in ("skip", "remove"):
        return {**record, "skipped": True, "removed": kind == "remove"}
    labels = {"": changed, "keep": given, "accept": changed or suggested, "change": changed}
    if kind not in labels:
        notes.append(f"not a decision: {kind!r} of {_called(record)}")
    elif (kind == "keep" and changed) or (kind == "change" and not changed):
        other = "another" if changed else "no other"
        notes.append(f"left open, because {kind} stands beside {other} label: {_called(record)}")
    else:
        return {**record, CONTROL: labels[kind]}
    return record


def _label(value: Any) -> str | None:
    """The class as text; None where there is none. Several choices make a name that is no class."""
    if isinstance(value, dict) and isinstance(value.get("choices"), list):
        return " and ".join(map(str, value["choices"]))
    return None if value is None or str(value).strip() == "" else str(value)


def _index(
    record: Mapping[str, Any], by_name: Mapping[str, int], size: int, folders: str
) -> int | None:
    """The example of a record: by `index`, else by its name, else by its picture."""
    text = str(record.get("index", "")).removesuffix(".0")
    if text.isdigit():
        return int(text) if int(text) < size else None
    for name in NAMES:
        if str(record.get(name)) in by_name:
            return by_name[str(record[name])]
    image = str(record.get("image", ""))
    file = unquote(image.removeprefix(LOCAL)) if image.startswith(LOCAL) else ""
    return by_name.get(file.removeprefix(folders), by_name.get(file))


def _called(record: Mapping[str, Any]) -> str:
    names = (record.get(name) for name in ("index", *NAMES))
    return str(next((name for name in names if name not in (None, "")), "no name"))


def _wishes(
    review: Reviewed, answers: Sequence[Answer], notes: list[str]
) -> Iterator[dict[str, Any]]:
    """A decision for each example: what most people answered; ties are left open."""
    said: dict[int, Counter[str | None]] = {}
    for answer in answers:
        said.setdefault(answer.index, Counter())[answer.label] += 1
    gone = {answer.index for answer in answers if answer.removed}
    rows, classes, ids = review.rows, review.classes, review.ids()
    place = {index: number for number, index in enumerate(rows.index.tolist())}
    for index, counts in said.items():
        labels = Counter({name: n for name, n in counts.items() if name is not None})
        best = labels.most_common(2)
        if len(best) == 2 and best[0][1] == best[1][1]:
            notes.append(
                f"left open, because the answers differ: {ids[index]} ({best[0][0]} or "
                f"{best[1][0]})"
            )
            continue
        if not best:
            yield {"index": index, "decision": "remove" if index in gone else "skip"}
            continue
        label, row = best[0][0], place[index]
        kind = "keep" if label == classes[rows.given[row]] else "change"
        if kind == "change" and label == classes[rows.suggested[row]]:
            kind = "accept"
        yield {"index": index, "decision": kind, "label": label}


def _stands(review: Reviewed, wish: Mapping[str, Any]) -> bool:
    """Whether that is what the decisions say already."""
    now = review.decisions.latest.get(wish["index"])
    if now is None or now.label != wish.get("label"):
        return False
    return now.label is not None or now.decision == wish["decision"]
