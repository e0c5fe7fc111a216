"""`labelproof demo`: the main job in two minutes, on data that ships with scikit-learn."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

from labelproof.engine.log import reporter_for
from labelproof.errors import BadInput
from labelproof.fit import fit
from labelproof.recipes import own_data
from labelproof.sources import load

NOISE = "symmetric:0.4"
EPOCHS = 20  # enough for 1,437 pictures of 8 x 8 pixels


def demo(
    out: Annotated[Path, typer.Option(help="Where the two run folders go.")] = Path("runs/demo"),
    seed: Annotated[int, typer.Option(help="Decides everything random.")] = 0,
) -> None:
    """Hand-written digits with 40% of the labels redrawn: ordinary training against DPC.

    Takes one to two minutes on two cores. An earlier demo in the same folder is continued or shown.
    """
    console = Console(highlight=False)
    if out.is_file():
        raise BadInput(f"{out} is a file; name a folder for the demo with --out.")
    console.print(
        "scikit-learn's digits; 40% of the training labels are redrawn, so 36% are wrong "
        "(neither method is told which).\n"
    )
    examples = load("digits")
    for name in ("ce", "dpc"):
        fit(
            examples,
            replace(own_data(name, examples.kind), epochs=EPOCHS),  # type: ignore[type-var]
            name=name,
            noise=NOISE,
            seed=seed,
            out=out / name,
            resume=(out / name / "run.json").exists(),
            reporter=reporter_for(Console(stderr=True)),
            reading={"data": "digits", "test": None, "options": {}},
            command=("labelproof", "demo"),
        )
    summaries = {name: _summary(out / name) for name in ("ce", "dpc")}
    console.print(_table(summaries))
    console.print(_reading(summaries["dpc"]))
    console.print(f"\nThe report, for a browser: {out / 'dpc' / 'report.html'}")
    console.print(f"Every label, the most suspicious first: {out / 'dpc' / 'labels.csv'}")
    console.print("Now your own data: labelproof fit DATA", soft_wrap=True)


def _summary(folder: Path) -> dict[str, Any]:
    summary = json.loads((folder / "summary.json").read_text(encoding="utf-8"))
    assert isinstance(summary, dict)
    return summary


def _table(summaries: dict[str, dict[str, Any]]) -> Table:
    table = Table(box=None, pad_edge=False)
    for heading in ("", "ordinary training", "DPC"):
        table.add_column(heading, justify="left" if not heading else "right")
    both = [summaries["ce"], summaries["dpc"]]
    rows = {
        "test accuracy": [f"{s['accuracy']['last']:.1%}" for s in both],
        "labels called wrong": [str(s["suspects"]) for s in both],
        "  of these, really wrong": [f"{s['suspect_detection']['precision']:.0%}" for s in both],
        "  wrong labels found": [f"{s['suspect_detection']['recall']:.0%}" for s in both],
        "calibration error (ECE)": [f"{s['ece']:.3f}" for s in both],
        "seconds": [f"{s['seconds']:.0f}" for s in both],
    }
    for name, cells in rows.items():
        table.add_row(name, *cells)
    return table


def _reading(summary: dict[str, Any]) -> str:
    found = summary["suspect_detection"]
    return (
        f"\nDPC named {summary['suspects']} labels as wrong; {found['precision']:.0%} of them are, "
        f"and {found['recall']:.0%} of all wrong labels are among them."
    )
