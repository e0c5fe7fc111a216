"""Suspects and decided labels for Label Studio and FiftyOne, with our suggestion and its score.

In tasks of Label Studio the suggestion is a prediction (a pre-annotation), a decision an
annotation; `config` is the labelling set-up that the tasks fit. Answers come back through
`labelproof.review.answers`.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import quote
from xml.sax.saxutils import quoteattr

from labelproof.errors import BadInput
from labelproof.files import write_json, write_text, written_whole
from labelproof.report.example_view import FromFiles, Shown, files_of
from labelproof.runs.reviewed import Reviewed

THUMBNAIL = 128  # edge of pictures inside tasks, where they are no files
LOCAL = "/data/local-files/?d="  # how Label Studio addresses files below its document root
CONTROL = "label"  # name of the choices


def write_tasks(review: Reviewed, out: Path, shown: Shown) -> None:
    """Write the tasks, the most suspicious label first."""
    with written_whole(out) as aside, aside.open("w", encoding="utf-8") as file:
        file.write("[")
        for number, task in enumerate(tasks(review, shown)):
            file.write((",\n" if number else "\n") + json.dumps(task, ensure_ascii=False))
        file.write("\n]\n")


def write_project(review: Reviewed, out: Path, shown: Shown) -> Path:
    """Write the tasks, and beside them the labelling set-up as .xml; returns its path."""
    write_tasks(review, out, shown)
    first = int(review.rows.index[0])
    kind = _target(_data(review, shown, first, review.rows.ids[0]))
    setup = out.with_suffix(".xml")
    write_text(setup, config(review.classes, kind))
    return setup


def config(classes: Sequence[str], kind: str) -> str:
    """The labelling set-up: one choice of these classes for each `image` or `text`."""
    tag = "Image" if kind == "image" else "Text"
    choices = "\n".join(f"    <Choice value={quoteattr(name)}/>" for name in classes)
    return (
        f'<View>\n  <{tag} name="{kind}" value="${kind}"/>\n'
        '  <Header value="Given label: $given"/>\n'
        f'  <Choices name="{CONTROL}" toName="{kind}" choice="single" showInline="true">\n'
        f"{choices}\n  </Choices>\n</View>\n"
    )


def tasks(review: Reviewed, shown: Shown) -> Iterator[dict[str, Any]]:
    """Suspects and decided labels, worst first, as tasks with annotations and predictions."""
    rows, classes, decided = review.rows, review.classes, review.decided()
    gone = set(review.decisions.removed())
    for place, index in enumerate(rows.index.tolist()):
        if index in gone or (not rows.suspect[place] and index not in decided):
            continue
        data = _data(review, shown, index, rows.ids[place])
        target = _target(data)
        guess = _choice(classes[rows.suggested[place]], target)
        task: dict[str, Any] = {
            "data": {**data, "index": index, "given": classes[rows.given[place]]},
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


def has_files(review: Reviewed) -> bool:
    """Whether examples are called by the names of picture files."""
    data = review.record.get("data") or {}
    columns = data.get("columns") or {}
    return "id" not in columns and (data.get("source") == "folder" or "file" in columns)


def below_fitted(review: Reviewed) -> str:
    """The folders between the fitted folder and its training pictures, such as `train/`."""
    data, fitted = review.record.get("data") or {}, (review.record.get("spec") or {}).get("data")
    if data.get("source") != "folder" or not fitted:
        return ""
    root, whole = Path(str(data.get("path", ""))), Path(str(fitted))
    if root == whole or not root.is_relative_to(whole):
        return ""
    return f"{root.relative_to(whole).as_posix()}/"


def _data(review: Reviewed, shown: Shown, index: int, name: str) -> dict[str, Any]:
    if has_files(review):
        return {"id": name, "image": f"{LOCAL}{quote(below_fitted(review) + name)}"}
    text = shown.text(index)
    if text is not None:
        return {"id": name, "text": text}
    picture = shown.picture(index, THUMBNAIL)
    return {"id": name, "image": picture.uri()} if picture else {"id": name, "text": name}


def _target(data: dict[str, Any]) -> str:
    return "image" if "image" in data else "text"


def _choice(name: str, target: str) -> dict[str, Any]:
    return {
        "from_name": CONTROL,
        "to_name": target,
        "type": "choices",
        "value": {"choices": [name]},
    }


REVIEWED = "reviewed"
SUSPECT = "suspect"


def write_samples(review: Reviewed, out: Path) -> None:
    """Write every example with its picture file, the most suspicious label first."""
    files = files_of(review.record, review.rows)
    if files is None:
        raise BadInput(
            "expected a run on picture files, which FiftyOne shows, but this run has none "
            "available; use --format label-studio or --format table."
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
