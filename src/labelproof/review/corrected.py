"""Corrected labels as a file: what its suffix asks for, in the form of the input where it can be.

.csv gives the input's own table with corrected labels, or `file,label` of a folder of pictures;
.npy an array of labels; .jsonl a line an example, as Hugging Face's `load_dataset("json")` reads
it; .json tasks for Label Studio: the suspects and all that was decided.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from labelproof.csv_files import safe, write_csv
from labelproof.errors import BadInput
from labelproof.files import written_whole
from labelproof.report.example_view import Shown
from labelproof.report.sentences import many
from labelproof.review import corrected_file
from labelproof.review.annotation_tools import has_files, write_tasks
from labelproof.runs.reviewed import Reviewed


def export(review: Reviewed, out: Path, shown: Shown | None = None) -> None:
    """Write the corrected labels of a run in the form that the suffix of `out` names."""
    check_out(review, out)
    writers: dict[str, Callable[[], None]] = {
        ".json": lambda: write_tasks(review, out, shown or Shown()),
        ".jsonl": lambda: _write_lines(review, out),
        ".npy": lambda: _write_array(review, out),
        **dict.fromkeys(
            (".csv", ".tsv", ".txt", ".parquet", ".pq"), lambda: _write_table(review, out)
        ),
    }
    suffix = out.suffix.lower()
    if suffix not in writers:
        raise BadInput(
            "expected a file ending in .csv, .npy, .parquet, .json or .jsonl, but got "
            f"{out.name}; choose one of these."
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
    removed = f", {many(gone, 'example')} removed" if gone else ""
    return f"{many(len(decided), 'label')} reviewed, {changed:,} of them changed{removed}"


def check_out(review: Reviewed, out: Path) -> None:
    """Refuse a file that has no folder, or that is the data itself."""
    if not out.parent.is_dir():
        raise BadInput(f"there is no folder {out.parent} for {out.name}; make it first.")
    data = review.record.get("data") or {}
    for source in (data.get("path"), data.get("labels")):
        if source and Path(source).exists() and out.exists() and out.samefile(source):
            raise BadInput(f"{out} is the data itself; name a new file for the corrected labels.")


def _write_table(review: Reviewed, out: Path) -> None:
    table = None if review.voted else corrected_file.table_of(review.record)
    if table is not None:
        corrected_file.write_table(review, table, out)
        return
    if out.suffix.lower() in (".parquet", ".pq"):
        raise BadInput(
            "only labels that came from a Parquet table can be written as one; use .csv."
        )
    name = "file" if has_files(review) else "id"
    labels, classes = review.corrected().tolist(), review.classes
    gone = set(review.decisions.removed())
    pairs = enumerate(zip(review.ids(), labels, strict=True))
    kept = (pair for index, pair in pairs if index not in gone)
    write_csv(out, (name, "label"), ((safe(one), safe(classes[code])) for one, code in kept))


def _write_array(review: Reviewed, out: Path) -> None:
    data = review.record.get("data") or {}
    if data.get("source") == "npz" and data.get("path") and not review.voted:
        corrected_file.write_npz_labels(review, Path(data["path"]), data.get("label_key", "y"), out)
        return
    classes = review.classes
    gone = set(review.decisions.removed())
    labels = enumerate(review.corrected().tolist())
    names = [classes[code] for index, code in labels if index not in gone]
    whole = all(name.isdigit() for name in classes)
    corrected_file.save_array(np.array(names, dtype=np.int64 if whole else np.str_), out)


def _write_lines(review: Reviewed, out: Path) -> None:
    with written_whole(out) as aside, aside.open("w", encoding="utf-8") as file:
        for entry in _entries(review):
            file.write(json.dumps(entry, ensure_ascii=False) + "\n")


def _entries(review: Reviewed) -> Iterator[dict[str, Any]]:
    """Every example with its corrected label, in order."""
    name = "file_name" if has_files(review) else "id"
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
