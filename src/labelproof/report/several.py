"""One joint report of several runs on the same rows: one for each column of a multi-label table."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import quote

from labelproof.csv_files import safe, write_csv
from labelproof.files import write_text
from labelproof.judging.label_table import LabelRows
from labelproof.judging.wording import filled_up
from labelproof.report.page import environment, styled, wrong_share
from labelproof.run_files import LABELS, REPORT
from labelproof.runs.folder import read_summary, read_task
from labelproof.runs.labels_file import read_rows

HEADER = ("column", "index", "id", "given", "suggested", "p_clean", "p_suggested", "suspect")


def write_joint(folder: Path, runs: Mapping[str, Path], data: str) -> Path:
    """Write labels.csv of all columns, the most suspicious first, and a report.html of links."""
    tables = {name: _rows(run) for name, run in runs.items()}
    _write_labels(folder / LABELS, tables)
    columns = [_line(name, run, *tables[name]) for name, run in runs.items()]
    template = environment().get_template("several.html")
    page = template.render(
        **styled(),
        name=data,
        columns=columns,
        notes=any(column["doubts"] for column in columns),
        several=_several(tables),
    )
    write_text(folder / REPORT, page)
    return folder / REPORT


def _rows(run: Path) -> tuple[LabelRows, Sequence[str]]:
    _, classes, size = read_task(run)
    return read_rows(run, classes, size), classes


def _line(name: str, run: Path, rows: LabelRows, classes: Sequence[str]) -> dict[str, Any]:
    """What the page says of one column."""
    summary = read_summary(run)
    filled = filled_up(summary)
    return {
        "name": name,
        "classes": ", ".join(f"{one} {int((rows.given == k).sum()):,}" for k, one in
                             enumerate(classes)),
        "suspects": int(rows.suspect.sum()) - filled,
        "filled": filled,
        "wrong": wrong_share(summary),
        "address": f"{quote(run.name)}/{REPORT}",
        "doubts": summary["doubts"],
    }  # fmt: skip


def _several(tables: Mapping[str, tuple[LabelRows, Sequence[str]]]) -> int:
    """How many examples are suspects in two columns or more."""
    listed = (rows.ids[place] for rows, _ in tables.values() for place in rows.suspects().tolist())
    return sum(count > 1 for count in Counter(listed).values())


def _numbers(tables: Mapping[str, tuple[LabelRows, Sequence[str]]]) -> dict[str, int]:
    """A number for each id: runs that left out other examples count them differently."""
    numbers: dict[str, int] = {}
    for rows, _ in tables.values():
        for name in rows.names():
            numbers.setdefault(name, len(numbers))
    return numbers


def _write_labels(path: Path, tables: Mapping[str, tuple[LabelRows, Sequence[str]]]) -> None:
    lines, index = [], _numbers(tables)
    for name, (rows, classes) in tables.items():
        for place in range(len(rows)):
            given, suggested = classes[rows.given[place]], classes[rows.suggested[place]]
            numbers = (rows.p_clean[place], rows.p_suggested[place])
            words = (safe(rows.ids[place]), safe(given), safe(suggested))
            texts = (f"{number:.6f}" for number in numbers)
            lines.append((numbers[0], (safe(name), index[rows.ids[place]], *words, *texts,
                                       int(rows.suspect[place]))))  # fmt: skip
    lines.sort(key=lambda line: line[0])
    write_csv(path, HEADER, (cells for _, cells in lines))
