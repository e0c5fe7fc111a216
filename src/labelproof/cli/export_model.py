"""`labelproof export`: the trained model, or what is known of the labels, for use elsewhere."""

from __future__ import annotations

from pathlib import Path

from rich.console import Console

from labelproof.cli.make_report import shown_of
from labelproof.cli.options import Format
from labelproof.data.encoders.picture_encoding import PictureEncoding
from labelproof.data.encoders.texts import AnyTexts
from labelproof.review.annotation_tools import write_project, write_samples
from labelproof.review.corrected import check_out
from labelproof.review.with_columns import write_dataset, write_with_findings
from labelproof.runs.export import export_folder, export_onnx
from labelproof.runs.export_texts import export_texts
from labelproof.runs.load import load_model
from labelproof.runs.reviewed import open_review

USUAL = {  # the file in the run folder, unless --out names another
    Format.onnx: "model.onnx",
    Format.folder: "model",
    Format.label_studio: "label-studio.json",
    Format.fiftyone: "fiftyone.json",
    Format.huggingface: "dataset",
    Format.table: "table.csv",
}
TEXTS = "model-onnx"  # the folder of a model of texts


def export_as_asked(
    run: Path, format_: Format, out: Path | None, data: str | None, encoder: str | None
) -> None:
    """Write the model or the findings."""
    if format_ in (Format.onnx, Format.folder):
        out = _model(run, format_, out, encoder)
    else:
        out = out or run / USUAL[format_]
        _labels(run, format_, out, data)
    Console(soft_wrap=True, highlight=False).print(str(out))


def _model(run: Path, format_: Format, named: Path | None, place: str | None) -> Path:
    """Write the model; returns where."""
    loaded = load_model(run, encoder=place, device="cpu")
    encoder = loaded.like.encoder
    whole = isinstance(encoder, AnyTexts) and format_ is Format.onnx
    out = named or run / (TEXTS if whole else USUAL[format_])
    encoding = encoder if isinstance(encoder, PictureEncoding) else None
    if format_ is Format.folder:
        export_folder(run, loaded, out)
        return out
    if isinstance(encoder, AnyTexts) and out.suffix != ".onnx":
        export_texts(loaded.model, encoder, out)
        return out
    export_onnx(loaded.model, out, encoding)
    if isinstance(encoder, AnyTexts):
        _note(
            "this file takes encoded texts. To export a model that takes raw texts, name a "
            "folder with --out."
        )
    elif encoder is not None and encoding is None:
        _note(
            "this file takes encoded rows, not the columns of your table; for raw rows, use "
            "--format folder with labelproof.load_model, or `labelproof predict`."
        )
    return out


def _labels(run: Path, format_: Format, out: Path, data: str | None) -> None:
    review = open_review(run, data=data)
    check_out(review, out)
    if format_ is Format.label_studio:
        setup = write_project(review, out, shown_of(review)[0])
        _note(f"the labelling configuration for these tasks is in {setup}.")
    elif format_ is Format.fiftyone:
        write_samples(review, out)
    elif format_ is Format.huggingface:
        write_dataset(review, out)
    else:
        write_with_findings(review, out)


def _note(text: str) -> None:
    Console(stderr=True).print(f"note: {text}", soft_wrap=True, highlight=False)
