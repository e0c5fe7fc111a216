"""`labelproof fit`: train on the user's data and judge every label."""

from __future__ import annotations

import shlex
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import torch
from rich.console import Console

from labelproof import pipeline
from labelproof.cli.multilabel import runs_of
from labelproof.cli.plan_lines import run_line, scratch_lines
from labelproof.cli.read_data import read
from labelproof.errors import Note
from labelproof.judging import wording
from labelproof.report.facts import read_history
from labelproof.report.sentences import many
from labelproof.report.several import write_joint
from labelproof.run_files import LABELS, REPORT, RUN
from labelproof.runs import folder as runfolder
from labelproof.runs.forecast import Forecast, forecast
from labelproof.runs.prepare import Assembled
from labelproof.runs.spec import RunSpec
from labelproof.training import ranks
from labelproof.training.log import reporter_for
from labelproof.training.ranks import Ranks

PATIENCE, MEASURED = 3.0, 256  # seconds and examples for telling how long a run takes


def fit_spec(
    spec: RunSpec,
    *,
    command: tuple[str, ...],
    multilabel: list[str] | None = None,
    resume: bool = False,
) -> None:
    """Carry out a spec and say what was found; `command` is for the record of the run."""
    with ranks.joined(device=spec.device) as here:
        spec = replace(spec, out=ranks.from_first(lambda: spec.out or _usual_folder(spec)))
        if multilabel:
            _fit_columns(spec, multilabel, command, resume, here)
        else:
            _fit_one(spec, command, resume, here)


def _fit_columns(
    spec: RunSpec, wanted: list[str], command: tuple[str, ...], resume: bool, here: Ranks
) -> None:
    """A run for each column of a table with several labels an example, and one report."""
    assert spec.out is not None
    console = Console(soft_wrap=True, highlight=False, quiet=not here.first)
    specs = runs_of(spec, wanted, spec.out)
    for number, (name, one) in enumerate(specs.items(), 1):
        console.print(f"Column {name} ({number} of {len(specs)})")
        _fit_one(one, command, resume, here)
    if here.first:
        runs = {name: Path(str(one.out)) for name, one in specs.items()}
        page = write_joint(spec.out, runs, Path(str(spec.data)).name)
        console.print(f"All {len(runs)} columns together: {page}")


def _fit_one(spec: RunSpec, command: tuple[str, ...], resume: bool, here: Ranks) -> None:
    assert spec.out is not None
    folder = spec.out
    console = Console(soft_wrap=True, highlight=False)
    if not (resume and ranks.from_first(lambda: runfolder.finished(spec))):
        _run(spec, command, resume, here)
    elif here.first:
        runfolder.tidy(folder)
        console.print(f"{folder} is already finished; nothing was trained.")
    if here.first:
        console.print(in_words(folder))


def _usual_folder(spec: RunSpec) -> Path:
    usual = Path("runs") / f"{Path(str(spec.data)).stem}-{spec.trained}"
    free = runfolder.free_name(usual)
    if free != usual:
        console = Console(stderr=True, soft_wrap=True, highlight=False)
        console.print(f"{usual} exists; writing {free} instead.", markup=False)
    return free


def _run(spec: RunSpec, command: tuple[str, ...], resume: bool, here: Ranks) -> None:
    """Carry out the spec; Ctrl-C says how to go on. One of several processes speaks."""
    console = Console(stderr=True, quiet=not here.first)
    if here.first and spec.out:
        runfolder.check_free(spec.out, resume)  # reading the data may take long
        for note in _notes(spec.out, here) if resume else ():
            console.print(f"note: {note}", highlight=False, soft_wrap=True)
    try:
        given = ranks.in_turn(lambda: read(spec, console))
        given = replace(given, command=command)
        with _shown_notes(console):
            pipeline.run(
                spec,
                given,
                resume=resume,
                reporter=reporter_for(console) if here.first else None,
                announce=partial(_announce, console, here) if _begins(spec, resume, here) else None,
            )
    except KeyboardInterrupt:
        console.print(_stopped(spec, here.world), soft_wrap=True, highlight=False)
        sys.exit(130)


@contextmanager
def _shown_notes(console: Console) -> Iterator[None]:
    """Show notes of the library as sentences, without the line of code that they come from."""
    with warnings.catch_warnings():
        usual = warnings.showwarning

        def show(message: Warning | str, category: type[Warning], *where: Any) -> None:
            if issubclass(category, Note):
                console.print(f"note: {message}", highlight=False, soft_wrap=True, markup=False)
            else:
                usual(message, category, *where)

        warnings.showwarning = show  # type: ignore[assignment]
        yield


def _notes(folder: Path, here: Ranks) -> list[str]:
    """What a continued run has to know of how it began."""
    threads = runfolder.began_with(folder, "threads")
    processes = runfolder.began_with(folder, "processes")
    notes = []
    if threads and threads != torch.get_num_threads():
        notes.append(f"continuing with {threads} threads, as at the start of the run")
    if processes and processes != here.world:
        notes.append(
            f"the run started with {processes} processes and continues with {here.world}; this "
            "changes the results only by rounding"
        )
    return notes


def _begins(spec: RunSpec, resume: bool, here: Ranks) -> bool:
    """Whether a new run begins, and this process speaks of it."""
    return here.first and not (resume and spec.out and (spec.out / RUN).exists())


def _announce(console: Console, here: Ranks, parts: Assembled) -> None:
    """What the run will do, and how long that takes here."""
    lines = [run_line(parts)]
    if here.world > 1:
        lines.append("Time:    not measured, because several processes train together")
    else:
        lines += _time_lines(forecast(parts, patience=PATIENCE, most=MEASURED), parts)
    console.print("\n".join(lines), soft_wrap=True, highlight=False, markup=False)


def _time_lines(coming: Forecast, parts: Assembled) -> list[str]:
    """How long the run takes, or why that is not known."""
    head = f"Time:    not measured within {PATIENCE:.0f} seconds, because"
    if coming.measured is None and parts.spec.compile:
        return [f"{head} compiling takes longer"]
    if coming.measured is None and parts.prepared.task.kind != "images":
        return [f"{head} a few batches take longer"]
    return [f"Time:    {coming.total()} on this machine", *scratch_lines(coming, parts)]


def _stopped(spec: RunSpec, processes: int) -> str:
    if not (spec.out and (spec.out / RUN).exists()):
        return "\nStopped before anything was written. Run the same command again."
    together = ["torchrun", "--nproc-per-node", str(processes), "-m"] if processes > 1 else []
    again = ["labelproof", "fit", "--out", str(spec.out), "--resume"]
    return (
        "\nStopped. Everything up to the last complete epoch is saved. To continue:\n  "
        f"{shlex.join([*together, *again])}"
    )


def in_words(folder: Path) -> str:
    """What a run found, in plain language."""
    summary = runfolder.read_summary(folder)
    record = runfolder.read_record(folder)
    lines = wording.of_labels(summary, record["task"]["size"])
    lines += [summary["joined"]["why"]] if summary.get("joined") else []
    lines += _annotated(summary)
    lines += _measured(summary, read_history(folder))
    lines.append(f"The report, for a browser: {folder / REPORT}")
    lines.append(f"Every label, the most suspicious first: {folder / LABELS}")
    return "\n".join(lines)


def _annotated(summary: dict[str, Any]) -> list[str]:
    """What several annotators and the model say together."""
    found = summary.get("annotators")
    if not found:
        return []
    alpha = found["alpha"]
    agree = f", agreement (Krippendorff's alpha) {alpha:.2f}" if alpha is not None else ""
    lines = [
        f"{found['count']} annotators gave {found['votes']} labels{agree}.",
        wording.consensus(found),
        _least_right(found["worst"][0]),
    ]
    if found["accuracy_consensus"] is not None:
        lines.append(
            "Measured against the true labels: the consensus is right for "
            f"{found['accuracy_consensus']:.1%} of the examples, the majority for "
            f"{found['accuracy_majority']:.1%}."
        )
    return lines


def _least_right(one: dict[str, Any]) -> str:
    """Who is right least often; or that this cannot be said."""
    if one["low"] is None:
        return wording.NO_QUALITY
    return (
        f"Least accurate annotator: {one['annotator']}, right for {one['quality']:.1%} of "
        f"{many(one['labels'], 'label')} (95% interval {one['low']:.1%} to {one['high']:.1%})."
    )


def _measured(summary: dict[str, Any], history: list[dict[str, Any]]) -> list[str]:
    lines = []
    if summary["accuracy"]:
        judged = wording.judged(summary)
        before = f" ({summary['ece']:.3f} before calibration)" if judged else ""
        error = f"Calibration error {summary['ece_calibrated']:.3f}{before}."
        lines.append(f"{wording.accuracy(summary, history)}. {error}")
    found = summary["suspect_detection"]
    if found and found["precision"] is not None and summary["error_auroc"] is not None:
        lines.append(
            f"Measured against the true labels: {found['precision']:.1%} of the suspects are "
            f"wrong, and they include {found['recall'] or 0:.1%} of all wrong labels. AUROC "
            f"{summary['error_auroc']:.3f}."
        )
    return lines
