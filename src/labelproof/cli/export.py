"""`labelproof export`: the trained model for use elsewhere."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from labelproof.runs.export import export_folder, export_onnx
from labelproof.runs.load import load_model


class Format(StrEnum):
    """What can be written."""

    onnx = "onnx"
    folder = "folder"


def export(
    run: Annotated[Path, typer.Argument(help="The folder of a finished run.", metavar="RUN")],
    format_: Annotated[
        Format,
        typer.Option("--format", help="One ONNX file, or a folder of safetensors and JSON."),
    ] = Format.onnx,
    out: Annotated[
        Path | None, typer.Option(help="RUN/model.onnx or RUN/model where left out.")
    ] = None,
) -> None:
    """Write the model of RUN for use elsewhere.

    ONNX takes raw uint8 images or raw vectors and gives calibrated probabilities: normalisation,
    all networks and the calibrated link are inside. A folder loads with labelproof.load_model and
    `labelproof predict`, executes no code, and holds no training label.

    Example: labelproof export runs/digits-dpc --format onnx --out model.onnx
    """
    loaded = load_model(run, device="cpu")
    if format_ is Format.onnx:
        out = out or run / "model.onnx"
        export_onnx(loaded.model, out)
    else:
        out = out or run / "model"
        export_folder(run, loaded, out)
    if format_ is Format.onnx and loaded.like.encoder is not None:
        Console(stderr=True).print(
            "note: it takes rows after encoding; `labelproof predict` reads the table itself.",
            soft_wrap=True,
            highlight=False,
        )
    Console(soft_wrap=True, highlight=False).print(str(out))
