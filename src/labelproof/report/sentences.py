"""The report in plain language: what was done, what was found, what to do next."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from labelproof.judging import wording
from labelproof.report.facts import ClassHealth, Facts

BAD_CLASS = 0.5  # share of suspects from which a class deserves a closer look


@dataclass(frozen=True, kw_only=True)
class Step:
    """Something to do, and the command that does it, if one does."""

    text: str
    command: str | None = None


def data_name(facts: Facts) -> str:
    """What the data is called."""
    reading, data = facts.record.get("spec") or {}, facts.record.get("data") or {}
    named = str(reading.get("data") or data.get("path") or data.get("source") or "data")
    return Path(named).name or named


def how(facts: Facts) -> list[str]:
    """What was trained on what, and why settings are as they are: for those who ask."""
    record, task = facts.record, facts.record["task"]
    judging = facts.summary["seconds_calibration"]
    took = _span(facts.summary["seconds"]) + (
        f", and judging the labels {_span(judging)}," if judging else ""
    )
    lines = [
        f"The method {record['method']} trained the network {record['net']} for "
        f"{many(len(facts.history), 'epoch')} on {facts.size:,} {_kind(record)} in "
        f"{many(len(task['classes']), 'class', 'classes')} ({data_name(facts)}). Training took "
        f"{took} on {record['device']}."
    ]
    if record.get("differs"):
        lines.append(f"Its settings for your own data are {record['differs']}.")
    return lines + [choice["why"] for choice in (record.get("chosen") or {}).values()]


def _span(seconds: float) -> str:
    return f"{seconds / 60:.0f} minutes" if seconds >= 120 else f"{max(1, seconds):.0f} s"


def done(facts: Facts) -> list[str]:
    """What a reader must know of how the labels came about."""
    record, lines = facts.record, []
    if record.get("noise"):
        noise = record["noise"]
        lines.append(
            f"This is a test run: {noise['realised']:.1%} of the labels were made wrong on "
            f"purpose ({noise['kind']} noise), and the method was not told which."
        )
    if record.get("reviewed"):
        lines.append(
            f"{many(record['reviewed']['count'], 'label')} had been confirmed or corrected by a "
            "person and stayed fixed."
        )
    gone = (record.get("reviewed") or {}).get("removed") or ()
    if gone:
        was = "was" if len(gone) == 1 else "were"
        lines.append(f"{many(len(gone), 'example')} removed by a person {was} left out.")
    return lines


def _kind(record: Mapping[str, Any]) -> str:
    """What the examples are."""
    task, data = record["task"], record.get("data") or {}
    if task["kind"] == "images":
        return f"images of {task['shape'][1]} × {task['shape'][0]} pixels"
    if "text" in (data.get("columns") or {}):
        return "texts"
    if data.get("source") in ("csv", "parquet", "jsonl", "excel"):
        return "rows of a table"
    return f"vectors of {many(task['shape'][0], 'number')}"


def many(count: int, one: str, more: str | None = None) -> str:
    """A number with its noun."""
    return f"{count:,} {one if count == 1 else more or one + 's'}"


def found(facts: Facts) -> list[str]:
    """What the run found, in sentences."""
    summary = {**facts.summary, "suspects": int(facts.rows.suspect.sum())}
    lines = wording.of_labels(summary, facts.size)
    truth = summary.get("suspect_detection")
    if truth and truth.get("precision") is not None and truth.get("recall") is not None:
        lines.append(
            f"Measured against the true labels: {truth['precision']:.1%} of the suspects are "
            f"wrong, and they include {truth['recall']:.1%} of all wrong labels."
        )
    lines.append(_accuracy(summary))
    return lines


def _accuracy(summary: Any) -> str:
    accuracy = summary.get("accuracy")
    if not accuracy:
        return "No test data was given, so the accuracy of the model is not known."
    error = summary["ece_calibrated"]
    calibration = (
        f". Its confidence differs from its accuracy by {100 * error:.1f} percentage points on "
        "average"
        if error is not None
        else ""
    )
    when = "" if wording.together(summary) else " after the last epoch"
    return (
        f"On test data the model is right for {accuracy['last']:.1%} of the examples{when}"
        f"{calibration}."
    )


def predicts(facts: Facts) -> str:
    """Which model predicts: the same as on screen."""
    joined = facts.summary.get("joined")
    return joined["why"] if joined else f"The method {facts.record['method']} predicts alone."


def next_steps(facts: Facts, classes: list[ClassHealth]) -> list[Step]:
    """What to do now, most useful first."""
    run = shlex.quote(str(facts.folder))
    suspects = int(facts.rows.suspect.sum())
    steps = []
    if facts.unreadable:
        steps.append(
            Step(text=f"Repair what could not be read ({many(len(facts.unreadable), 'file')}).")
        )
    conflicts = (facts.measured.get("duplicates") or {}).get("conflicting", 0)
    if conflicts:
        steps.append(
            Step(
                text="Correct identical inputs with different labels "
                f"({many(conflicts, 'group')}): at most one label of a group can be right."
            )
        )
    bad = [part.name for part in classes if part.given and part.suspects > BAD_CLASS * part.given]
    if bad:
        steps.append(
            Step(
                text=f"Check the definition of {_listed(bad)}: more than half of the labels there "
                "look wrong. A misunderstanding is a likelier cause than many separate "
                "mistakes."
            )
        )
    if suspects and wording.level(facts.summary) == "none":
        steps.append(
            Step(text="Check some labels yourself before you act: the suspects are only a guess.")
        )
    if suspects:
        steps += _review(facts, run, suspects)
    elif wording.level(facts.summary) == "none":
        steps.append(Step(text="Check some labels yourself: none of them could be judged."))
    else:
        steps.append(Step(text="No label stands out as wrong: use the model as it is."))
    if not facts.summary.get("accuracy"):
        steps.append(
            Step(text="Give test data with labels you trust (--test) to measure the accuracy.")
        )
    steps.append(Step(text="Use the model on new data.", command=f"labelproof predict {run} DATA"))
    return steps


def _review(facts: Facts, run: str, suspects: int) -> list[Step]:
    folder = Path(facts.folder)
    out = shlex.quote(str(folder.with_name(f"{folder.name}-reviewed")))
    return [
        Step(
            text=f"Review the {many(suspects, 'suspect')}: keep, accept the "
            "suggestion, or choose another class.",
            command=f"labelproof review {run}",
        ),
        Step(
            text="Fit again with the reviewed labels fixed and all other settings as in this run.",
            command=f"labelproof fit --from {run} --reviewed {run} --out {out}",
        ),
    ]


def _listed(names: list[str], most: int = 5) -> str:
    shown = [f"“{name}”" for name in names[:most]]
    more = len(names) - len(shown)
    if more:
        return f"{', '.join(shown)} and {more} more"
    return shown[0] if len(shown) == 1 else f"{', '.join(shown[:-1])} and {shown[-1]}"
