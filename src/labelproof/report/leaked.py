"""Test examples that are in the training data: by name, with what a report shows of each."""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from typing import Any

from labelproof.data.examples import Examples
from labelproof.data.task import Audit
from labelproof.report.example_view import Example, FromExamples, Picture, Shown, shorten
from labelproof.report.findings import Finding, finding_of

SHOWN = 8  # test examples of which health.json keeps the picture: nothing reads test data again
EDGE = 120
LETTERS = 200
Pair = tuple[int, int, float]  # test example, training example, distance


def leaks_finding(
    pairs: Sequence[Pair],
    size: int,
    audit: Audit,
    classes: Sequence[str],
    test: Examples | None,
) -> Finding:
    """The pairs, each with the name of its test example, the nearest first."""
    names = test.ids if test is not None else None
    entries: list[dict[str, Any]] = [
        {"index": b, "other": names[a] if names else f"test {a}", "score": d} for a, b, d in pairs
    ]
    shown = FromExamples(test) if test is not None else Shown()
    for entry, (row, _, _) in zip(entries[:SHOWN], pairs, strict=False):
        code = -1 if audit.test_y is None else int(audit.test_y[row])
        label = classes[code] if 0 <= code < len(classes) else ""
        entry["test"] = {"label": label, **_described(shown, row)}
    count = len({row for row, _, _ in pairs})
    return finding_of("test examples in training", entries, size, count)


def _described(shown: Shown, row: int) -> dict[str, Any]:
    """The text and the picture of a test example as plain values."""
    picture, text = shown.picture(row, EDGE), shown.text(row)
    drawn = picture and {
        "data": base64.b64encode(picture.data).decode(),
        "kind": picture.kind,
        "width": picture.width,
        "height": picture.height,
    }
    return {"text": shorten(text, LETTERS) if text else None, "picture": drawn}


def leaked_example(name: str, told: Mapping[str, Any]) -> Example:
    """The test example of an entry of health.json."""
    drawn = told.get("picture")
    picture = drawn and Picture(**{**drawn, "data": base64.b64decode(drawn["data"])})
    return Example(
        name=name if name.startswith("test ") else f"test example {name}",
        label=str(told.get("label") or "–"),
        picture=picture or None,
        text=told.get("text"),
    )
