"""Corrected labels as a file: what its suffix asks for, in the form of the input where it can be.

.csv gives the input's own table with corrected labels, or `file,label` of a folder of pictures;
.npy an array of labels; .jsonl a line an example, as Hugging Face's `load_dataset("json")` reads
it; .json tasks for Label Studio: the suspects and all that was decided.
"""

from __future__ import annotations

import csv
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import numpy as np

from labelproof.csv_cells import safe
from labelproof.errors import BadInput
from labelproof.files import written_whole
from labelproof.report.example_view import Nothing, Shown
from labelproof.review import forms
from labelproof.runs.reviewed import Reviewed

THUMBNAIL = 128  # edge of pictures inside Label Studio tasks, where they are no files


def export(review: Reviewed, out: Path, shown: Shown | None = None) -> None:
    """Write the corrected labels of a run.

    Args:
        review: The run with its decisions.
        out: The new file; its suffix decides the form.
        shown: Shows examples, for texts and pictures in Label Studio tasks.

    Raises:
        BadInput: If there is no such form, or the data the form needs is gone.
    """
    if not out.parent.is_dir():
        raise BadInput(f"there is no folder {out.parent} for {out.name}; make it first.")
    _spare_input(review, out)
    writers: dict[str, Callable[[], None]] = {
        ".json": lambda: _write_label_studio(review, out, shown or Nothing()),
        ".jsonl": lambda: _write_lines(review, out),
        ".npy": lambda: _write_array(review, out),
        **dict.fromkeys(
            (".csv", ".tsv", ".txt", ".parquet", ".pq"), lambda: _write_table(review, out)
        ),
    }
    suffix = out.suffix.lower()
    if suffix not in writers:
        raise BadInput(
            f"expected a file ending in .csv, .npy, .parquet, .json or .jsonl, but {out.name} "
            "came; choose one of these."
        )
    writers[suffix]()


def usual_suffix(review: Reviewed) -> str:
    """The suffix of the form that is most like the input."""
    data = review.record.get("data") or {}
    return {"npz": ".npy", "parquet": ".parquet"}.get(data.get("source", ""), ".csv")


def in_words(review: Reviewed) -> str:
    """How many labels were decided, and changed, and how many examples removed."""
    decided, gone = review.decided(), len(review.decisions.removed())
    changed = sum(review.rows.labels()[index] != code for index, code in decided.items())
    removed = f", {gone:,} examples removed" if gone else ""
    return f"{len(decided):,} labels reviewed, {changed:,} of them changed{removed}"


def _spare_input(review: Reviewed, out: Path) -> None:
    data = review.record.get("data") or {}
    for source in (data.get("path"), data.get("labels")):
        if source and Path(source).exists() and out.exists() and out.samefile(source):
            raise BadInput(f"{out} is the data itself; name a new file for the corrected labels.")


def _write_table(review: Reviewed, out: Path) -> None:
    table = forms.table_of(review.record)
    if table is not None:
        forms.write_table(review, table, out)
        return
    if out.suffix.lower() in (".parquet", ".pq"):
        raise BadInput(
            "only labels that came from a Parquet table can be written as one; use .csv."
        )
    name = "file" if _files(review) else "id"
    labels, classes = review.corrected().tolist(), review.classes
    with written_whole(out) as aside, aside.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow((name, "label"))
        gone = set(review.decisions.removed())
        pairs = enumerate(zip(review.ids(), labels, strict=True))
        kept = (pair for index, pair in pairs if index not in gone)
        writer.writerows((safe(one), safe(classes[code])) for one, code in kept)


def _write_array(review: Reviewed, out: Path) -> None:
    data = review.record.get("data") or {}
    if data.get("source") == "npz" and data.get("path"):
        forms.write_npz_labels(review, Path(data["path"]), data.get("label_key", "y"), out)
        return
    classes = review.classes
    gone = set(review.decisions.removed())
    labels = enumerate(review.corrected().tolist())
    names = [classes[code] for index, code in labels if index not in gone]
    whole = all(name.isdigit() for name in classes)
    forms.save_array(np.array(names, dtype=np.int64 if whole else np.str_), out)


def _write_lines(review: Reviewed, out: Path) -> None:
    with written_whole(out) as aside, aside.open("w", encoding="utf-8") as file:
        for entry in _entries(review):
            file.write(json.dumps(entry, ensure_ascii=False) + "\n")


def _entries(review: Reviewed) -> Iterator[dict[str, Any]]:
    """Every example with its corrected label, in order."""
    name = "file_name" if _files(review) else "id"
    given, labels, classes = review.rows.labels(), review.corrected(), review.classes
    decided, gone = review.decided(), set(review.decisions.removed())
    for index, one in enumerate(review.ids()):
        if index in gone:
            continue
        yield {
            name: one,
            "label": classes[labels[index]],
            "label_id": int(labels[index]),
            "given": classes[given[index]],
            "reviewed": index in decided,
        }


def _write_label_studio(review: Reviewed, out: Path, shown: Shown) -> None:
    with written_whole(out) as aside, aside.open("w", encoding="utf-8") as file:
        file.write("[")
        for number, task in enumerate(_tasks(review, shown)):
            file.write((",\n" if number else "\n") + json.dumps(task, ensure_ascii=False))
        file.write("\n]\n")


def _tasks(review: Reviewed, shown: Shown) -> Iterator[dict[str, Any]]:
    """Suspects and decided labels, worst first, as tasks with annotations and predictions."""
    rows, classes, decided = review.rows, review.classes, review.decided()
    for place, index in enumerate(rows.index.tolist()):
        if not rows.suspect[place] and index not in decided:
            continue
        data = _data(review, shown, index, rows.ids[place])
        target = "image" if "image" in data else "text"
        guess = _choice(classes[rows.suggested[place]], target)
        task: dict[str, Any] = {
            "data": {**data, "given": classes[rows.given[place]]},
            "predictions": [
                {
                    "model_version": f"labelproof {review.record['method']}",
                    "score": round(float(rows.p_suggested[place]), 6),
                    "result": [guess],
                }
            ],
        }
        if index in decided:
            task["annotations"] = [{"result": [_choice(classes[decided[index]], target)]}]
        yield task


def _data(review: Reviewed, shown: Shown, index: int, name: str) -> dict[str, Any]:
    if _files(review):
        return {"id": name, "image": f"/data/local-files/?d={quote(name)}"}
    text = shown.text(index)
    if text is not None:
        return {"id": name, "text": text}
    picture = shown.picture(index, THUMBNAIL)
    return {"id": name, "image": picture.uri()} if picture else {"id": name, "text": name}


def _choice(name: str, target: str) -> dict[str, Any]:
    return {
        "from_name": "label",
        "to_name": target,
        "type": "choices",
        "value": {"choices": [name]},
    }


def _files(review: Reviewed) -> bool:
    """Whether examples are called by the names of picture files."""
    data = review.record.get("data") or {}
    columns = data.get("columns") or {}
    return data.get("source") == "folder" or ("file" in columns and "id" not in columns)
