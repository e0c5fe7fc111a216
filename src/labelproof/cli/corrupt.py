"""`labelproof corrupt`: wrong labels on purpose, in a new file."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from labelproof.choices import NOISE_KINDS
from labelproof.errors import BadInput
from labelproof.process_memory import paused

NEEDS_DATA = ("instance", "pmd-1", "pmd-2", "pmd-3")  # not for labels alone
KINDS_SHOWN = (
    ", ".join(
        "matrix:FILE" if kind == "matrix" else kind
        for kind in NOISE_KINDS
        if kind not in NEEDS_DATA
    )
    + "; options follow after commas, as in pair,select=per-class"
)


def corrupt(
    labels: Annotated[Path, typer.Argument(help="A CSV with a label column, or an .npy array.")],
    kind: Annotated[str, typer.Option(help=f"{KINDS_SHOWN}.")] = "symmetric",
    rate: Annotated[
        float | None,
        typer.Option(
            help="Noise rate, 0 to 1. symmetric-exclusive changes exactly this share. symmetric "
            "redraws this share, some of it to the same label, so fewer change. Other kinds "
            "change each label they concern with this probability. Not for --kind matrix:FILE."
        ),
    ] = None,
    seed: Annotated[
        int, typer.Option(help="Random seed: decides which labels change, and to what.")
    ] = 0,
    label_column: Annotated[
        str | None,
        typer.Option(help="Column with the labels; by default found by its name."),
    ] = None,
    out: Annotated[
        Path | None, typer.Option(help="File to write; by default next to LABELS.")
    ] = None,
) -> None:
    """Write a copy of LABELS with label noise. The original stays as it is.

    Example: labelproof corrupt labels.csv --kind symmetric --rate 0.4
    """
    if rate is None and not kind.startswith("matrix"):
        name = kind.split(",")[0].strip()
        raise BadInput(f"Noise of kind {name} needs a rate from 0 to 1; add --rate 0.4.")
    with paused():
        from labelproof.noise import corrupt_file  # needs PyTorch, and help does not

    made = corrupt_file(labels, kind, rate, seed=seed, out=out, label_column=label_column)
    count = len(made.noise.labels)
    changed = round(made.noise.realised * count)
    typer.echo(
        f"{changed} of {count} labels are wrong now ({made.noise.realised:.1%}).\nLabels: "
        f"{made.out}\nActual noise rate and transition matrix: {made.record}"
    )
