"""Samples for FiftyOne: a JSON file whose entries `fiftyone.Sample.from_dict` reads.

Fields of a sample: `given`, `suggested` (with its confidence), `label` (what stands now: decided,
or else given), `p_clean`, `index`; the tags `suspect` and `reviewed`.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from labelproof.errors import BadInput
from labelproof.files import write_json
from labelproof.report.example_view import FromFiles, files_of
from labelproof.runs.reviewed import Reviewed

REVIEWED = "reviewed"
SUSPECT = "suspect"


def write_samples(review: Reviewed, out: Path) -> None:
    """Write every example with its picture file, the most suspicious label first.

    Raises:
        BadInput: If the examples are no picture files, or the files are not at hand.
    """
    files = files_of(review.record, review.rows)
    if files is None:
        raise BadInput(
            "expected a run on picture files, which FiftyOne shows, but this run has none at hand; "
            "use --format label-studio or --format table."
        )
    write_json(out, {"classes": review.classes, "samples": list(samples(review, files))})


def samples(review: Reviewed, files: FromFiles) -> Iterator[dict[str, Any]]:
    """The samples; examples that a person removed are left out."""
    rows, classes, decided = review.rows, review.classes, review.decided()
    gone = set(review.decisions.removed())
    for place, index in enumerate(rows.index.tolist()):
        path = files.path(index)
        if index in gone or path is None:
            continue
        tags = [SUSPECT] * bool(rows.suspect[place]) + [REVIEWED] * (index in decided)
        given, suggested = int(rows.given[place]), int(rows.suggested[place])
        sure = round(float(rows.p_suggested[place]), 6)
        yield {
            "filepath": str(path.absolute()),
            "tags": tags,
            "index": index,
            "given": _classification(classes[given]),
            "suggested": {**_classification(classes[suggested]), "confidence": sure},
            "label": _classification(classes[decided.get(index, given)]),
            "p_clean": round(float(rows.p_clean[place]), 6),
        }


def _classification(label: str) -> dict[str, Any]:
    return {"_cls": "Classification", "label": label}
