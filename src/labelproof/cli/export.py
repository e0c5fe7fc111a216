"""`labelproof export`: the trained model for use elsewhere."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from labelproof.data.encoders.pictures import PictureEncoding
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
        Path | None, typer.Option(help="Where to write; RUN/model.onnx or RUN/model by default.")
    ] = None,
) -> None:
    """Write the trained model of RUN, for use without its data.

    The ONNX file takes raw uint8 images or raw vectors and returns calibrated probabilities. The
    encoder of the images, normalisation, all networks and the calibration are inside. The folder is
    for labelproof.load_model and `labelproof predict`; loading it runs no code. Neither holds
    training labels.

    Example: labelproof export runs/digits-dpc --format onnx --out model.onnx
    """
    loaded = load_model(run, device="cpu")
    encoder = loaded.like.encoder
    encoding = encoder if isinstance(encoder, PictureEncoding) else None
    if format_ is Format.onnx:
        out = out or run / "model.onnx"
        export_onnx(loaded.model, out, encoding)
    else:
        out = out or run / "model"
        export_folder(run, loaded, out)
    if format_ is Format.onnx and encoder is not None and encoding is None:
        Console(stderr=True).print(
            "note: this file takes encoded rows; `labelproof predict` reads the table itself.",
            soft_wrap=True,
            highlight=False,
        )
    Console(soft_wrap=True, highlight=False).print(str(out))
