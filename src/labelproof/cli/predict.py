"""`labelproof predict`: what a trained model says of new data, written a batch at a time."""

from __future__ import annotations

import csv
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from rich.console import Console

from labelproof.cli.read_data import read_like
from labelproof.csv_files import safe
from labelproof.data.examples import Examples
from labelproof.data.readers import SourceOptions
from labelproof.errors import BadInput
from labelproof.files import without_waiting, written_whole
from labelproof.runs.load import load_model
from labelproof.runs.model import Model, Prediction
from labelproof.training.log import bar_in_terminal


def predict_as_asked(
    run: Path,
    data: str,
    *,
    out: Path,
    reading: SourceOptions,
    encoder: str | None,
    device: str,
) -> None:
    """Predict new data, and write what the model says."""
    loaded = load_model(run, encoder=encoder, device=device)
    if Path(data).exists() and out.exists() and out.samefile(data):
        raise BadInput(f"{out} is the data itself; name another --out.")
    replaced = check_replaced(out)
    examples = read_like(data, reading, loaded.like)
    console = Console(stderr=True)
    with bar_in_terminal(console) as bar:
        task = bar.add_task("predicting", total=len(examples))
        written = write_predictions(
            loaded.model, examples, out, lambda done: bar.update(task, completed=done)
        )
    Console(soft_wrap=True, highlight=False).print(in_words(written, out, replaced))


def in_words(written: Written, out: Path, replaced: bool = False) -> str:
    """What was written, and how far it agrees with labels that came along."""
    text = f"{written.rows} predictions: {out}" + " (earlier ones replaced)" * replaced
    if written.labelled:
        share = written.agreeing / written.labelled
        text += f"\nThey agree with {share:.1%} of the labels that came with the data."
    return text


COLUMNS = ("id", "label", "confidence", "uncertainty")


@dataclass(frozen=True, kw_only=True)
class Written:
    """How many rows were written, and how many labels that came with the data were met."""

    rows: int
    labelled: int
    agreeing: int


def header(classes: Sequence[str]) -> list[str]:
    """The columns: four of them, then the probability of each class."""
    return [*COLUMNS, *(f"p_{name}" for name in classes)]


def check_replaced(out: Path) -> bool:
    """Whether predictions are there already; refuses a file that holds something else."""
    if not out.exists():
        return False
    first = b",".join(name.encode() for name in COLUMNS)
    found = _beginning(out, len(first)) if out.is_file() else None
    if found not in (first, b""):  # an empty file is nobody's work
        raise BadInput(f"{out} exists and is not a file of predictions; name another --out.")
    return found == first


def _beginning(path: Path, size: int) -> bytes:
    with open(path, "rb", opener=without_waiting) as file:
        return file.read(size)


def write_predictions(
    model: Model, data: Examples, out: Path, step: Callable[[int], None] = lambda done: None
) -> Written:
    """Predict all examples and write a row for each, in order, holding one batch at a time.

    `step` is called with the number of rows written so far.
    """
    if not out.absolute().parent.is_dir():
        raise BadInput(f"{out} cannot be written: its folder does not exist; name another --out.")
    check_replaced(out)
    agreeing = done = 0
    with written_whole(out) as aside, aside.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(header(model.classes))
        for part in model.batches(data.x):
            writer.writerows(_rows(model, data, part, done))
            if data.labels is not None:
                given = torch.as_tensor(data.labels[done : done + len(part.label)])
                agreeing += int((part.label == given).sum())
            done += len(part.label)
            step(done)
    labelled = done if data.labels is not None else 0
    return Written(rows=done, labelled=labelled, agreeing=agreeing)


def _rows(model: Model, data: Examples, part: Prediction, start: int) -> Iterator[list[str]]:
    labels, sure, unsure = part.label.tolist(), part.confidence.tolist(), part.uncertainty.tolist()
    for place, probs in enumerate(part.probabilities.tolist()):
        name = data.ids[start + place] if data.ids is not None else str(start + place)
        numbers = (sure[place], unsure[place], *probs)
        yield [
            safe(name),
            safe(model.classes[labels[place]]),
            *(f"{number:.6f}" for number in numbers),
        ]
