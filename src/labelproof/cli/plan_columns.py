"""What becomes of each column of a table: one line a column."""

from __future__ import annotations

from labelproof.data.encoders.columns import Column, TableEncoder
from labelproof.data.encoders.texts import AnyTexts
from labelproof.data.examples import Examples

SHOWN = 40  # columns listed one by one
ROLES = {
    "label": ("label", "the given label"),
    "truth": ("label", "true labels: for measuring alone"),
    "id": ("name", "names the rows"),
    "file": ("files", "pictures that are read"),
    "text": ("text", "turned into a vector"),
    "group": ("group", "examples that belong together"),
    "annotator": ("name", "who gave the label"),
}
KINDS = {"number": "number", "date": "date", "boolean": "yes/no", "category": "words"}
Line = tuple[str, str, str, str]  # column, kind, treatment, missing


def column_lines(examples: Examples) -> list[str]:
    """A header and a line for every column; nothing where the data is no table."""
    lines = [*_roles(examples), *_features(examples), *_left_out(examples)]
    if not isinstance(examples.encoder, TableEncoder | AnyTexts) or not lines:
        return []
    table = [("column", "kind", "what becomes of it", "missing"), *lines[:SHOWN]]
    widths = [max(len(line[place]) for line in table) for place in range(4)]
    shown = [
        ("  " + "  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)))
        for line in table
    ]
    more = [f"  and {len(lines) - SHOWN} more columns"] if len(lines) > SHOWN else []
    return ["Columns:", *(line.rstrip() for line in shown), *more]


def _roles(examples: Examples) -> list[Line]:
    columns = examples.about.get("columns") or {}
    return [(_cut(name), *ROLES[role], "") for role, name in columns.items() if role in ROLES]


def _features(examples: Examples) -> list[Line]:
    if not isinstance(examples.encoder, TableEncoder):
        return []
    missing, size = examples.about.get("missing") or {}, len(examples)
    return [
        (_cut(column.name), KINDS[column.kind], _treatment(column), _gaps(column, missing, size))
        for column in examples.encoder.columns
    ]


def _left_out(examples: Examples) -> list[Line]:
    dropped, used = dict(examples.about.get("left_out") or {}), set()
    if isinstance(examples.encoder, TableEncoder):
        dropped = {**examples.encoder.dropped, **dropped}
        used = {column.name for column in examples.encoder.columns}
    return [(_cut(name), "left out", why, "") for name, why in dropped.items() if name not in used]


def _treatment(column: Column) -> str:
    if column.kind == "category":
        values = f"{len(column.levels)} value{'s' * (len(column.levels) != 1)}"
        return f"a number for each of {values}, one for all others"
    if column.kind == "date":
        order = {None: "", True: ", day first", False: ", month first"}[column.day_first]
        return f"days, scaled{order}"
    return "scaled" if column.kind == "number" else "0 or 1, scaled"


def _gaps(column: Column, missing: dict[str, int], size: int) -> str:
    count = missing.get(column.name, 0)
    if not count:
        return "none"
    filled = "a value of their own" if column.kind == "category" else "the median, and marked"
    return f"{count} ({count / size:.0%}): {filled}"


def _cut(name: str) -> str:
    return name if len(name) <= 30 else name[:29] + "…"
